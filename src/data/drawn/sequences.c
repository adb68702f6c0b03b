/* Sequences of tokens, a kind of dataset: windows of running text, or padded pieces, each with
 * beginning and end. The target of a token is the next one:
 *     target[t] = x[t + 1]      -100 before the first target (of the completion; with
 *                               dt_loader_options.prompts the second token), for tokens of a
 *                               chat outside of answers, and in padding
 * Windows of epoch e begin at begin + offset + w T. Block e of the seed's stream for shuffling has
 * two keys: for the order, and for the offset. Unshuffled, the offset is 0. */
#include "data/dataset.h"

#include "data/text/tokenizer.h"

#include <string.h>

dt__token_store *dt__token_store_create(dt_ctx *ctx)
{
    dt__token_store *s = dt__alloc_zero(ctx, sizeof *s);
    if (s == NULL) return NULL;
    s->ctx = ctx;
    s->refs = 1;
    s->ids.ctx = s->learned.ctx = ctx;
    return s;
}

void dt__token_store_release(dt__token_store *s)
{
    if (s == NULL || --s->refs > 0) return;
    dt_ids_free(&s->ids);
    dt_tokens_free(s->file);
    dt__release(s->ctx, s->learned.bytes);
    dt__release(s->ctx, s);
}

int64_t dt__token_store_count(const dt__token_store *s)
{
    return s->file == NULL ? s->ids.n : dt_tokens_count(s->file);
}

static int32_t id_at(const dt__token_store *s, int64_t i)
{
    return s->file == NULL ? s->ids.id[i] : dt_tokens_at(s->file, i);
}

/* A window needs T tokens and the next one, for every offset. */
static int64_t shuffled(const dt_dataset *d)
{
    if (d->pieces != NULL) return d->count;
    if (d->length - 1 < d->context) return 0;
    return dt__max_i64(1, (d->length - d->context) / d->context);
}

static int64_t offset_of(const dt__batch *b)
{
    const dt_dataset *d = b->d;
    if (d->pieces != NULL || !b->options->shuffle) return 0;
    const int64_t range = dt__min_i64(d->context, d->length - shuffled(d) * d->context);
    dt__stream s = { .key = dt__keys_of_epoch(b->options->seed, DT__FOR_SHUFFLE, b->epoch).second };
    return (int64_t)dt__random_below(&s, (uint64_t)range);
}

static dt__sequence piece_of(const dt_dataset *d, int64_t offset, int64_t example)
{
    if (d->pieces != NULL) return ((const dt__sequence *)d->pieces->data)[d->first + example];
    const int64_t at = offset + example * d->context;
    return (dt__sequence){ d->begin + at, dt__min_i64(d->context + 1, d->length - at), 1 };
}

/* The index of a piece's first target. */
static int64_t first_target(const dt__sequence *p, const dt_loader_options *o)
{
    return o->prompts ? 1 : p->first;
}

/* Whether the token at index i of a piece is a target, i >= first_target. */
static bool is_learned(const dt_dataset *d, const dt__sequence *p, int64_t i,
                       const dt_loader_options *o)
{
    const dt__chars *learned = &d->store->learned;
    return o->prompts || learned->used == 0 || learned->bytes[p->begin + i] != 0;
}

static int64_t labels(const dt__batch *b, int64_t example)
{
    const dt__sequence p = piece_of(b->d, 0, example);
    int64_t n = 0;
    for (int64_t i = first_target(&p, b->options); i < p.n; i++) {
        n += is_learned(b->d, &p, i, b->options);
    }
    return n;
}

/* The token that pads a window; its label is ignored. */
static int32_t padding_of(const dt_dataset *d)
{
    if (d->tokenizer == NULL) return 0;
    const int32_t pad = dt_tokenizer_tokens(d->tokenizer).pad;
    const int32_t end = dt_tokenizer_end(d->tokenizer);
    return pad >= 0 ? pad : end >= 0 ? end : 0;
}

static void fill(const dt__batch *b)
{
    const dt_dataset *d = b->d;
    const int64_t offset = offset_of(b);
    const int32_t padding = padding_of(d);
    int32_t *x = b->x, *target = b->target;
    for (int64_t i = 0; i < b->n; i++, x += d->context, target += d->context) {
        const dt__sequence p = piece_of(d, offset, dt__batch_example(b, i));
        const int64_t first = first_target(&p, b->options);
        for (int64_t t = 0; t < d->context; t++) {
            const int64_t next = t + 1;
            x[t] = next < p.n ? id_at(d->store, p.begin + t) : padding;
            const bool counts = next < p.n && next >= first && is_learned(d, &p, next, b->options);
            target[t] = counts ? id_at(d->store, p.begin + next) : DT__NO_LABEL;
        }
    }
}

static dt_status check(const dt_dataset *d, const dt_loader_options *o)
{
    const dt_augment_options *a = &o->augment;
    const bool changes =
        a->scale != 0 || a->jitter != 0 || a->time_mask != 0 || dt__images_change(a);
    if (a->shift == 0 && a->crop == 0 && !a->flip && !changes) return DT_OK;
    return dt_fail(d->ctx, DT_ERR_ARG, "loader: tokens can be neither moved nor mirrored");
}

static void sides(const dt_dataset *d, dt__side *x, dt__side *target)
{
    *x = *target = (dt__side){ DT_I32, 1, { d->context } };
}

/* In running text the token at the split is both the last target of the first part and the first
 * token of the second. */
static void split(dt_dataset *d, dt_dataset *last, int64_t count)
{
    d->count -= count;
    last->count = count;
    if (d->pieces != NULL) {
        last->first += d->count;
        dt__storage_retain(d->pieces);
    } else {
        const int64_t cut = dt__min_i64(d->count * d->context, d->length - 1);
        last->begin += cut;
        last->length -= cut;
        d->length = cut + 1;
    }
    d->store->refs++;
    dt__tokenizer_retain(d->tokenizer);
    dt__text_retain(d->prompt);
    dt__text_retain(d->completion);
    dt__text_retain(d->system);
}

static void drop(dt_dataset *d)
{
    dt__token_store_release(d->store);
    dt__storage_release(d->pieces);
    dt_tokenizer_free(d->tokenizer);
    dt__text_release(d->prompt);
    dt__text_release(d->completion);
    dt__text_release(d->system);
}

const dt__data_kind dt__data_sequences = {
    .examples = "sequences of tokens",
    .shuffled = shuffled,
    .check = check,
    .sides = sides,
    .fill = fill,
    .labels = labels,
    .split = split,
    .drop = drop,
};

dt_status dt__sequences_wrap(dt_ctx *ctx, const dt_dataset *fields, dt_dataset **out)
{
    dt_dataset d = *fields;
    d.kind = &dt__data_sequences;
    d.target = DT_TARGET_TOKENS;
    if (d.pieces == NULL) d.count = dt__ceil_div(d.length - 1, d.context);
    return dt__dataset_make(ctx, &d, out);
}

int64_t dt_dataset_context(const dt_dataset *d) { return d == NULL ? 0 : d->context; }
const dt_tokenizer *dt_dataset_tokenizer(const dt_dataset *d)
{
    if (d == NULL) return NULL;
    return d->tokenizer;
}
bool dt_dataset_is_prompted(const dt_dataset *d)
{
    if (d == NULL) return false;
    return d->target == DT_TARGET_TOKENS && d->pieces != NULL;
}

dt_status dt_text_create(dt_ctx *ctx, const int32_t *ids, int64_t n, int64_t vocab, int64_t context,
                         dt_dataset **out)
{
    DT__NEED2(ctx, ctx, out);
    *out = NULL;
    if (n < 2 || context < 1 || vocab < 1) {
        return dt_fail(ctx, DT_ERR_ARG,
                       "text: %lld tokens of a vocabulary of %lld in windows of %lld: expected at "
                       "least 2 of 1 in windows of 1",
                       (long long)n, (long long)vocab, (long long)context);
    }
    for (int64_t i = 0; i < n; i++) {
        if (ids[i] >= 0 && ids[i] < vocab) continue;
        return dt_fail(ctx, DT_ERR_ARG, "text: id %d at place %lld: expected 0 to %lld", ids[i],
                       (long long)i, (long long)vocab - 1);
    }
    dt__token_store *store = dt__token_store_create(ctx);
    if (store == NULL) return DT_ERR_NOMEM;
    store->ids.id = dt__alloc_array(ctx, n, sizeof *ids);
    if (store->ids.id == NULL) {
        dt__token_store_release(store);
        return DT_ERR_NOMEM;
    }
    memcpy(store->ids.id, ids, (size_t)n * sizeof *ids);
    store->ids.n = store->ids.room = n;
    const dt_dataset d = { .classes = vocab, .context = context, .store = store, .length = n };
    return dt__sequences_wrap(ctx, &d, out);
}

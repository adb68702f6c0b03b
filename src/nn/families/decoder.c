/* A decoder: runs a language model on successive tokens and returns the logits of the next one.
 *
 * Its tape has a key-value cache (cache.h), so a pass computes only its new tokens, and logits only
 * for the last of them. Each call is divided into passes of at most PASS_TOKENS tokens, so that
 * memory beside the cache is bounded.
 *
 * With longrope, keys depend on whether the text is longer than `near` tokens. When a feed makes
 * the text longer than that, or follows a rewind to a shorter text, all tokens are run again; the
 * first `near` ids are kept for this. */
#include "nn/cache/cache.h"

#include <detent/ops.h>
#include <string.h>

#define PASS_TOKENS 512

struct dt_decoder {
    dt_ctx *ctx;
    dt_module *m; /* lent */
    const dt_language *language;
    dt_tape *t;
    dt__cache cache;
    dt_tensor *logits; /* [vocab] */
    /* texts longer than this have other keys and values; 0: there is no such limit */
    int64_t near;
    int32_t *id;  /* the first tokens, at most `near` */
    int rotation; /* NEAR or FAR: which text the cache is valid for; MIXED: a pass failed */
};

enum { NEAR, FAR, MIXED };

/* ---- a pass --------------------------------------------------------------------------------- */

static dt_tensor *ids_of(dt_tape *t, const int32_t *ids, int64_t n)
{
    dt_tensor *x = NULL;
    dt_status s = dt_tensor_from(t->ctx, DT_I32, 2, (const int64_t[]){ 1, n }, ids, &x);
    if (s == DT_OK) s = dt__tape_lend(t, x);
    if (s == DT_OK) return x;
    dt__tape_adopt(t, s);
    return NULL;
}

/* The hidden state of the last token of x [1, n, width]. */
static dt_tensor *last_of(dt_tape *t, dt_tensor *x)
{
    dt_tensor *row;
    if (x == NULL) return NULL;
    dt_status s = dt_tensor_narrow(x, 1, x->dims[1] - 1, 1, &row);
    if (s == DT_OK) s = dt__tape_lend(t, row);
    if (s == DT_OK) return row;
    dt__tape_adopt(t, s);
    return NULL;
}

/* If *user is true, the logits of the last token, [1, 1, vocab]; else the hidden states, [1, n,
 * width]. */
static void run_model(void *user, dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in,
                      dt_tensor **out, int n_out)
{
    const dt_language *language = m->type->language;
    const bool *last = user;
    (void)n_in;
    (void)n_out;
    out[0] = language->hidden(t, m, in[0], NULL);
    if (*last) out[0] = dt_forward(t, language->head(m), last_of(t, out[0]));
}

static dt_tensor *forward(const dt_decoder *d, const int32_t *ids, int64_t n, bool last)
{
    dt_tensor *in = ids_of(d->t, ids, n), *x = NULL;
    dt__forward_call(d->t, &(dt__module_call){ d->m, &in, 1, &x, 1, { run_model, &last, false } });
    return x;
}

static dt_status take_logits(dt_decoder *d, dt_tensor *from)
{
    const int64_t vocab = d->logits->count;
    if (from->dtype != DT_F32 || from->count != vocab) {
        char has[160];
        dt_describe(from, has, sizeof has);
        return dt_fail(d->ctx, DT_ERR_SHAPE, "decoder: the head made %s, not f32[1,1,%lld]", has,
                       (long long)vocab);
    }
    const float *logits = dt_data(from);
    if (logits == NULL) return dt_error_status(d->ctx);
    memcpy(dt_data_mut(d->logits), logits, (size_t)vocab * sizeof *logits);
    return DT_OK;
}

/* Appends n tokens, at most PASS_TOKENS. */
static dt_status pass(dt_decoder *d, const int32_t *ids, int64_t n, bool last)
{
    dt_tape_reset(d->t);
    d->cache.at = 0;
    dt_tensor *x = forward(d, ids, n, last);
    dt_status s = dt_tape_status(d->t);
    if (s == DT_OK && last) s = take_logits(d, dt_contiguous(d->t, x));
    dt_tape_reset(d->t);
    if (s == DT_OK) d->cache.length += n;
    return s;
}

/* ---- feeding -------------------------------------------------------------------------------- */

static dt_status check(const dt_decoder *d, const int32_t *ids, int64_t n)
{
    const int64_t vocab = d->logits->count, length = d->cache.length;
    if (n < 1) return dt_fail(d->ctx, DT_ERR_ARG, "decoder: no token is fed");
    if (n > d->cache.capacity - length) {
        return dt_fail(d->ctx, DT_ERR_STATE,
                       "decoder: it has %lld tokens and is fed %lld more; its capacity is %lld",
                       (long long)length, (long long)n, (long long)d->cache.capacity);
    }
    for (int64_t i = 0; i < n; i++) {
        if (ids[i] >= 0 && ids[i] < vocab) continue;
        return dt_fail(d->ctx, DT_ERR_ARG, "decoder: token %lld is %d; ids lie in 0...%lld",
                       (long long)i, (int)ids[i], (long long)vocab - 1);
    }
    if (!d->m->training) return DT_OK;
    return dt_fail(d->ctx, DT_ERR_STATE, "decoder: the model is in training mode");
}

static dt_status passes(dt_decoder *d, const int32_t *ids, int64_t n, bool last)
{
    for (int64_t i = 0; i < n; i += PASS_TOKENS) {
        const int64_t part = dt__min_i64(PASS_TOKENS, n - i);
        DT__TRY(pass(d, ids + i, part, last && i + part == n));
    }
    return DT_OK;
}

/* Runs the cached tokens again, when the text changes from NEAR to FAR or back. */
static dt_status turn(dt_decoder *d, int64_t n)
{
    const int64_t length = d->cache.length;
    const int wanted = d->near > 0 && length + n > d->near ? FAR : NEAR;
    d->cache.text = length + n;
    if (d->rotation == wanted) return DT_OK;
    d->rotation = MIXED;
    d->cache.length = 0;
    const dt_status s = passes(d, d->id, length, false);
    d->cache.length = length;
    if (s == DT_OK) d->rotation = wanted;
    return s;
}

static void keep_ids(dt_decoder *d, int64_t at, const int32_t *ids, int64_t n)
{
    if (at >= d->near) return;
    memcpy(d->id + at, ids, (size_t)dt__min_i64(n, d->near - at) * sizeof *ids);
}

dt_status dt_decoder_feed(dt_decoder *d, const int32_t *ids, int64_t n, dt_tensor **logits)
{
    DT__NEED(NULL, d);
    if (n > 0) DT__NEED(NULL, ids);
    DT__NEED(NULL, logits);
    *logits = NULL;
    DT__TRY(check(d, ids, n));
    const int64_t start = d->cache.length;
    DT__TRY(turn(d, n));
    const dt_status s = passes(d, ids, n, true);
    if (s != DT_OK) {
        d->cache.length = start;
        return s;
    }
    keep_ids(d, start, ids, n);
    *logits = d->logits;
    return DT_OK;
}

int64_t dt_decoder_length(const dt_decoder *d) { return d == NULL ? 0 : d->cache.length; }
int64_t dt_decoder_capacity(const dt_decoder *d) { return d == NULL ? 0 : d->cache.capacity; }

dt_status dt_decoder_rewind(dt_decoder *d, int64_t length)
{
    DT__NEED(NULL, d);
    if (length < 0 || length > d->cache.length) {
        return dt_fail(d->ctx, DT_ERR_ARG, "decoder: it has %lld tokens, not %lld",
                       (long long)d->cache.length, (long long)length);
    }
    d->cache.length = length;
    return DT_OK;
}

/* ---- creating and freeing ------------------------------------------------------------------- */

/* Feeds one token, so that every layer's cache and the pool's blocks are allocated. */
static dt_status warm_up(dt_decoder *d)
{
    const int32_t id = 0;
    dt_tensor *logits;
    DT__TRY(dt_decoder_feed(d, &id, 1, &logits));
    return dt_decoder_rewind(d, 0);
}

static dt_status open(dt_decoder *d)
{
    const int64_t vocab = d->language->vocab(d->m);
    DT__TRY(dt_tensor_create(d->ctx, DT_F32, 1, &vocab, &d->logits));
    DT__TRY(dt_tape_create(d->ctx, &d->t));
    dt_no_grad(d->t, true);
    d->t->cache = &d->cache;
    if (d->near > 0) {
        d->id = dt__alloc_array(d->ctx, d->near, sizeof *d->id);
        if (d->id == NULL) return DT_ERR_NOMEM;
    }
    dt_train(d->m, false);
    return warm_up(d);
}

static dt_status check_model(dt_module *m, const dt_decoder_options *o)
{
    const int64_t capacity = o->capacity;
    if (m->type->language == NULL) {
        return dt_fail(m->ctx, DT_ERR_ARG, "decoder: a %s is not a language model", m->type->name);
    }
    const int64_t context = dt__min_i64(m->type->language->context(m), INT32_MAX);
    if (capacity < 0 || capacity > context) {
        return dt_fail(m->ctx, DT_ERR_ARG,
                       "decoder: a capacity of %lld; the model's context is %lld",
                       (long long)capacity, (long long)context);
    }
    return dt__cache_check(m->ctx, "decoder", o->cache);
}

dt_decoder_options dt_decoder_defaults(void)
{
    return (dt_decoder_options){ .cache = DT_CACHE_F32 };
}

dt_status dt_decoder_create(dt_module *m, const dt_decoder_options *options, dt_decoder **out)
{
    DT__NEED2(dt_module_ctx(m), m, out);
    const dt_decoder_options o = options == NULL ? dt_decoder_defaults() : *options;
    *out = NULL;
    DT__TRY(check_model(m, &o));
    dt_ctx *ctx = m->ctx;
    dt_decoder *d = dt__alloc_zero(ctx, sizeof *d);
    if (d == NULL) return DT_ERR_NOMEM;
    const dt_language *language = m->type->language;
    *d = (dt_decoder){ .ctx = ctx, .m = m, .language = language };
    d->cache.capacity = o.capacity > 0 ? o.capacity : language->context(m);
    d->cache.kind = o.cache;
    if (language->near_tokens != NULL && language->near_tokens(m) < d->cache.capacity) {
        d->near = language->near_tokens(m);
    }
    dt__ctx_retain(ctx);
    const dt_status s = open(d);
    if (s == DT_OK) *out = d;
    else dt_decoder_free(d);
    return s;
}

void dt_decoder_free(dt_decoder *d)
{
    if (d == NULL) return;
    dt_ctx *ctx = d->ctx;
    dt_tape_free(d->t);
    dt__cache_free(ctx, &d->cache);
    dt_tensor_free(d->logits);
    DT__RELEASE(ctx, d->id, d);
    dt__ctx_release(ctx);
}

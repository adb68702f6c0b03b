/* Functions that all tokenizers share: tokens' bytes to ids and back, added tokens, the template.
 *
 * Text is split at added tokens: the leftmost first, and of several at one position the longest.
 * The text between them is normalized and split at the added tokens of the second class; the
 * remaining text is encoded by the tokenizer's kind. */
#include "core/system/atomic_file.h"
#include "core/text/utf8.h"
#include "data/text/tokenizer.h"

#include <string.h>
#include <xxhash.h>

/* ---- ids ------------------------------------------------------------------------------------ */

void dt_ids_free(dt_ids *ids)
{
    if (ids == NULL) return;
    if (ids->id != NULL) dt__release(ids->ctx, ids->id);
    *ids = (dt_ids){ .ctx = ids->ctx };
}

dt_status dt_ids_put(dt_ids *ids, int32_t id)
{
    DT__NEED2(NULL, ids, ids->ctx);
    DT__TRY(DT__RESERVE(ids->ctx, ids->id, ids->n, ids->room));
    ids->id[ids->n++] = id;
    return DT_OK;
}

static dt_status put_all(dt_ids *ids, const dt_ids *from)
{
    for (int64_t i = 0; i < from->n; i++) DT__TRY(dt_ids_put(ids, from->id[i]));
    return DT_OK;
}

/* ---- making --------------------------------------------------------------------------------- */

dt_status dt__tokenizer_new(dt_ctx *ctx, int64_t vocab, size_t bytes, dt_tokenizer **out)
{
    dt_tokenizer *k = dt__alloc_zero(ctx, sizeof *k);
    *out = NULL;
    if (k == NULL) return DT_ERR_NOMEM;
    k->ctx = ctx;
    dt__ctx_retain(ctx);
    atomic_init(&k->refs, 1);
    k->vocab = vocab;
    k->tokens = DT_NO_TEXT_TOKENS;
    k->before.ctx = k->after.ctx = ctx;
    k->bytes = dt__alloc(ctx, bytes);
    k->token = dt__alloc_array(ctx, vocab, sizeof *k->token);
    if (k->bytes == NULL || k->token == NULL) {
        dt_tokenizer_free(k);
        return DT_ERR_NOMEM;
    }
    memset(k->token, 0, (size_t)vocab * sizeof *k->token);
    *out = k;
    return DT_OK;
}

dt_tokenizer *dt__tokenizer_retain(dt_tokenizer *k)
{
    if (k != NULL) atomic_fetch_add(&k->refs, 1);
    return k;
}

void dt_tokenizer_free(dt_tokenizer *k)
{
    if (k == NULL || atomic_fetch_sub(&k->refs, 1) != 1) return;
    dt_ctx *ctx = k->ctx;
    dt_ids_free(&k->before);
    dt_ids_free(&k->after);
    DT__RELEASE(ctx, k->token, k->bytes, k->slot, k->added.at, k->added.bytes.bytes, k->bpe.merge,
                k->bpe.slot, k);
    dt__ctx_release(ctx);
}

/* ---- bytes to ids --------------------------------------------------------------------------- */

int32_t *dt__slots(dt_ctx *ctx, int64_t n, uint32_t *mask)
{
    int64_t size = 16;
    while (size < 2 * n) size *= 2;
    int32_t *slot = dt__alloc_array(ctx, size, sizeof *slot);
    if (slot != NULL) memset(slot, 0xff, (size_t)size * sizeof *slot);
    *mask = (uint32_t)(size - 1);
    return slot;
}

/* The slot with these bytes, or the empty one for inserting them. */
static uint32_t slot_of(const dt_tokenizer *k, const char *bytes, size_t n)
{
    uint32_t s = (uint32_t)XXH3_64bits(bytes, n) & k->mask;
    for (; k->slot[s] >= 0; s = (s + 1) & k->mask) {
        const dt__token *t = &k->token[k->slot[s]];
        if (t->n == n && memcmp(k->bytes + t->at, bytes, n) == 0) break;
    }
    return s;
}

dt_status dt__tokenizer_index(dt_tokenizer *k, int32_t *twice)
{
    *twice = -1;
    k->slot = dt__slots(k->ctx, k->vocab, &k->mask);
    if (k->slot == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < k->vocab; i++) {
        const dt__token *t = &k->token[i];
        if (!t->there) continue;
        const uint32_t s = slot_of(k, k->bytes + t->at, t->n);
        if (k->slot[s] >= 0) *twice = (int32_t)i;
        else k->slot[s] = (int32_t)i;
    }
    return DT_OK;
}

int32_t dt__tokenizer_find(const dt_tokenizer *k, const char *bytes, size_t n)
{
    return k->slot[slot_of(k, bytes, n)];
}

/* ---- added tokens --------------------------------------------------------------------------- */

/* Narrows [low, high), the sorted patterns that match the first d bytes of the text, to those that
 * match one byte more. All of them are longer than d. */
static void narrow(const dt_tokenizer *k, unsigned char c, size_t d, int64_t *low, int64_t *high)
{
    for (int side = 0; side < 2; side++) {
        int64_t a = *low, b = *high; /* the first whose byte is >= c; > c */
        while (a < b) {
            const int64_t middle = a + (b - a) / 2;
            const dt__pattern *p = &k->added.at[middle];
            const unsigned char byte = (unsigned char)p->text[d];
            if (byte < c || (side == 1 && byte == c)) a = middle + 1;
            else b = middle;
        }
        *(side == 0 ? low : high) = a;
    }
}

/* The longest pattern of a class at the beginning of the text; NULL: none. */
static const dt__pattern *added_at(const dt_tokenizer *k, int klass, dt__passage t)
{
    int64_t low = k->added.first[klass], high = k->added.first[klass + 1];
    const dt__pattern *found = NULL;
    for (size_t d = 0; low < high; d++) {
        /* They are distinct, and the shortest comes first. */
        if (k->added.at[low].n == d) found = &k->added.at[low++];
        if (t.at + d == t.end) break;
        narrow(k, t.at[d], d, &low, &high);
    }
    return found;
}

typedef struct coding {
    const dt_tokenizer *k;
    bool special; /* special added tokens are recognized */
    dt_ids *ids;
} coding;

static bool is_space(const unsigned char *p, const unsigned char *end, int *n)
{
    *n = dt__utf8_length(p, end);
    return *n > 0 && (dt__split_class(dt__utf8_get(p, *n)) & (8 | 16)) != 0;
}

/* The end of the white space that begins at p. */
static const unsigned char *after_space(const unsigned char *p, const unsigned char *end)
{
    int n;
    while (p < end && is_space(p, end, &n)) p += n;
    return p;
}

/* The beginning of the white space that ends at p, not before `begin`. */
static const unsigned char *before_space(const unsigned char *begin, const unsigned char *p)
{
    int n;
    for (const unsigned char *q = p; q > begin; p = q) {
        do q--;
        while (q > begin && (*q & 0xc0) == 0x80);
        if (!is_space(q, p, &n) || q + n != p) break;
    }
    return p;
}

static dt_status encode_plain(const coding *c, dt__passage t)
{
    dt_ctx *ctx = c->k->ctx;
    dt__chars room[2] = { { .ctx = ctx }, { .ctx = ctx } };
    dt_status s = dt__steps_edit(&c->k->pre_tokenizer, &t, room);
    if (s == DT_OK && t.at < t.end) {
        s = c->k->kind->encode(c->k, t.at, (size_t)(t.end - t.at), c->ids);
    }
    for (int i = 0; i < 2; i++) dt__release(ctx, room[i].bytes);
    return s;
}

static dt_status encode_class(const coding *c, int klass, dt__passage t);

/* Encodes text without the added tokens of the classes up to `klass`. */
static dt_status encode_between(const coding *c, int klass, dt__passage t)
{
    dt_ctx *ctx = c->k->ctx;
    dt__chars room[2] = { { .ctx = ctx }, { .ctx = ctx } };
    if (t.at >= t.end) return DT_OK;
    if (klass == 1) return encode_plain(c, t);
    dt_status s = dt__steps_edit(&c->k->normalizer, &t, room);
    if (s == DT_OK) s = c->special ? encode_class(c, 1, t) : encode_plain(c, t);
    for (int i = 0; i < 2; i++) dt__release(ctx, room[i].bytes);
    return s;
}

static dt_status encode_class(const coding *c, int klass, dt__passage t)
{
    const dt_tokenizer *k = c->k;
    /* begin: the first byte that is not encoded yet */
    const unsigned char *const start = t.at, *begin = t.at;
    if (k->added.first[klass] == k->added.first[klass + 1]) return encode_between(c, klass, t);
    while (t.at < t.end) {
        const dt__pattern *found = added_at(k, klass, t);
        if (found == NULL) {
            t.at++;
            continue;
        }
        const dt__token *token = &k->token[found->id];
        const unsigned char *from = token->left ? before_space(begin, t.at) : t.at;
        const dt__passage before = { begin, from, t.first && begin == start };
        DT__TRY(encode_between(c, klass, before));
        DT__TRY(dt_ids_put(c->ids, found->id));
        begin = t.at += found->n;
        if (token->right) begin = after_space(begin, t.end);
    }
    return encode_between(c, klass, (dt__passage){ begin, t.end, t.first && begin == start });
}

/* ---- the public half ------------------------------------------------------------------------ */

dt_status dt_tokenizer_encode(const dt_tokenizer *k, const char *text_, size_t bytes,
                              const dt_encoding *o, dt_ids *ids)
{
    DT__NEED(NULL, k);
    if (bytes > 0) DT__NEED(NULL, text_);
    DT__NEED(NULL, ids);
    const dt_encoding how = o == NULL ? (dt_encoding){ false, false } : *o;
    const unsigned char *begin = (const unsigned char *)text_;
    if (ids->ctx == NULL) ids->ctx = k->ctx;
    const int64_t before = ids->n;
    dt_status status = how.wrap ? put_all(ids, &k->before) : DT_OK;
    if (status == DT_OK && bytes > 0) {
        const coding c = { k, how.special, ids };
        const dt__passage t = { begin, begin + bytes, true };
        status = how.special ? encode_class(&c, 0, t) : encode_between(&c, 0, t);
    }
    if (status == DT_OK && how.wrap) status = put_all(ids, &k->after);
    if (status != DT_OK) ids->n = before;
    return status;
}

int32_t dt_tokenizer_id(const dt_tokenizer *k, const char *token)
{
    if (k == NULL) return 0;
    if (token == NULL) return 0;
    const size_t n = strlen(token);
    for (int64_t i = 0; i < k->added.first[2]; i++) {
        const dt__token *t = &k->token[k->added.at[i].id];
        if (t->n == n && memcmp(k->bytes + t->at, token, n) == 0) return k->added.at[i].id;
    }
    return dt__tokenizer_find(k, token, n);
}

int32_t dt_tokenizer_end(const dt_tokenizer *k)
{
    if (k == NULL) return 0;
    static const char *const names[] = { "<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>" };
    if (k->tokens.n_end > 0) return k->tokens.end[0];
    for (int i = 0; i < DT__COUNT_OF(names); i++) {
        const int32_t id = dt_tokenizer_id(k, names[i]);
        if (id >= 0 && k->token[id].special) return id;
    }
    return -1;
}

int64_t dt_tokenizer_vocab(const dt_tokenizer *k) { return k == NULL ? 0 : k->vocab; }

const char *dt_tokenizer_kind(const dt_tokenizer *k) { return k == NULL ? NULL : k->kind->name; }

dt_status dt_tokenizer_text(const dt_tokenizer *k, dt_sink sink, void *user)
{
    DT__NEED2(NULL, k, sink);
    dt__chars out = { .ctx = k->ctx };
    k->kind->put(k, &out);
    const dt_status status = out.failed ? DT_ERR_NOMEM : sink(user, out.bytes, out.used);
    dt__release(k->ctx, out.bytes);
    return status;
}

static dt_status to_file(void *user, const char *text_, size_t bytes)
{
    return dt__file_write(user, text_, bytes);
}

dt_status dt_tokenizer_write(const dt_tokenizer *k, const char *path)
{
    DT__NEED2(NULL, k, path);
    dt__new_file file;
    DT__TRY(dt__file_begin(k->ctx, path, &file));
    const dt_status status = dt_tokenizer_text(k, to_file, &file);
    if (status == DT_OK) return dt__file_commit(&file);
    dt__file_abandon(&file);
    return status;
}

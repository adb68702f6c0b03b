/* Tokenizers without merges: one token per byte, or one per character of a corpus, in the order of
 * code points. */
#include "core/text/utf8.h"
#include "data/text/tokenizer.h"

#define CODE_POINTS 0x110000

static dt_status encode_bytes(const dt_tokenizer *k, const unsigned char *text, size_t bytes,
                              dt_ids *ids)
{
    (void)k;
    for (size_t i = 0; i < bytes; i++) DT__TRY(dt_ids_put(ids, text[i]));
    return DT_OK;
}

static void put_bytes(const dt_tokenizer *k, dt__chars *out)
{
    (void)k;
    dt__put_text(out, "{\"model\":{\"type\":\"bytes\"}}");
}

const dt__tokenizer_kind dt__tokenizer_is_bytes = { "bytes", encode_bytes, put_bytes };

dt_status dt_tokenizer_bytes(dt_ctx *ctx, dt_tokenizer **out)
{
    DT__NEED2(ctx, ctx, out);
    int32_t twice;
    DT__TRY(dt__tokenizer_new(ctx, 256, 256, out));
    for (uint32_t i = 0; i < 256; i++) {
        (*out)->bytes[i] = (char)(unsigned char)i;
        (*out)->token[i] = (dt__token){ .at = i, .n = 1, .there = true };
    }
    (*out)->kind = &dt__tokenizer_is_bytes;
    const dt_status status = dt__tokenizer_index(*out, &twice);
    if (status == DT_OK) return DT_OK;
    dt_tokenizer_free(*out);
    *out = NULL;
    return status;
}

static dt_status no_utf8(dt_ctx *ctx, const unsigned char *p, size_t at)
{
    return dt_fail(ctx, DT_ERR_FORMAT,
                   "characters: byte %zu of the text, 0x%02x, is not UTF-8; the tokenizer 'bytes' "
                   "takes any bytes",
                   at, *p);
}

static dt_status encode_chars(const dt_tokenizer *k, const unsigned char *text, size_t bytes,
                              dt_ids *ids)
{
    const unsigned char *end = text + bytes;
    for (const unsigned char *p = text; p < end;) {
        const int n = dt__utf8_length(p, end);
        if (n == 0) return no_utf8(k->ctx, p, (size_t)(p - text));
        const int32_t id = dt__tokenizer_find(k, (const char *)p, (size_t)n);
        if (id < 0) {
            return dt_fail(k->ctx, DT_ERR_FORMAT,
                           "characters: U+%04X at byte %zu of the text is none of the "
                           "tokenizer's %lld characters",
                           (unsigned)dt__utf8_get(p, n), (size_t)(p - text), (long long)k->vocab);
        }
        DT__TRY(dt_ids_put(ids, id));
        p += n;
    }
    return DT_OK;
}

static void put_chars(const dt_tokenizer *k, dt__chars *out)
{
    const dt__token *last = &k->token[k->vocab - 1];
    dt__put_text(out, "{\"model\":{\"type\":\"chars\",\"characters\":");
    dt__put_quoted_bytes(out, k->bytes, last->at + last->n);
    dt__put_text(out, "}}");
}

const dt__tokenizer_kind dt__tokenizer_is_chars = { "chars", encode_chars, put_chars };

/* Collects the set of characters, one bit each. */
static dt_status collect(dt_ctx *ctx, const unsigned char *text, size_t bytes, uint64_t *seen)
{
    for (const unsigned char *p = text, *end = text + bytes; p < end;) {
        const int n = dt__utf8_length(p, end);
        if (n == 0) return no_utf8(ctx, p, (size_t)(p - text));
        const uint32_t c = dt__utf8_get(p, n);
        seen[c / 64] |= (uint64_t)1 << (c % 64);
        p += n;
    }
    return DT_OK;
}

static bool has(const uint64_t *seen, uint32_t c) { return (seen[c / 64] >> (c % 64) & 1) != 0; }

static dt_status make(dt_ctx *ctx, const uint64_t *seen, dt_tokenizer **out)
{
    int64_t count = 0;
    int32_t twice;
    for (uint32_t c = 0; c < CODE_POINTS; c++) count += has(seen, c);
    DT__TRY(dt__tokenizer_new(ctx, count, (size_t)count * DT__UTF8_BYTES, out));
    dt_tokenizer *k = *out;
    k->kind = &dt__tokenizer_is_chars;
    uint32_t at = 0;
    int64_t id = 0;
    for (uint32_t c = 0; c < CODE_POINTS; c++) {
        if (!has(seen, c)) continue;
        const uint32_t n = (uint32_t)dt__utf8_put(c, k->bytes + at);
        k->token[id++] = (dt__token){ .at = at, .n = n, .there = true };
        at += n;
    }
    const dt_status status = dt__tokenizer_index(k, &twice);
    if (status == DT_OK) return DT_OK;
    dt_tokenizer_free(k);
    *out = NULL;
    return status;
}

dt_status dt_tokenizer_chars(dt_ctx *ctx, const char *text, size_t bytes, dt_tokenizer **out)
{
    DT__NEED(NULL, ctx);
    if (bytes > 0) DT__NEED(ctx, text);
    DT__NEED(ctx, out);
    *out = NULL;
    if (bytes == 0) {
        return dt_fail(ctx, DT_ERR_ARG, "characters: the text is empty; it must have some");
    }
    uint64_t *seen = dt__alloc_zero(ctx, CODE_POINTS / 8);
    if (seen == NULL) return DT_ERR_NOMEM;
    dt_status status = collect(ctx, (const unsigned char *)text, bytes, seen);
    if (status == DT_OK) status = make(ctx, seen, out);
    dt__release(ctx, seen);
    return status;
}

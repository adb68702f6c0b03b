/* Ids to text: the bytes of the tokens, one after the other. A token of a sentencepiece vocabulary
 * is text with U+2581 for spaces, or a byte; spaces that its tokenizer puts before a text are
 * stripped from the beginning. */
#include "data/text/tokenizer.h"

#include <string.h>

/* Writes the bytes of a token to `sink`, without the first *strip spaces of a text. */
static dt_status put_bytes(const char *bytes, size_t n, int *strip, dt_sink sink, void *user)
{
    for (; *strip > 0 && n > 0 && *bytes == ' '; bytes++, n--) --*strip;
    if (n == 0) return DT_OK;
    *strip = 0;
    return sink(user, bytes, n);
}

/* Writes a token of a sentencepiece vocabulary: a byte, or text with signs for spaces. */
static dt_status put_piece(const dt_tokenizer *k, const dt__token *t, int *strip, dt_sink sink,
                           void *user)
{
    const size_t sign = strlen(DT__SPACE_SIGN);
    const char *at = k->bytes + t->at, *const end = at + t->n;
    const char byte = (char)t->byte;
    if (t->is_byte) return put_bytes(&byte, 1, strip, sink, user);
    while (at < end) {
        const char *next = at;
        while (next < end && ((size_t)(end - next) < sign || memcmp(next, DT__SPACE_SIGN, sign))) {
            next++;
        }
        DT__TRY(put_bytes(at, (size_t)(next - at), strip, sink, user));
        if (next < end) DT__TRY(put_bytes(" ", 1, strip, sink, user));
        at = next < end ? next + sign : end;
    }
    return DT_OK;
}

static dt_status decode(const dt_tokenizer *k, const dt_ids *ids, bool skip_special, int strip,
                        dt_sink sink, void *user)
{
    for (int64_t i = 0; i < ids->n; i++) {
        if (ids->id[i] >= 0) continue;
        return dt_fail(k->ctx, DT_ERR_ARG, "decode: id %lld is %d; none is negative", (long long)i,
                       ids->id[i]);
    }
    for (int64_t i = 0; i < ids->n; i++) {
        const dt__token *t = ids->id[i] < k->vocab ? &k->token[ids->id[i]] : NULL;
        if (t == NULL || !t->there || t->n == 0 || (skip_special && t->special)) continue;
        DT__TRY(k->bpe.pieces ? put_piece(k, t, &strip, sink, user)
                              : put_bytes(k->bytes + t->at, t->n, &strip, sink, user));
    }
    return DT_OK;
}

dt_status dt_tokenizer_decode(const dt_tokenizer *k, const int32_t *ids, int64_t n,
                              bool skip_special, dt_sink sink, void *user)
{
    DT__NEED(NULL, k);
    if (n > 0) DT__NEED(NULL, ids);
    DT__NEED(NULL, sink);
    const dt_ids all = { .id = (int32_t *)(uintptr_t)ids, .n = n };
    return decode(k, &all, skip_special, k->bpe.strip, sink, user);
}

dt_status dt_tokenizer_decode_on(const dt_tokenizer *k, const int32_t *ids, int64_t n,
                                 bool skip_special, dt_sink sink, void *user)
{
    DT__NEED(NULL, k);
    if (n > 0) DT__NEED(NULL, ids);
    DT__NEED(NULL, sink);
    const dt_ids all = { .id = (int32_t *)(uintptr_t)ids, .n = n };
    return decode(k, &all, skip_special, 0, sink, user);
}

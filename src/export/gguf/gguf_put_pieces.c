/* A vocabulary of sentencepiece in a GGUF file: llama.cpp's "llama" (SPM), which merges the
 * neighbours whose joined text is the token with the highest score, leftmost first. That is BPE
 * with these scores if
 *   - the merges that produce one token have consecutive indices,
 *   - every way to cut a token into two tokens is a merge, as in files that were converted from
 *     sentencepiece,
 *   - only spaces are changed before.
 * Where several merges of one token overlap in a text, BPE takes the first one, llama.cpp the
 * leftmost. */
#include "data/text/tokenizer.h"
#include "export/gguf/gguf_put.h"

#include <string.h>

/* lengths[n]: some token has length n, for n up to the longest. NULL: no memory. */
static bool *lengths_of(dt_ctx *ctx, const dt_tokenizer *k)
{
    uint32_t longest = 0;
    for (int64_t i = 0; i < k->vocab; i++) {
        if (k->token[i].there && k->token[i].n > longest) longest = k->token[i].n;
    }
    bool *lengths = dt__alloc_zero(ctx, ((size_t)longest + 1) * sizeof *lengths);
    for (int64_t i = 0; lengths != NULL && i < k->vocab; i++) {
        if (k->token[i].there) lengths[k->token[i].n] = true;
    }
    return lengths;
}

/* The number of ways to divide a token into two others, at character boundaries. For a long token,
 * few divisions have lengths that occur. */
static int64_t ways(const dt_tokenizer *k, const bool *lengths, const dt__token *t)
{
    const char *const text = k->bytes + t->at;
    int64_t n = 0;
    for (uint32_t i = 1; i < t->n; i++) {
        if (!lengths[i] || !lengths[t->n - i]) continue;
        if (((unsigned char)text[i] & 0xc0) == 0x80) continue;
        const int32_t left = dt__tokenizer_find(k, text, i);
        const int32_t right = dt__tokenizer_find(k, text + i, t->n - i);
        n += left >= 0 && right >= 0;
    }
    return n;
}

/* llama.cpp finds added tokens in a text before merging, except special ones (which texts should
 * not contain) and those with the sign of a space, which is inserted later. */
static bool is_found_first(const dt_tokenizer *k, const dt__token *t)
{
    const size_t sign = strlen(DT__SPACE_SIGN);
    bool has_sign = false;
    for (size_t i = 0; i + sign <= t->n; i++) {
        has_sign |= memcmp(k->bytes + t->at + i, DT__SPACE_SIGN, sign) == 0;
    }
    return t->special || (t->added && !has_sign);
}

/* score[i] = -1 - (number of tokens that are produced before token i); 0 for tokens that no merge
 * produces, which no pair of others spells. False: the merges are not in such an order. */
static bool put_scores(const dt_tokenizer *k, const bool *lengths, int64_t *merges_of, float *score)
{
    int64_t made = 0;
    for (int64_t i = 0; i < k->bpe.merges; i++) {
        const int32_t token = k->bpe.merge[i].result;
        const bool again = i > 0 && k->bpe.merge[i - 1].result == token;
        if (merges_of[token]++ > 0 && !again) return false;
        if (!again) score[token] = -1 - (float)made++;
    }
    for (int64_t i = 0; i < k->vocab; i++) {
        const dt__token *t = &k->token[i];
        if (!t->there || t->is_byte || is_found_first(k, t)) continue;
        if (ways(k, lengths, t) != merges_of[i]) return false;
    }
    return made < 1 << 24; /* floats are exact up to there */
}

dt_status dt__gguf_scores(dt_ctx *ctx, const dt_tokenizer *k, float **score)
{
    dt__spaces spaces;
    *score = NULL;
    if (!dt__bpe_spaces(k, &spaces) || spaces.cut || dt_tokenizer_id(k, "<unk>") < 0) return DT_OK;
    int64_t *merges_of = dt__alloc_array(ctx, k->vocab, sizeof *merges_of);
    float *made = dt__alloc_array(ctx, k->vocab, sizeof *made);
    bool *lengths = lengths_of(ctx, k);
    const bool room = merges_of != NULL && made != NULL && lengths != NULL;
    const dt_status s = room ? DT_OK : DT_ERR_NOMEM;
    for (int64_t i = 0; i < k->vocab && s == DT_OK; i++) {
        merges_of[i] = 0;
        made[i] = 0;
    }
    if (s == DT_OK && put_scores(k, lengths, merges_of, made)) {
        *score = made;
        made = NULL;
    }
    DT__RELEASE(ctx, lengths, merges_of, made);
    return s;
}

void dt__gguf_put_scores(dt__gguf_put *p, const dt_tokenizer *k, const float *score)
{
    dt__spaces spaces;
    dt__bpe_spaces(k, &spaces);
    if (spaces.prefix == DT__PREFIX_UNLESS_SPACE) {
        dt__gguf_note(p,
                      "llama.cpp puts a space before each text; the tokenizer does not before one "
                      "that begins with a space");
    }
    dt__gguf_key_array(p, "tokenizer.ggml.scores", DT__GGUF_KEY_F32, (uint64_t)p->g.o.vocab);
    for (int64_t i = 0; i < p->g.o.vocab; i++) {
        dt__gguf_put_f32(&p->keys, i < k->vocab ? score[i] : 0);
    }
    dt__gguf_key_bool(p, "tokenizer.ggml.add_space_prefix", spaces.prefix != DT__NO_PREFIX);
    dt__gguf_key_u32(p, "tokenizer.ggml.unknown_token_id", (uint32_t)dt_tokenizer_id(k, "<unk>"));
}

/* The tokenizer in a GGUF file.
 *
 * Tokenizers of bytes and characters are written as llama.cpp's "rwkv", which takes the longest
 * matching token: the same result, as no token is a prefix of another. "gpt2" without merges would
 * end a text at token 11, llama.cpp's default end token, though that is a character here.
 * Byte-level BPE is "gpt2" with the split's name, a vocabulary of sentencepiece is "llama"
 * (gguf_put_pieces.c). */
#include "core/text/utf8.h"
#include "data/text/tokenizer.h"
#include "export/gguf/gguf_put.h"
#include "io/hf/hf.h"

#include <stdio.h>
#include <string.h>

/* The text of an id without a token: bytes that no text contains, and the id. */
static void put_unused(dt__chars *t, int32_t id, bool escaped)
{
    char text[64];
    const char *form = escaped ? "\\xff\\xff\\xff\\xffunused%d" : "[unused%d]";
    snprintf(text, sizeof text, form, (int)id);
    dt__gguf_put_string(t, text, strlen(text));
}

/* Writes bytes in the form of the "rwkv" vocabulary: printable ASCII unescaped, and UTF-8 of
 * characters. */
static void put_escaped(dt__chars *t, const char *bytes, size_t n)
{
    char text[8 * DT__UTF8_BYTES];
    size_t used = 0;
    const unsigned char *p = (const unsigned char *)bytes;
    const bool is_text = dt__utf8_length(p, p + n) == (int)n && (n > 1 || (*p >= ' ' && *p < 127));
    for (size_t i = 0; i < n; i++) {
        const bool escapes = is_text && p[i] == '\\';
        if (escapes) text[used++] = '\\';
        if (is_text) text[used++] = (char)p[i];
        else used += (size_t)snprintf(text + used, 5, "\\x%02x", (unsigned)p[i]);
    }
    dt__gguf_put_string(t, text, used);
}

/* Writes bytes in the form of byte-level BPE: one character per byte. */
static void put_byte_level(dt__chars *t, const char *bytes, size_t n)
{
    dt__chars text = { .ctx = t->ctx };
    for (size_t i = 0; i < n; i++) {
        char c[DT__UTF8_BYTES];
        const int length = dt__utf8_put(dt__byte_char((unsigned char)bytes[i]), c);
        dt__put(&text, c, (size_t)length);
    }
    t->failed |= text.failed;
    if (!text.failed) dt__gguf_put_string(t, text.bytes, text.used);
    dt__release(t->ctx, text.bytes);
}

static void put_token(dt__chars *t, const dt_tokenizer *k, int32_t id, bool escaped)
{
    const dt__token *token = id < k->vocab ? &k->token[id] : NULL;
    if (token == NULL || !token->there) put_unused(t, id, escaped);
    else if (escaped) put_escaped(t, k->bytes + token->at, token->n);
    else if (token->added || k->bpe.pieces) dt__gguf_put_string(t, k->bytes + token->at, token->n);
    else put_byte_level(t, k->bytes + token->at, token->n);
}

static uint32_t type_of(const dt_tokenizer *k, int64_t id)
{
    const dt__token *t = id < k->vocab ? &k->token[id] : NULL;
    if (t == NULL || !t->there) return DT__GGUF_UNUSED;
    if (t->is_byte) return DT__GGUF_BYTE;
    if (k->bpe.pieces && id == dt_tokenizer_id(k, "<unk>")) return DT__GGUF_UNKNOWN;
    return !t->added ? DT__GGUF_NORMAL : t->special ? DT__GGUF_CONTROL : DT__GGUF_USER;
}

static void put_vocabulary(dt__gguf_put *p, const dt_tokenizer *k, bool escaped)
{
    const int64_t n = p->g.o.vocab;
    dt__gguf_key_array(p, "tokenizer.ggml.tokens", DT__GGUF_KEY_STRING, (uint64_t)n);
    for (int64_t i = 0; i < n; i++) put_token(&p->keys, k, (int32_t)i, escaped);
    dt__gguf_key_array(p, "tokenizer.ggml.token_type", DT__GGUF_KEY_I32, (uint64_t)n);
    for (int64_t i = 0; i < n; i++) dt__gguf_put_u32(&p->keys, type_of(k, i));
}

/* llama.cpp's name for the split, and for how pieces that are tokens are handled; NULL: none.
 * llama.cpp does not normalize; most texts are in NFC. */
static const char *split_name(const dt_tokenizer *k)
{
    const dt__split *split = dt__bpe_split(k);
    if (split == NULL || (k->normalizer.n > 0 && !dt__normalizes_nfc(k))) return NULL;
    if (split->next == dt__split_gpt2) return k->bpe.ignore_merges ? NULL : "gpt-2";
    if (split->next == dt__split_qwen2) return k->bpe.ignore_merges ? NULL : "qwen2";
    return k->bpe.ignore_merges ? "llama-bpe" : "dbrx";
}

static void put_merges(dt__gguf_put *p, const dt_tokenizer *k)
{
    dt__gguf_key_array(p, "tokenizer.ggml.merges", DT__GGUF_KEY_STRING, (uint64_t)k->bpe.merges);
    for (int64_t i = 0; i < k->bpe.merges; i++) {
        const int32_t part[] = { k->bpe.merge[i].left, k->bpe.merge[i].right };
        dt__chars text = { .ctx = p->ctx };
        for (int side = 0; side < 2; side++) {
            const dt__token *t = &k->token[part[side]];
            for (uint32_t b = 0; b < t->n; b++) {
                char c[DT__UTF8_BYTES];
                const unsigned char byte = (unsigned char)k->bytes[t->at + b];
                dt__put(&text, c, (size_t)dt__utf8_put(dt__byte_char(byte), c));
            }
            if (side == 0) dt__put_text(&text, " ");
        }
        p->keys.failed |= text.failed;
        if (!text.failed) dt__gguf_put_string(&p->keys, text.bytes, text.used);
        dt__release(p->ctx, text.bytes);
    }
}

/* Writes tokens that begin, end and pad texts: `end` and the model's other end tokens; -1: none.
 * llama.cpp has three keys for end tokens, and recognizes more by their texts. */
static void put_ids(dt__gguf_put *p, const dt_text_tokens *t, int32_t begin, int32_t end)
{
    static const char *const more[] = { "tokenizer.ggml.eot_token_id",
                                        "tokenizer.ggml.eom_token_id" };
    int n = 0;
    if (begin >= 0) dt__gguf_key_u32(p, "tokenizer.ggml.bos_token_id", (uint32_t)begin);
    if (end >= 0) dt__gguf_key_u32(p, "tokenizer.ggml.eos_token_id", (uint32_t)end);
    for (int i = 0; i < t->n_end; i++) {
        if (t->end[i] == end) continue;
        if (n < DT__COUNT_OF(more)) dt__gguf_key_u32(p, more[n], (uint32_t)t->end[i]);
        if (n++ != DT__COUNT_OF(more)) continue;
        dt__gguf_note(p, "GGUF has keys for three tokens that end a text; of the others llama.cpp "
                         "recognizes those with usual names");
    }
    if (t->pad >= 0) dt__gguf_key_u32(p, "tokenizer.ggml.padding_token_id", (uint32_t)t->pad);
}

/* Writes the template of a text: at most one token before it and one after it. */
static void put_template(dt__gguf_put *p, const dt_tokenizer *k)
{
    const bool begins = k->before.n == 1, ends = k->after.n == 1;
    int32_t end = dt_tokenizer_end(k);
    dt__gguf_key_bool(p, "tokenizer.ggml.add_bos_token", begins);
    dt__gguf_key_bool(p, "tokenizer.ggml.add_eos_token", ends);
    if (ends) end = k->after.id[0];
    for (int32_t i = 0; end < 0 && i < p->g.o.vocab; i++) {
        if (type_of(k, i) == DT__GGUF_UNUSED) end = i;
    }
    put_ids(p, &k->tokens, begins ? k->before.id[0] : k->tokens.begin, end);
    if (end < 0) {
        dt__gguf_note(
            p, "the tokenizer has no token that ends a text, so llama.cpp ends texts at token 11; "
               "--ignore-eos goes on");
    }
    if (k->before.n > 1 || k->after.n > 1) {
        dt__gguf_note(
            p, "the tokenizer's template has several tokens in one place, which GGUF cannot say; "
               "it is left out there");
    }
}

static void put_bpe(dt__gguf_put *p, const dt_tokenizer *k)
{
    if (k->normalizer.n > 0) {
        dt__gguf_note(p,
                      "the tokenizer normalizes text to NFC, llama.cpp does not: ids are those of "
                      "text that is in NFC");
    }
    dt__gguf_key_text(p, "tokenizer.ggml.model", "gpt2");
    dt__gguf_key_text(p, "tokenizer.ggml.pre", split_name(k));
    put_vocabulary(p, k, false);
    put_merges(p, k);
    put_template(p, k);
}

static void put_pieces(dt__gguf_put *p, const dt_tokenizer *k, const float *score)
{
    dt__gguf_key_text(p, "tokenizer.ggml.model", "llama");
    put_vocabulary(p, k, false);
    dt__gguf_put_scores(p, k, score);
    put_template(p, k);
}

/* score: of a sentencepiece vocabulary; NULL: another kind of tokenizer. */
static void put_tokenizer(dt__gguf_put *p, const dt_tokenizer *k, const float *score)
{
    const bool is_bpe = k->kind == &dt__tokenizer_is_bpe;
    const bool fits = k->vocab <= p->g.o.vocab;
    const bool known = fits && (!is_bpe || split_name(k) != NULL);
    if (fits && score != NULL) {
        put_pieces(p, k, score);
    } else if (known && is_bpe) {
        put_bpe(p, k);
    } else if (known) {
        dt__gguf_key_text(p, "tokenizer.ggml.model", "rwkv");
        put_vocabulary(p, k, true);
        dt__gguf_key_bool(p, "tokenizer.ggml.add_bos_token", false);
        put_ids(p, &k->tokens, k->tokens.begin, dt_tokenizer_end(k));
    } else {
        dt__gguf_note(p, "llama.cpp has not this tokenizer: the file has none, and is run on ids");
        dt__gguf_key_text(p, "tokenizer.ggml.model", "no_vocab");
        put_ids(p, &k->tokens, k->tokens.begin, dt_tokenizer_end(k));
    }
}

static dt_status put_none(dt__gguf_put *p)
{
    dt_text_tokens t;
    DT__TRY(dt_text_tokens_parse(p->ctx, p->call->info->tokens, "the model's tokens", &t));
    dt__gguf_note(p, "the model has no tokenizer: the file has none, and is run on ids");
    dt__gguf_key_text(p, "tokenizer.ggml.model", "no_vocab");
    put_ids(p, &t, t.begin, t.n_end > 0 ? t.end[0] : -1);
    return DT_OK;
}

/* Writes the chat template as Jinja, which llama.cpp runs. */
static dt_status put_chat(dt__gguf_put *p)
{
    char *jinja;
    DT__TRY(dt__hf_chat_of_model(p->ctx, p->call->info, &jinja));
    if (jinja != NULL) dt__gguf_key_text(p, "tokenizer.chat_template", jinja);
    dt__release(p->ctx, jinja);
    return DT_OK;
}

dt_status dt__gguf_put_tokens(dt__gguf_put *p)
{
    const dt_tokenizer_texts own = { p->call->info->tokenizer, p->call->info->tokens };
    dt_tokenizer *k;
    float *score;
    if (own.tokenizer == NULL) return put_none(p);
    DT__TRY(dt_tokenizer_of_model(p->ctx, &own, "the model's tokenizer", &k));
    dt_status s = dt__gguf_scores(p->ctx, k, &score);
    if (s == DT_OK) put_tokenizer(p, k, score);
    if (s == DT_OK) s = put_chat(p);
    dt__release(p->ctx, score);
    dt_tokenizer_free(k);
    return s;
}

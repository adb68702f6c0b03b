/* The tokenizer of a GGUF file as detent's JSON: byte-level BPE ("gpt2" with a supported split) and
 * sentencepiece ("llama") become a tokenizer.json; "rwkv" is supported if every token is a byte, or
 * a character, as export to gguf writes them. Other tokenizers are left out with a warning; the
 * model then runs on ids. */
#include "core/text/byte_order.h"
#include "core/text/utf8.h"
#include "data/text/tokenizer.h"
#include "io/gguf/gguf_keys.h"

#include <detent/experimental/text.h>
#include <stdio.h>
#include <string.h>

#define TOKENS "tokenizer.ggml.tokens"
#define TYPES "tokenizer.ggml.token_type"
#define MERGES "tokenizer.ggml.merges"
#define SCORES "tokenizer.ggml.scores"

typedef struct writing {
    const dt__gguf_file *g;
    const dt__gguf_key *tokens, *types, *merges, *scores;
    bool pieces; /* a vocabulary of sentencepiece */
    dt__chars *t;
    const char *model;
    size_t model_n;
} writing;

static dt_status leave_out(const writing *w, const char *why)
{
    dt__say(w->g->ctx, "%s: its tokenizer is left out: %s", w->g->file->path, why);
    return DT_OK;
}

/* ---- bytes and characters -------------------------------------------------------------------- */

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes an escaped token to bytes; returns their number, or -1 if there are more than `most` or
 * an escape is wrong. */
static int unescape(const char *text, size_t n, unsigned char *out, int most)
{
    static const char letters[] = "tnr", means[] = "\t\n\r";
    int used = 0;
    for (size_t i = 0; i < n; i++) {
        if (used == most) return -1;
        if (text[i] != '\\') {
            out[used++] = (unsigned char)text[i];
            continue;
        }
        if (++i == n) return -1;
        const char *letter = text[i] == 0 ? NULL : strchr(letters, text[i]);
        if (text[i] == 'x') {
            const int high = i + 2 < n ? digit(text[i + 1]) : -1;
            const int low = i + 2 < n ? digit(text[i + 2]) : -1;
            if (high < 0 || low < 0) return -1;
            out[used++] = (unsigned char)(high << 4 | low);
            i += 2;
        } else {
            out[used++] = (unsigned char)(letter == NULL ? text[i] : means[letter - letters]);
        }
    }
    return used;
}

static int32_t type_at(const writing *w, uint64_t i)
{
    int32_t type = DT__GGUF_NORMAL;
    if (w->types != NULL) dt__copy_little(&type, w->types->data + i * sizeof type, sizeof type);
    return type;
}

/* Tokens are either all bytes in order, or characters in the order of their code points. Unused
 * tokens at the end of the vocabulary only pad it. */
static dt_status put_characters(writing *w, bool *there)
{
    unsigned char bytes[DT__UTF8_BYTES];
    const unsigned char *at = w->tokens->data;
    const char *text;
    size_t n;
    dt__chars all = { .ctx = w->g->ctx };
    bool are_bytes = true, are_chars = true;
    uint32_t last = 0;
    uint64_t i = 0;
    for (; i < w->tokens->n && type_at(w, i) == DT__GGUF_NORMAL; i++) {
        at = dt__gguf_string(at, &text, &n);
        const int length = unescape(text, n, bytes, DT__UTF8_BYTES);
        are_bytes = are_bytes && length == 1 && bytes[0] == i;
        const bool is_char = length > 0 && dt__utf8_length(bytes, bytes + length) == length;
        const uint32_t c = is_char ? dt__utf8_get(bytes, length) : 0;
        are_chars = are_chars && is_char && (i == 0 || c > last);
        last = c;
        if (are_chars) dt__put(&all, (const char *)bytes, (size_t)length);
    }
    are_bytes = are_bytes && i == 256;
    *there = !all.failed && i > 0 && (are_bytes || are_chars);
    w->t->failed |= all.failed;
    if (*there && are_bytes) dt__put_text(w->t, "{\"model\":{\"type\":\"bytes\"}}");
    if (*there && !are_bytes) {
        dt__put_text(w->t, "{\"model\":{\"type\":\"chars\",\"characters\":");
        dt__put_quoted_bytes(w->t, all.bytes, all.used);
        dt__put_text(w->t, "}}");
    }
    dt__release(all.ctx, all.bytes);
    return *there || w->t->failed ? DT_OK : leave_out(w, "its tokens are not bytes or characters");
}

/* ---- byte-level BPE -------------------------------------------------------------------------- */

static const struct {
    const char *pre;
    int digits;                 /* of dt__split */
    bool ignore_merges, begins; /* begins: a token is put before texts by default */
} splits[] = {
    { "gpt-2", 0, false, false },  { "llama-bpe", 3, true, true }, { "llama3", 3, true, true },
    { "llama-v3", 3, true, true }, { "dbrx", 3, false, false },    { "smaug-bpe", 3, false, false },
    { "qwen2", 1, false, false },
};

static const dt__split *split_of(int digits)
{
    const dt__split *s = dt__splits;
    while (s->digits != digits) s++;
    return s;
}

#define BYTE_LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,"

/* Strings of an array must be UTF-8, as they are written as JSON. */
static dt_status check_texts(const writing *w, const dt__gguf_key *k, const char *name)
{
    const unsigned char *at = k->data;
    const char *text;
    size_t n;
    for (uint64_t i = 0; i < k->n; i++) {
        at = dt__gguf_string(at, &text, &n);
        if (dt__is_utf8_of(text, n)) continue;
        return dt__gguf_fail(w->g, "key '%s': element %llu is not UTF-8", name,
                             (unsigned long long)i);
    }
    return DT_OK;
}

/* Calls put for every token of the vocabulary (added false), or for every added token. */
static void put_tokens(writing *w, bool added,
                       void (*put)(writing *w, const char *text, size_t n, uint64_t id))
{
    const unsigned char *at = w->tokens->data;
    const char *text;
    size_t n;
    bool first = true;
    for (uint64_t i = 0; i < w->tokens->n; i++) {
        at = dt__gguf_string(at, &text, &n);
        const int32_t type = type_at(w, i);
        const bool is_added = type == DT__GGUF_CONTROL || type == DT__GGUF_USER ||
                              (w->pieces && type == DT__GGUF_UNKNOWN);
        if (is_added != added || (type != DT__GGUF_NORMAL && !is_added)) continue;
        dt__put_comma(w->t, &first);
        put(w, text, n, i);
    }
}

static void put_added(writing *w, const char *text, size_t n, uint64_t id)
{
    const bool special = type_at(w, id) != DT__GGUF_USER;
    dt__put_text(w->t, "{\"id\":");
    DT__PUT_ALL(w->t, (int64_t)id, ",\"content\":");
    dt__put_quoted_bytes(w->t, text, n);
    dt__put_text(w->t, ",\"special\":");
    dt__put_text(w->t, special ? "true}" : "false}");
}

static void put_vocab(writing *w, const char *text, size_t n, uint64_t id)
{
    dt__put_quoted_bytes(w->t, text, n);
    DT__PUT_ALL(w->t, ":", (int64_t)id);
}

static void put_merges(writing *w)
{
    const unsigned char *at = w->merges->data;
    const char *text;
    size_t n;
    for (uint64_t i = 0; dt__put_each(w->t, (int64_t)i, (int64_t)w->merges->n); i++) {
        at = dt__gguf_string(at, &text, &n);
        dt__put_quoted_bytes(w->t, text, n);
    }
}

/* The text of the token with this id, as JSON. */
static void put_token(writing *w, int64_t id)
{
    const unsigned char *at = w->tokens->data;
    const char *text = "";
    size_t n = 0;
    for (int64_t i = 0; i <= id; i++) at = dt__gguf_string(at, &text, &n);
    dt__put_quoted_bytes(w->t, text, n);
}

static void put_piece(writing *w, int64_t id)
{
    dt__put_text(w->t, "{\"SpecialToken\":{\"id\":");
    put_token(w, id);
    dt__put_text(w->t, ",\"type_id\":0}}");
}

static void put_special(writing *w, int64_t id)
{
    put_token(w, id);
    dt__put_text(w->t, ":{\"id\":");
    put_token(w, id);
    dt__put_text(w->t, ",\"ids\":[");
    dt__put_integer(w->t, id);
    dt__put_text(w->t, "],\"tokens\":[");
    put_token(w, id);
    dt__put_text(w->t, "]}");
}

/* Writes the template with a token before every text and one behind it; -1: none. */
static void put_template(writing *w, int64_t before, int64_t after)
{
    static const char *const of[] = { "\"single\":[", "],\"pair\":[" };
    if (before < 0 && after < 0) {
        dt__put_text(w->t, w->pieces ? "null" : BYTE_LEVEL "\"use_regex\":true}");
        return;
    }
    dt__put_text(w->t, "{\"type\":\"TemplateProcessing\",");
    for (int pair = 0; pair < 2; pair++) {
        bool first = true;
        dt__put_text(w->t, of[pair]);
        for (int s = 0; s <= pair; s++) {
            if (before >= 0) dt__put_comma(w->t, &first);
            if (before >= 0) put_piece(w, before);
            dt__put_comma(w->t, &first);
            dt__put_text(w->t, s == 0 ? "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}"
                                      : "{\"Sequence\":{\"id\":\"B\",\"type_id\":0}}");
            if (after >= 0) dt__put_comma(w->t, &first);
            if (after >= 0) put_piece(w, after);
        }
    }
    dt__put_text(w->t, "],\"special_tokens\":{");
    if (before >= 0) put_special(w, before);
    if (after >= 0 && after != before) {
        if (before >= 0) dt__put_text(w->t, ",");
        put_special(w, after);
    }
    dt__put_text(w->t, "}}");
}

/* The id of a key such as bos_token_id if `flag` says that it is added to texts; else -1. `usual`:
 * default of the flag. */
static dt_status read_end(const writing *w, const char *flag, const char *id, bool usual,
                          int64_t *out)
{
    bool on;
    const bool begins = strcmp(id, "tokenizer.ggml.bos_token_id") == 0;
    const int64_t missing =
        w->pieces ? (begins ? 1 : 2) : -1; /* llama.cpp's defaults for sentencepiece */
    DT__TRY(dt__gguf_bool(w->g, flag, usual, &on));
    DT__TRY(dt__gguf_int(w->g, id, missing, out));
    if (dt__gguf_find(w->g, id) == NULL && *out >= 0 && *out < (int64_t)w->tokens->n &&
        type_at(w, (uint64_t)*out) != DT__GGUF_CONTROL) {
        *out = -1;
    }
    if (!on || *out >= (int64_t)w->tokens->n) *out = -1;
    return DT_OK;
}

static dt_status put_bpe(writing *w, int at)
{
    const dt__split *split = split_of(splits[at].digits);
    int64_t before, after;
    DT__TRY(check_texts(w, w->tokens, TOKENS));
    DT__TRY(check_texts(w, w->merges, MERGES));
    DT__TRY(read_end(w, "tokenizer.ggml.add_bos_token", "tokenizer.ggml.bos_token_id",
                     splits[at].begins, &before));
    DT__TRY(
        read_end(w, "tokenizer.ggml.add_eos_token", "tokenizer.ggml.eos_token_id", false, &after));
    dt__put_text(w->t, "{\"version\":\"1.0\",\"added_tokens\":[");
    put_tokens(w, true, put_added);
    dt__put_text(w->t, "],\"normalizer\":null,\"pre_tokenizer\":");
    if (split->digits > 0) {
        dt__put_text(w->t, "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
                           "\"pattern\":{\"Regex\":");
        dt__put_quoted(w->t, split->regex);
        dt__put_text(w->t, "},\"behavior\":\"Isolated\",\"invert\":false}," BYTE_LEVEL
                           "\"use_regex\":false}]}");
    } else {
        dt__put_text(w->t, BYTE_LEVEL "\"use_regex\":true}");
    }
    dt__put_text(w->t, ",\"post_processor\":");
    put_template(w, before, after);
    dt__put_text(w->t, ",\"decoder\":" BYTE_LEVEL "\"use_regex\":true},\"model\":{\"type\":\"BPE\","
                       "\"ignore_merges\":");
    dt__put_text(w->t, splits[at].ignore_merges ? "true,\"vocab\":{" : "false,\"vocab\":{");
    put_tokens(w, false, put_vocab);
    dt__put_text(w->t, "},\"merges\":[");
    put_merges(w);
    dt__put_text(w->t, "]}}");
    return w->t->failed ? DT_ERR_NOMEM : DT_OK;
}

/* Removes the text again, with a warning that has the reason, if the tokenizer's reader refuses
 * it. */
static dt_status keep(writing *w, size_t begin, bool *there)
{
    dt_tokenizer *k;
    char why[DT__MESSAGE_SIZE / 2];
    const dt_status s = dt_tokenizer_parse(w->g->ctx, w->t->bytes + begin, w->t->used - begin,
                                           w->g->file->path, &k);
    if (s == DT_ERR_NOMEM) return s;
    *there = s == DT_OK;
    if (*there) {
        dt_tokenizer_free(k);
        return DT_OK;
    }
    w->t->used = begin;
    snprintf(why, sizeof why, "%s", dt_error(w->g->ctx));
    return leave_out(w, why);
}

static dt_status try_bpe(writing *w, int split, bool *there)
{
    const size_t begin = w->t->used;
    DT__TRY(put_bpe(w, split));
    return keep(w, begin, there);
}

/* ---- sentencepiece --------------------------------------------------------------------------- */

#define SIGN "\"" DT__SPACE_SIGN "\""
#define PREPEND "{\"type\":\"Prepend\",\"prepend\":" SIGN "},"
#define REPLACE "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":" SIGN "}"
#define SPACES "{\"type\":\"Replace\",\"pattern\":{\"String\":" SIGN "},\"content\":\" \"},"
#define STRIP ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}"

static dt_status put_pieces(writing *w, bool *fits)
{
    int64_t before, after;
    bool prefix;
    DT__TRY(check_texts(w, w->tokens, TOKENS));
    DT__TRY(dt__gguf_bool(w->g, "tokenizer.ggml.add_space_prefix", true, &prefix));
    DT__TRY(
        read_end(w, "tokenizer.ggml.add_bos_token", "tokenizer.ggml.bos_token_id", true, &before));
    DT__TRY(
        read_end(w, "tokenizer.ggml.add_eos_token", "tokenizer.ggml.eos_token_id", false, &after));
    dt__put_text(w->t, "{\"version\":\"1.0\",\"added_tokens\":[");
    put_tokens(w, true, put_added);
    dt__put_text(w->t, "],\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
    dt__put_text(w->t, prefix ? PREPEND REPLACE : REPLACE);
    dt__put_text(w->t, "]},\"pre_tokenizer\":null,\"post_processor\":");
    put_template(w, before, after);
    dt__put_text(w->t, ",\"decoder\":{\"type\":\"Sequence\",\"decoders\":[" SPACES
                       "{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}");
    dt__put_text(w->t, prefix ? STRIP "]}" : "]}");
    dt__put_text(w->t, ",\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,");
    const dt__gguf_pieces all = { w->tokens, w->types, w->scores };
    DT__TRY(dt__gguf_put_pieces(w->g->ctx, &all, w->t, fits));
    dt__put_text(w->t, "}}");
    return w->t->failed ? DT_ERR_NOMEM : DT_OK;
}

static dt_status try_pieces(writing *w, bool *there)
{
    bool fits;
    const size_t begin = w->t->used;
    if (w->scores == NULL) return leave_out(w, "tokenizer.ggml.scores are missing");
    w->pieces = true;
    DT__TRY(put_pieces(w, &fits));
    if (fits) return keep(w, begin, there);
    w->t->used = begin;
    return leave_out(w, "a token of sentencepiece has more than 512 bytes, or a score that is not "
                        "a number, or tokens can be cut into too many others");
}

static dt_status find_array(const dt__gguf_file *g, const char *name, uint32_t type,
                            const dt__gguf_key **out)
{
    const dt__gguf_key *k = *out = dt__gguf_find(g, name);
    if (k == NULL || (k->is_array && k->type == type)) return DT_OK;
    return dt__gguf_fail(g, "key '%s' must be an array of %s", name,
                         type == DT__GGUF_KEY_STRING ? "strings"
                         : type == DT__GGUF_KEY_F32  ? "f32"
                                                     : "i32");
}

/* ---- tokens that begin, end and pad texts ---------------------------------------------------- */

/* The id that a key names; -1: none, or an id without a token. */
static dt_status find_id(const dt__gguf_file *g, const char *key, int64_t vocab, int32_t *out)
{
    const dt__gguf_key *types;
    int64_t id;
    DT__TRY(dt__gguf_int(g, key, -1, &id));
    DT__TRY(find_array(g, TYPES, DT__GGUF_KEY_I32, &types));
    const writing w = { .g = g, .types = types };
    const bool there = id >= 0 && id < vocab && (types == NULL || (uint64_t)id < types->n) &&
                       type_at(&w, (uint64_t)id) != DT__GGUF_UNUSED;
    *out = there ? (int32_t)id : -1;
    return DT_OK;
}

dt_status dt__gguf_find_tokens(const dt__gguf_file *g, int64_t vocab, dt_text_tokens *out)
{
    static const char *const ends[] = { "tokenizer.ggml.eos_token_id",
                                        "tokenizer.ggml.eot_token_id",
                                        "tokenizer.ggml.eom_token_id" };
    *out = DT_NO_TEXT_TOKENS;
    DT__TRY(find_id(g, "tokenizer.ggml.bos_token_id", vocab, &out->begin));
    DT__TRY(find_id(g, "tokenizer.ggml.padding_token_id", vocab, &out->pad));
    for (int i = 0; i < DT__COUNT_OF(ends); i++) {
        int32_t id;
        DT__TRY(find_id(g, ends[i], vocab, &id));
        if (id >= 0) dt__text_tokens_add_end(out, id);
    }
    return DT_OK;
}

/* ---- all of them ---------------------------------------------------------------------------- */

static dt_status put_by_model(writing *w, bool *there)
{
    const char *pre;
    size_t n;
    if (dt__gguf_is(w->model, w->model_n, "rwkv")) return put_characters(w, there);
    if (dt__gguf_is(w->model, w->model_n, "llama")) return try_pieces(w, there);
    if (!dt__gguf_is(w->model, w->model_n, "gpt2") || w->merges == NULL) {
        return leave_out(w,
                         "only byte-level BPE, sentencepiece, bytes and characters are known here");
    }
    DT__TRY(dt__gguf_text(w->g, "tokenizer.ggml.pre", &pre, &n));
    for (int i = 0; i < DT__COUNT_OF(splits); i++) {
        if (dt__gguf_is(pre, n, splits[i].pre)) return try_bpe(w, i, there);
    }
    return leave_out(w, "tokenizer.ggml.pre is none that is known here: gpt-2, llama-bpe, "
                        "dbrx, qwen2");
}

dt_status dt__gguf_put_tokenizer(const dt__gguf_file *g, dt__chars *t, bool *there)
{
    writing w = { .g = g, .t = t };
    *there = false;
    DT__TRY(dt__gguf_text(g, "tokenizer.ggml.model", &w.model, &w.model_n));
    DT__TRY(find_array(g, TOKENS, DT__GGUF_KEY_STRING, &w.tokens));
    DT__TRY(find_array(g, TYPES, DT__GGUF_KEY_I32, &w.types));
    DT__TRY(find_array(g, MERGES, DT__GGUF_KEY_STRING, &w.merges));
    DT__TRY(find_array(g, SCORES, DT__GGUF_KEY_F32, &w.scores));
    if (w.tokens == NULL) return DT_OK;
    if (w.scores != NULL && w.scores->n != w.tokens->n) {
        return dt__gguf_fail(g, "key '" SCORES "' has %llu elements, '" TOKENS "' %llu",
                             (unsigned long long)w.scores->n, (unsigned long long)w.tokens->n);
    }
    if (w.types != NULL && w.types->n != w.tokens->n) {
        return dt__gguf_fail(g, "key '" TYPES "' has %llu elements, '" TOKENS "' %llu",
                             (unsigned long long)w.types->n, (unsigned long long)w.tokens->n);
    }
    return put_by_model(&w, there);
}

/* Writes BPE as a tokenizer.json for other programs: what was read, without parts that have no
 * effect. */
#include "core/text/utf8.h"
#include "data/text/tokenizer.h"

#define BYTE_LEVEL "\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,"

/* A token's name in the vocabulary: an added token's text, and a sentencepiece token's; for others,
 * characters that represent its bytes. */
static void put_token(const dt_tokenizer *k, int32_t id, dt__chars *out)
{
    const dt__token *t = &k->token[id];
    if (t->added || k->bpe.pieces) {
        dt__put_quoted_bytes(out, k->bytes + t->at, t->n);
        return;
    }
    dt__put_text(out, "\"");
    for (uint32_t i = 0; i < t->n; i++) {
        const unsigned char byte = (unsigned char)k->bytes[t->at + i];
        char text[DT__UTF8_BYTES];
        if (byte == '"' || byte == '\\') dt__put_text(out, "\\");
        dt__put(out, text, (size_t)dt__utf8_put(dt__byte_char(byte), text));
    }
    dt__put_text(out, "\"");
}

static const char *truth(bool b) { return b ? "true" : "false"; }

static void put_added(const dt_tokenizer *k, dt__chars *out)
{
    bool first = true;
    dt__put_text(out, "\"added_tokens\":[");
    for (int32_t id = 0; id < k->vocab; id++) {
        const dt__token *t = &k->token[id];
        if (!t->added) continue;
        dt__put_comma(out, &first);
        dt__put_text(out, "{\"id\":");
        DT__PUT_ALL(out, id, ",\"content\":");
        put_token(k, id, out);
        DT__PUT_ALL(out, ",\"single_word\":false,\"lstrip\":", truth(t->left),
                    ",\"rstrip\":", truth(t->right), ",\"normalized\":", truth(t->late),
                    ",\"special\":", truth(t->special));
        dt__put_text(out, "}");
    }
    dt__put_text(out, "]");
}

static void put_special(const dt_tokenizer *k, const dt_ids *ids, bool *first, dt__chars *out)
{
    for (int64_t i = 0; i < ids->n; i++) {
        dt__put_comma(out, first);
        dt__put_text(out, "{\"SpecialToken\":{\"id\":");
        put_token(k, ids->id[i], out);
        dt__put_text(out, ",\"type_id\":0}}");
    }
}

/* `sequences`: one letter per text. */
static void put_template(const dt_tokenizer *k, const char *name, const char *sequences,
                         dt__chars *out)
{
    bool first = true;
    dt__put_text(out, name);
    for (; *sequences != 0; sequences++) {
        put_special(k, &k->before, &first, out);
        dt__put_comma(out, &first);
        dt__put_text(out, "{\"Sequence\":{\"id\":\"");
        dt__put(out, sequences, 1);
        dt__put_text(out, "\",\"type_id\":0}}");
        put_special(k, &k->after, &first, out);
    }
    dt__put_text(out, "]");
}

static int32_t of_template(const dt_tokenizer *k, int64_t i)
{
    return i < k->before.n ? k->before.id[i] : k->after.id[i - k->before.n];
}

/* Writes each token of the template once. */
static void put_special_tokens(const dt_tokenizer *k, dt__chars *out)
{
    bool first = true;
    dt__put_text(out, ",\"special_tokens\":{");
    for (int64_t i = 0; i < k->before.n + k->after.n; i++) {
        const int32_t id = of_template(k, i);
        int64_t earlier = 0;
        while (of_template(k, earlier) != id) earlier++;
        if (earlier < i) continue;
        dt__put_comma(out, &first);
        put_token(k, id, out);
        dt__put_text(out, ":{\"id\":");
        put_token(k, id, out);
        dt__put_text(out, ",\"ids\":[");
        dt__put_integer(out, id);
        dt__put_text(out, "],\"tokens\":[");
        put_token(k, id, out);
        dt__put_text(out, "]}");
    }
    dt__put_text(out, "}");
}

static void put_post_processor(const dt_tokenizer *k, dt__chars *out)
{
    dt__put_text(out, ",\"post_processor\":");
    if (k->before.n + k->after.n == 0) {
        dt__put_text(out, k->bpe.pieces ? "null" : "{" BYTE_LEVEL "\"use_regex\":true}");
        return;
    }
    dt__put_text(out, "{\"type\":\"TemplateProcessing\"");
    put_template(k, ",\"single\":[", "A", out);
    put_template(k, ",\"pair\":[", "AB", out);
    put_special_tokens(k, out);
    dt__put_text(out, "}");
}

static void put_decoder(const dt_tokenizer *k, dt__chars *out)
{
    dt__put_text(out, ",\"decoder\":");
    if (!k->bpe.pieces) {
        dt__put_text(out, "{" BYTE_LEVEL "\"use_regex\":true}");
        return;
    }
    dt__put_text(out, "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":"
                      "{\"String\":\"" DT__SPACE_SIGN "\"},\"content\":\" \"},"
                      "{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}");
    if (k->bpe.strip > 0) {
        dt__put_text(out, ",{\"type\":\"Strip\",\"content\":\" \",\"start\":");
        dt__put_integer(out, k->bpe.strip);
        dt__put_text(out, ",\"stop\":0}");
    }
    dt__put_text(out, "]}");
}

static void put_model(const dt_tokenizer *k, dt__chars *out)
{
    bool first = true;
    dt__put_text(out, ",\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,"
                      "\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,"
                      "\"fuse_unk\":false,\"byte_fallback\":");
    DT__PUT_ALL(out, truth(k->bpe.pieces), ",\"ignore_merges\":", truth(k->bpe.ignore_merges));
    dt__put_text(out, ",\"vocab\":{");
    for (int32_t id = 0; id < k->vocab; id++) {
        if (!k->token[id].vocab) continue;
        dt__put_comma(out, &first);
        put_token(k, id, out);
        DT__PUT_ALL(out, ":", id);
    }
    dt__put_text(out, "},\"merges\":[");
    for (int64_t i = 0; i < k->bpe.merges; i++) {
        dt__put_text(out, i == 0 ? "[" : ",[");
        put_token(k, k->bpe.merge[i].left, out);
        dt__put_text(out, ",");
        put_token(k, k->bpe.merge[i].right, out);
        dt__put_text(out, "]");
    }
    dt__put_text(out, "]}");
}

void dt__bpe_put(const dt_tokenizer *k, dt__chars *out)
{
    dt__put_text(out, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,");
    put_added(k, out);
    dt__put_text(out, ",\"normalizer\":");
    dt__steps_put(&k->normalizer, DT__PART_NORMALIZER, out);
    dt__put_text(out, ",\"pre_tokenizer\":");
    dt__steps_put(&k->pre_tokenizer, DT__PART_PRE, out);
    put_post_processor(k, out);
    put_decoder(k, out);
    put_model(k, out);
    dt__put_text(out, "}");
}

/* Reads BPE, byte-level or with a sentencepiece vocabulary, from a tokenizer.json: vocabulary,
 * merges, steps. An unknown setting that would change ids is an error that names it; settings
 * without effect on ids (offsets, types of tokens, an unknown token if every byte is known) are
 * skipped. */
#include "core/text/utf8.h"
#include "data/text/tokenizer_bpe_read.h"

#include <stdio.h>
#include <string.h>

/* ---- members with one right value ----------------------------------------------------------- */

static dt_status must_be_empty(dt__json *j, const unsigned char *at, const char *what)
{
    const char *text;
    char shown[DT__SHOWN];
    if (at == NULL) return DT_OK;
    j->at = at;
    DT__TRY(dt__json_string(j, &text));
    if (*text == 0) return DT_OK;
    return dt__json_fail(j, "%s: '%s' is not known here, only none", what, dt__shown(text, shown));
}

static dt_status must_be_zero(dt__json *j, const unsigned char *at, const char *what)
{
    char text[DT__NUMBER_TEXT];
    if (at == NULL) return DT_OK;
    j->at = at;
    DT__TRY(dt__json_number(j, text));
    if (strspn(text, "-0.") == strlen(text)) return DT_OK;
    return dt__json_fail(j, "%s: %s is not known here, only none", what, text);
}

/* An object that is not supported here: the error names its type. */
static dt_status must_be_null(dt__json *j, const unsigned char *at, const char *what)
{
    const char *type;
    char shown[DT__SHOWN];
    if (at == NULL) return DT_OK;
    j->at = at;
    if (dt__json_type(j, what, &type) != DT_OK) type = "without a type";
    return dt__json_fail(j, "%s: '%s' is not known here, only null", what, dt__shown(type, shown));
}

dt_status dt__bpe_keep(reading *r, entries *list, const entry *e)
{
    DT__TRY(DT__RESERVE(r->j->ctx, list->at, list->n, list->room));
    list->at[list->n++] = *e;
    return DT_OK;
}

/* ---- the vocabulary ------------------------------------------------------------------------- */

/* Appends the bytes that the characters represent to r->bytes; for a sentencepiece vocabulary, the
 * text. False, with nothing appended, if a character represents no byte. */
static bool put_bytes(reading *r, const char *text, size_t n)
{
    const size_t before = r->bytes.used;
    const unsigned char *p = (const unsigned char *)text, *end = p + n;
    if (r->pieces) dt__put(&r->bytes, text, n);
    while (p < end && !r->pieces) {
        const int length = dt__utf8_length(p, end);
        const int byte = length == 0 ? -1 : dt__char_byte(dt__utf8_get(p, length));
        if (byte < 0) {
            r->bytes.used = before;
            return false;
        }
        dt__put(&r->bytes, &(char){ (char)(unsigned char)byte }, 1);
        p += length;
    }
    return true;
}

static dt_status read_vocab(reading *r, const unsigned char *at)
{
    dt__json *j = r->j;
    if (at == NULL) return dt__json_fail(j, "there is no model.vocab");
    j->at = at;
    for (bool more = dt__json_open(j, '{'); more; more = dt__json_more(j, '}')) {
        entry e = { NULL };
        DT__TRY(dt__json_bytes(j, &e.text, &e.n));
        DT__TRY(dt__json_expect(j, ':'));
        DT__TRY(dt__read_id(j, e.text, &e.id));
        if (e.n == 0) return dt__json_fail(j, "a token of model.vocab is empty");
        DT__TRY(dt__bpe_keep(r, &r->vocab, &e));
    }
    return j->status;
}

/* Makes a tokenizer with memory for every entry. */
static dt_status make_tokenizer(reading *r)
{
    int64_t vocab = 0;
    size_t bytes = 0;
    const entries *lists[] = { &r->added, &r->vocab };
    for (int l = 0; l < 2; l++) {
        for (int64_t i = 0; i < lists[l]->n; i++) {
            vocab = dt__max_i64(vocab, (int64_t)lists[l]->at[i].id + 1);
            bytes += lists[l]->at[i].n;
        }
    }
    DT__TRY(dt__tokenizer_new(r->j->ctx, vocab, bytes, &r->k));
    r->k->kind = &dt__tokenizer_is_bpe;
    return DT_OK;
}

void dt__bpe_set_token(reading *r, const entry *e, const char *bytes, size_t n, size_t *used)
{
    dt__token *t = &r->k->token[e->id];
    memcpy(r->k->bytes + *used, bytes, n);
    t->at = (uint32_t)*used;
    t->n = (uint32_t)n;
    t->there = true;
    *used += n;
}

dt_status dt__bpe_same_id(reading *r, const entry *e)
{
    const entry *other = r->vocab.at;
    char a[DT__SHOWN], b[DT__SHOWN];
    while (other->id != e->id) other++;
    return dt__json_fail(r->j, "'%s' and '%s' have one id, %d", dt__shown(other->text, a),
                         dt__shown(e->text, b), e->id);
}

/* Adds an entry of the vocabulary. An entry that is also an added token has that token's
 * properties; only such an entry may have characters that represent no byte. */
static dt_status set_entry(reading *r, const entry *e, size_t *used)
{
    char shown[DT__SHOWN];
    const entry *added = dt__bpe_find_added(r, e);
    dt__token *t = &r->k->token[e->id];
    if (added != NULL && added->id != e->id) {
        return dt__json_fail(r->j, "'%s' is token %d of the vocabulary, and added as %d",
                             dt__shown(e->text, shown), e->id, added->id);
    }
    if (t->vocab) return dt__bpe_same_id(r, e);
    t->vocab = true;
    r->bytes.used = 0;
    const bool bytes = put_bytes(r, e->text, e->n);
    if (r->bytes.failed) return DT_ERR_NOMEM;
    if (!bytes && added == NULL) {
        return dt__json_fail(r->j, "'%s' of the vocabulary is not a sequence of byte characters",
                             dt__shown(e->text, shown));
    }
    if (bytes && added != NULL &&
        (r->bytes.used != e->n || memcmp(r->bytes.bytes, e->text, e->n) != 0)) {
        return dt__json_fail(r->j, "'%s' is a token of bytes in the vocabulary, and added as text",
                             dt__shown(e->text, shown));
    }
    if (bytes) dt__bpe_set_token(r, e, r->bytes.bytes, r->bytes.used, used);
    return DT_OK;
}

static dt_status set_bytes(reading *r)
{
    dt_tokenizer *k = r->k;
    for (int b = 0; b < 256; b++) {
        const char byte = (char)(unsigned char)b;
        k->bpe.byte[b] = dt__tokenizer_find(k, &byte, 1);
        if (k->bpe.byte[b] >= 0) continue;
        return dt__json_fail(r->j, "byte 0x%02x (U+%04X) is not in the vocabulary", (unsigned)b,
                             (unsigned)dt__byte_char(b));
    }
    return DT_OK;
}

/* Finds the tokens <0x00> ... <0xFF>. */
static dt_status set_byte_pieces(reading *r)
{
    dt_tokenizer *k = r->k;
    for (int b = 0; b < 256; b++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)b);
        const int32_t id = dt__tokenizer_find(k, name, strlen(name));
        if (id < 0) {
            return dt__json_fail(
                r->j,
                "model.byte_fallback requires a token for each byte; '%s' is not in the vocabulary",
                name);
        }
        k->bpe.byte[b] = id;
        k->token[id].is_byte = true;
        k->token[id].byte = (uint8_t)b;
    }
    return DT_OK;
}

/* Adds the vocabulary and indexes tokens by their bytes, for encoding plain text. */
static dt_status set_vocab(reading *r, size_t *used)
{
    int32_t twice;
    char shown[DT__SHOWN];
    dt_tokenizer *k = r->k;
    for (int64_t i = 0; i < r->vocab.n; i++) DT__TRY(set_entry(r, &r->vocab.at[i], used));
    DT__TRY(dt__tokenizer_index(k, &twice));
    if (twice >= 0) {
        const entry *e = r->vocab.at;
        while (e->id != twice) e++;
        return dt__json_fail(r->j, "'%s' occurs twice in the vocabulary",
                             dt__shown(e->text, shown));
    }
    return r->pieces ? set_byte_pieces(r) : set_bytes(r);
}

/* ---- merges --------------------------------------------------------------------------------- */

/* The token whose bytes are those from `from` on, followed by `text`; -1: none. */
static int32_t find_text(reading *r, const char *text, size_t n)
{
    const size_t from = r->bytes.used;
    if (!put_bytes(r, text, n) || r->bytes.used == from) return -1;
    return dt__tokenizer_find(r->k, r->bytes.bytes + from, r->bytes.used - from);
}

static dt_status unknown_part(reading *r, int64_t i, const char *text)
{
    char shown[DT__SHOWN];
    return dt__json_fail(r->j, "merge %lld names '%s', which is not in the vocabulary",
                         (long long)i, dt__shown(text, shown));
}

static dt_status set_merge(reading *r, int64_t i, const char *left, const char *right)
{
    dt__merge *m = &r->k->bpe.merge[i];
    r->bytes.used = 0;
    m->left = find_text(r, left, strlen(left));
    if (m->left < 0 && !r->bytes.failed) return unknown_part(r, i, left);
    m->right = find_text(r, right, strlen(right));
    if (r->bytes.failed) return DT_ERR_NOMEM;
    if (m->right < 0) return unknown_part(r, i, right);
    m->result = dt__tokenizer_find(r->k, r->bytes.bytes, r->bytes.used);
    if (m->result < 0) {
        return dt__json_fail(r->j, "the result of merge %lld is not in the vocabulary",
                             (long long)i);
    }
    if (r->k->token[m->result].special) {
        return dt__json_fail(r->j,
                             "the result of merge %lld is a special token: plain text must "
                             "not become one",
                             (long long)i);
    }
    return DT_OK;
}

/* "left right", the form before tokenizers 0.20. */
static dt_status read_merge_text(reading *r, int64_t i)
{
    dt__json *j = r->j;
    const char *text;
    char shown[DT__SHOWN], *const copy = j->strings; /* where the scanner stores the text */
    DT__TRY(dt__json_string(j, &text));
    char *space = strchr(copy, ' ');
    if (space == NULL) {
        return dt__json_fail(j, "merge %lld is '%s', without a space between two tokens",
                             (long long)i, dt__shown(text, shown));
    }
    if (strchr(space + 1, ' ') != NULL) {
        return dt__json_fail(j, "merge %lld has more than two parts: '%s'", (long long)i,
                             dt__shown(text, shown));
    }
    *space = 0;
    return set_merge(r, i, text, space + 1);
}

static dt_status read_merge_pair(reading *r, int64_t i)
{
    dt__json *j = r->j;
    const char *part[2];
    int n = 0;
    for (bool more = dt__json_open(j, '['); more; more = dt__json_more(j, ']'), n++) {
        if (n == 2) return dt__json_fail(j, "merge %lld has more than two parts", (long long)i);
        DT__TRY(dt__json_string(j, &part[n]));
    }
    DT__TRY(j->status);
    if (n < 2) return dt__json_fail(j, "merge %lld has %d parts, not two", (long long)i, n);
    return set_merge(r, i, part[0], part[1]);
}

static dt_status read_merges(reading *r, const unsigned char *at)
{
    dt__json *j = r->j;
    dt__bpe *b = &r->k->bpe;
    int64_t room = 0, twice;
    if (at == NULL) return dt__json_fail(j, "there is no model.merges");
    j->at = at;
    for (bool more = dt__json_open(j, '['); more; more = dt__json_more(j, ']')) {
        char *const strings = j->strings;
        DT__TRY(DT__RESERVE(j->ctx, b->merge, b->merges, room));
        b->merge[b->merges] = (dt__merge){ -1, -1, -1 };
        if (dt__json_peek(j) == '"') DT__TRY(read_merge_text(r, b->merges));
        else DT__TRY(read_merge_pair(r, b->merges));
        b->merges++;
        j->strings = strings;
    }
    DT__TRY(j->status);
    DT__TRY(dt__bpe_index(j->ctx, b, &twice));
    if (twice < 0) return DT_OK;
    return dt__json_fail(j, "merge %lld occurs twice", (long long)twice);
}

/* Byte-level BPE ends with the step ByteLevel; a sentencepiece vocabulary has none. */
static dt_status check_steps(reading *r, const dt__steps *pre)
{
    int of_bytes = 0;
    for (int i = 0; i < pre->n; i++) {
        const char *name = pre->at[i].kind->name;
        of_bytes += strcmp(name, "ByteLevel") == 0;
        if (strcmp(name, "Metaspace") != 0 || (r->pieces && i == 0)) continue;
        return dt__json_fail(r->j,
                             "pre_tokenizer: 'Metaspace' is known here as the first step, of a "
                             "model with byte_fallback");
    }
    if (r->pieces) {
        return of_bytes == 0 ? DT_OK
                             : dt__json_fail(r->j, "pre_tokenizer: 'ByteLevel' is not known here "
                                                   "with model.byte_fallback, only without");
    }
    if (of_bytes == 1 && strcmp(pre->at[pre->n - 1].kind->name, "ByteLevel") == 0) return DT_OK;
    return dt__json_fail(r->j, "pre_tokenizer: without model.byte_fallback the last step, and no "
                               "other, must be ByteLevel");
}

static dt_status read_steps(reading *r)
{
    const unsigned char *const *at = r->parts->at;
    dt_tokenizer *k = r->k;
    k->bpe.pieces = r->pieces;
    DT__TRY(dt__steps_read(r->j, at[DT__PART_NORMALIZER], DT__PART_NORMALIZER, &k->normalizer));
    DT__TRY(dt__steps_read(r->j, at[DT__PART_PRE], DT__PART_PRE, &k->pre_tokenizer));
    DT__TRY(check_steps(r, &k->pre_tokenizer));
    if (r->pieces) return dt__bpe_read_decoder(r->j, at[DT__PART_DECODER], k);
    return dt__must_be_type(r->j, at[DT__PART_DECODER], "decoder", "ByteLevel");
}

static dt_status read_model(reading *r)
{
    enum { TYPE, DROPOUT, UNK, PREFIX, SUFFIX, FUSE, FALLBACK, IGNORE, VOCAB, MERGES, KEYS };
    static const char *const names[] = { "type",
                                         "dropout",
                                         "unk_token",
                                         "continuing_subword_prefix",
                                         "end_of_word_suffix",
                                         "fuse_unk",
                                         "byte_fallback",
                                         "ignore_merges",
                                         "vocab",
                                         "merges",
                                         NULL };
    const unsigned char *at[KEYS];
    dt__json *j = r->j;
    size_t used = 0;
    j->at = r->parts->at[DT__PART_MODEL];
    DT__TRY(dt__json_fields(j, "model", names, at));
    DT__TRY(must_be_zero(j, at[DROPOUT], "model.dropout"));
    DT__TRY(must_be_empty(j, at[PREFIX], "model.continuing_subword_prefix"));
    DT__TRY(must_be_empty(j, at[SUFFIX], "model.end_of_word_suffix"));
    DT__TRY(dt__read_truth(j, at[FALLBACK], false, &r->pieces));
    DT__TRY(read_vocab(r, at[VOCAB]));
    DT__TRY(make_tokenizer(r));
    DT__TRY(read_steps(r));
    DT__TRY(dt__read_truth(j, at[IGNORE], false, &r->k->bpe.ignore_merges));
    DT__TRY(set_vocab(r, &used));
    DT__TRY(dt__bpe_set_added(r, &used));
    return read_merges(r, at[MERGES]);
}

/* ---- all ------------------------------------------------------------------------------------ */

static dt_status read_all(reading *r)
{
    const unsigned char *const *at = r->parts->at;
    DT__TRY(must_be_null(r->j, at[DT__PART_TRUNCATION], "truncation"));
    DT__TRY(must_be_null(r->j, at[DT__PART_PADDING], "padding"));
    DT__TRY(dt__bpe_read_added(r));
    DT__TRY(read_model(r));
    return dt__bpe_read_template(r->j, at[DT__PART_POST], r->k);
}

dt_status dt__bpe_read(dt__json *j, const dt__tokenizer_parts *p, dt_tokenizer **out)
{
    reading r = { .j = j, .parts = p, .bytes = { .ctx = j->ctx } };
    const dt_status status = read_all(&r);
    DT__RELEASE(j->ctx, r.added.at, r.vocab.at, r.bytes.bytes);
    if (status == DT_OK) *out = r.k;
    else dt_tokenizer_free(r.k);
    return status;
}

/* Reads byte-level BPE from a tokenizer.json: vocabulary, merges, added tokens, template. An
 * unknown setting that would change ids is an error that names it; settings without effect on ids
 * (offsets, types of tokens, an unknown token if every byte is known) are skipped. */
#include "core/utf8.h"
#include "data/tokenizer.h"

#include <stdlib.h>
#include <string.h>

typedef struct entry { /* of the vocabulary, or an added token */
    const char *text;
    size_t n;
    int32_t id;
    bool special, late;
} entry;

typedef struct entries {
    entry *at;
    int64_t n, room;
} entries;

typedef struct reading {
    dt__json *j;
    const dt__tokenizer_parts *parts;
    entries added, vocab; /* `added` is sorted by text */
    dt__chars bytes;      /* of the current texts, with characters decoded to bytes */
    dt_tokenizer *k;
} reading;

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

/* ---- added tokens --------------------------------------------------------------------------- */

static dt_status keep(reading *r, entries *list, const entry *e)
{
    DT__TRY(DT__RESERVE(r->j->ctx, list->at, list->n, list->room));
    list->at[list->n++] = *e;
    return DT_OK;
}

static dt_status read_added(reading *r)
{
    enum { ID, CONTENT, SINGLE_WORD, LSTRIP, RSTRIP, NORMALIZED, SPECIAL, KEYS };
    static const char *const names[] = { "id",     "content",    "single_word", "lstrip",
                                         "rstrip", "normalized", "special",     NULL };
    const unsigned char *at[KEYS];
    dt__json *j = r->j;
    entry e = { NULL };
    DT__TRY(dt__json_fields(j, "an added token", names, at));
    const unsigned char *const after = j->at;
    if (at[ID] == NULL || at[CONTENT] == NULL) {
        return dt__json_fail(j, "an added token has an id and a content");
    }
    j->at = at[CONTENT];
    DT__TRY(dt__json_bytes(j, &e.text, &e.n));
    if (e.n == 0) return dt__json_fail(j, "an added token is empty: its content has no text");
    j->at = at[ID];
    DT__TRY(dt__read_id(j, e.text, &e.id));
    DT__TRY(dt__must_be_false(j, at[SINGLE_WORD], "single_word of an added token"));
    DT__TRY(dt__must_be_false(j, at[LSTRIP], "lstrip of an added token"));
    DT__TRY(dt__must_be_false(j, at[RSTRIP], "rstrip of an added token"));
    DT__TRY(dt__read_truth(j, at[SPECIAL], false, &e.special));
    DT__TRY(dt__read_truth(j, at[NORMALIZED], !e.special, &e.late));
    j->at = after;
    return keep(r, &r->added, &e);
}

static int order(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    const int c = memcmp(x->text, y->text, x->n < y->n ? x->n : y->n);
    return c != 0 ? c : (x->n > y->n) - (x->n < y->n);
}

static dt_status read_all_added(reading *r)
{
    dt__json *j = r->j;
    char shown[DT__SHOWN];
    if (r->parts->at[DT__PART_ADDED] == NULL) return DT_OK;
    j->at = r->parts->at[DT__PART_ADDED];
    DT__TRY(dt__json_expect(j, '['));
    bool more = !dt__json_next(j, ']');
    while (more) {
        DT__TRY(read_added(r));
        DT__TRY(dt__json_more(j, ']', &more));
    }
    if (r->added.n > 0) qsort(r->added.at, (size_t)r->added.n, sizeof *r->added.at, order);
    for (int64_t i = 1; i < r->added.n; i++) {
        if (order(&r->added.at[i - 1], &r->added.at[i]) != 0) continue;
        return dt__json_fail(j, "the added token '%s' occurs twice",
                             dt__shown(r->added.at[i].text, shown));
    }
    return DT_OK;
}

static const entry *find_added(const reading *r, const entry *e)
{
    if (r->added.n == 0) return NULL;
    return bsearch(e, r->added.at, (size_t)r->added.n, sizeof *e, order);
}

/* ---- the vocabulary ------------------------------------------------------------------------- */

/* Appends the bytes that the characters represent to r->bytes; false, with nothing appended, if a
 * character represents none. */
static bool put_bytes(reading *r, const char *text, size_t n)
{
    const size_t before = r->bytes.used;
    const unsigned char *p = (const unsigned char *)text, *end = p + n;
    while (p < end) {
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
    DT__TRY(dt__json_expect(j, '{'));
    bool more = !dt__json_next(j, '}');
    while (more) {
        entry e = { NULL };
        DT__TRY(dt__json_bytes(j, &e.text, &e.n));
        DT__TRY(dt__json_expect(j, ':'));
        DT__TRY(dt__read_id(j, e.text, &e.id));
        if (e.n == 0) return dt__json_fail(j, "a token of model.vocab is empty");
        DT__TRY(keep(r, &r->vocab, &e));
        DT__TRY(dt__json_more(j, '}', &more));
    }
    return DT_OK;
}

/* A tokenizer with room for every entry. */
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

static void set_token(reading *r, const entry *e, const char *bytes, size_t n, size_t *used)
{
    dt__token *t = &r->k->token[e->id];
    memcpy(r->k->bytes + *used, bytes, n);
    t->at = (uint32_t)*used;
    t->n = (uint32_t)n;
    t->there = true;
    *used += n;
}

static dt_status same_id(reading *r, const entry *e)
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
    const entry *added = find_added(r, e);
    dt__token *t = &r->k->token[e->id];
    if (added != NULL && added->id != e->id) {
        return dt__json_fail(r->j, "'%s' is token %d of the vocabulary, and added as %d",
                             dt__shown(e->text, shown), e->id, added->id);
    }
    if (t->vocab) return same_id(r, e);
    t->vocab = true;
    r->bytes.used = 0;
    const bool bytes = put_bytes(r, e->text, e->n);
    if (r->bytes.failed) return DT_ERR_NOMEM;
    if (!bytes && added == NULL) {
        return dt__json_fail(r->j, "'%s' of the vocabulary is no sequence of byte characters",
                             dt__shown(e->text, shown));
    }
    if (bytes && added != NULL &&
        (r->bytes.used != e->n || memcmp(r->bytes.bytes, e->text, e->n) != 0)) {
        return dt__json_fail(r->j, "'%s' is a token of bytes in the vocabulary, and added as text",
                             dt__shown(e->text, shown));
    }
    if (bytes) set_token(r, e, r->bytes.bytes, r->bytes.used, used);
    return DT_OK;
}

/* Plain text is encoded with the tokens whose bytes come from the vocabulary. */
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
    for (int b = 0; b < 256; b++) {
        const char byte = (char)(unsigned char)b;
        k->bpe.byte[b] = dt__tokenizer_find(k, &byte, 1);
        if (k->bpe.byte[b] >= 0) continue;
        return dt__json_fail(r->j, "byte 0x%02x (U+%04X) is not in the vocabulary", (unsigned)b,
                             (unsigned)dt__byte_char(b));
    }
    return DT_OK;
}

/* They are already sorted by text. */
static void sort_added(reading *r)
{
    dt__added *added = &r->k->added;
    int64_t n = 0;
    for (int late = 0; late < 2; late++) {
        added->first[late] = n;
        for (int64_t i = 0; i < r->added.n; i++) {
            if (r->added.at[i].late == (late == 1)) added->id[n++] = r->added.at[i].id;
        }
    }
    added->first[2] = n;
}

static dt_status set_added(reading *r, size_t *used)
{
    dt_tokenizer *k = r->k;
    char a[DT__SHOWN], b[DT__SHOWN];
    k->added.id = dt__alloc_array(k->ctx, r->added.n, sizeof *k->added.id);
    if (k->added.id == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < r->added.n; i++) {
        const entry *e = &r->added.at[i];
        dt__token *t = &k->token[e->id];
        if (t->added) {
            const entry *other = r->added.at;
            while (other->id != e->id) other++;
            return dt__json_fail(r->j, "the added tokens '%s' and '%s' have one id, %d",
                                 dt__shown(other->text, a), dt__shown(e->text, b), e->id);
        }
        if (!t->there) set_token(r, e, e->text, e->n, used);
        else if (t->n != e->n || memcmp(k->bytes + t->at, e->text, e->n) != 0) return same_id(r, e);
        t->added = true;
        t->special = e->special;
        t->late = e->late;
    }
    sort_added(r);
    return DT_OK;
}

/* ---- merges --------------------------------------------------------------------------------- */

/* The token of the bytes from `from` on followed by those of `text`; -1: none. */
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
    DT__TRY(dt__json_expect(j, '['));
    bool more = !dt__json_next(j, ']');
    for (; more; n++) {
        if (n == 2) return dt__json_fail(j, "merge %lld has more than two parts", (long long)i);
        DT__TRY(dt__json_string(j, &part[n]));
        DT__TRY(dt__json_more(j, ']', &more));
    }
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
    DT__TRY(dt__json_expect(j, '['));
    bool more = !dt__json_next(j, ']');
    while (more) {
        char *const strings = j->strings;
        DT__TRY(DT__RESERVE(j->ctx, b->merge, b->merges, room));
        b->merge[b->merges] = (dt__merge){ -1, -1, -1 };
        if (dt__json_peek(j) == '"') DT__TRY(read_merge_text(r, b->merges));
        else DT__TRY(read_merge_pair(r, b->merges));
        b->merges++;
        j->strings = strings;
        DT__TRY(dt__json_more(j, ']', &more));
    }
    DT__TRY(dt__bpe_index(j->ctx, b, &twice));
    if (twice < 0) return DT_OK;
    return dt__json_fail(j, "merge %lld occurs twice", (long long)twice);
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
    DT__TRY(dt__must_be_false(j, at[FALLBACK], "model.byte_fallback"));
    DT__TRY(read_vocab(r, at[VOCAB]));
    DT__TRY(make_tokenizer(r));
    DT__TRY(dt__read_truth(j, at[IGNORE], false, &r->k->bpe.ignore_merges));
    DT__TRY(set_vocab(r, &used));
    DT__TRY(set_added(r, &used));
    return read_merges(r, at[MERGES]);
}

/* ---- all ------------------------------------------------------------------------------------ */

static dt_status read_all(reading *r)
{
    const unsigned char *const *at = r->parts->at;
    DT__TRY(must_be_null(r->j, at[DT__PART_TRUNCATION], "truncation"));
    DT__TRY(must_be_null(r->j, at[DT__PART_PADDING], "padding"));
    DT__TRY(must_be_null(r->j, at[DT__PART_NORMALIZER], "normalizer"));
    DT__TRY(dt__must_be_type(r->j, at[DT__PART_DECODER], "decoder", "ByteLevel"));
    DT__TRY(read_all_added(r));
    DT__TRY(read_model(r));
    DT__TRY(dt__bpe_read_split(r->j, at[DT__PART_PRE], r->k));
    return dt__bpe_read_template(r->j, at[DT__PART_POST], r->k);
}

dt_status dt__bpe_read(dt__json *j, const dt__tokenizer_parts *p, dt_tokenizer **out)
{
    reading r = { .j = j, .parts = p, .bytes = { .ctx = j->ctx } };
    const dt_status status = read_all(&r);
    dt__release(j->ctx, r.added.at);
    dt__release(j->ctx, r.vocab.at);
    dt__release(j->ctx, r.bytes.bytes);
    if (status == DT_OK) *out = r.k;
    else dt_tokenizer_free(r.k);
    return status;
}

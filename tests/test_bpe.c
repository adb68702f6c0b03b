/* Byte-level BPE: exactly the ids of reference files; round trips of any bytes; broken and hostile
 * files. */
#include "sha256.h"
#include "testing.h"

#include "core/core.h"

#include <detent/io.h>
#include <detent/experimental/text.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static dt_ctx *ctx;

static void setup(void) { ck_assert(dt_ctx_create(&ctx, NULL) == DT_OK); }
static void teardown(void) { dt_ctx_free(ctx); }

/* ---- a sink that collects the text ---------------------------------------------------------- */

typedef struct kept {
    char *bytes;
    size_t n, room;
} kept;

static dt_status keep(void *user, const char *text, size_t bytes)
{
    kept *k = user;
    if (k->n + bytes > k->room) {
        k->room = 2 * (k->n + bytes);
        k->bytes = realloc(k->bytes, k->room);
        if (k->bytes == NULL) ck_abort_msg("out of memory");
    }
    memcpy(k->bytes + k->n, text, bytes);
    k->n += bytes;
    return DT_OK;
}

/* ---- reference values ----------------------------------------------------------------------- */

static test_names names; /* golden/tokenizer: those with encodings beside them */

static void find_names(void)
{
    test_names all;
    test_golden_names("tokenizer", "/", &all);
    names.n = 0;
    for (int i = 0; i < all.n; i++) {
        char folder[80];
        test_names files;
        snprintf(folder, sizeof folder, "tokenizer/%s", all.name[i]);
        test_golden_names(folder, ".safetensors", &files);
        for (int k = 0; k < files.n; k++) {
            if (strcmp(files.name[k], "encodings") != 0) continue;
            memcpy(names.name[names.n++], all.name[i], sizeof all.name[i]);
        }
    }
}

/* Lists of lists, one after the other: list i is [ends[i - 1], ends[i]). */
typedef struct lists {
    dt_tensor *values, *ends;
    int64_t n;
} lists;

static lists load(const dt_file *file, const char *name, dt_dtype dtype)
{
    lists l;
    char ends[64];
    snprintf(ends, sizeof ends, "%s.ends", name);
    TEST_OK(ctx, dt_file_load(file, name, dtype, &l.values));
    TEST_OK(ctx, dt_file_load(file, ends, DT_I32, &l.ends));
    l.n = dt_count(l.ends) - 1;
    return l;
}

static int64_t at(const lists *l, int64_t i, const char **bytes, const int32_t **ids)
{
    const int32_t *ends = dt_data(l->ends);
    const int32_t from = ends[i];
    if (bytes != NULL) *bytes = (const char *)dt_data(l->values) + from;
    if (ids != NULL) *ids = (const int32_t *)dt_data(l->values) + from;
    return ends[i + 1] - from;
}

static void unload(lists *l)
{
    dt_tensor_free(l->values);
    dt_tensor_free(l->ends);
}

/* Whether two lists are equal; empty ones are, whatever their pointers. */
static bool same(const void *a, const void *b, size_t bytes)
{
    return bytes == 0 || memcmp(a, b, bytes) == 0;
}

static void check_ids(const dt_tokenizer *k, const dt_file *file, const char *text_name,
                      const char *ids_name, dt_encoding how)
{
    lists text = load(file, text_name, DT_U8), want = load(file, ids_name, DT_I32);
    dt_ids ids = { 0 };
    kept back = { 0 };
    ck_assert_int_eq(text.n, want.n);
    for (int64_t i = 0; i < text.n; i++) {
        const char *bytes;
        const int32_t *right;
        const int64_t n = at(&text, i, &bytes, NULL), m = at(&want, i, NULL, &right);
        ids.n = 0;
        back.n = 0;
        TEST_EACH(dt_tokenizer_encode(k, bytes, (size_t)n, &how, &ids) == DT_OK, "%s",
                  dt_error(ctx));
        TEST_EACH(ids.n == m && same(ids.id, right, (size_t)m * sizeof *right),
                  "%s: text %lld has other ids", ids_name, (long long)i);
        if (how.wrap) continue;
        TEST_EACH(dt_tokenizer_decode(k, ids.id, ids.n, false, keep, &back) == DT_OK, "%s",
                  dt_error(ctx));
        TEST_EACH(back.n == (size_t)n && same(back.bytes, bytes, back.n),
                  "%s: text %lld does not come back", ids_name, (long long)i);
    }
    free(back.bytes);
    dt_ids_free(&ids);
    unload(&text);
    unload(&want);
}

static void check_bytes(const dt_tokenizer *k, const dt_file *file, const char *bytes_name,
                        bool skip)
{
    lists ids = load(file, "random_ids", DT_I32), want = load(file, bytes_name, DT_U8);
    kept back = { 0 };
    for (int64_t i = 0; i < ids.n; i++) {
        const int32_t *id;
        const char *right;
        const int64_t n = at(&ids, i, NULL, &id), m = at(&want, i, &right, NULL);
        back.n = 0;
        TEST_EACH(dt_tokenizer_decode(k, id, n, skip, keep, &back) == DT_OK, "%s", dt_error(ctx));
        TEST_EACH(back.n == (size_t)m && same(back.bytes, right, back.n),
                  "%s: list %lld gives other bytes", bytes_name, (long long)i);
    }
    free(back.bytes);
    unload(&ids);
    unload(&want);
}

static void check_all(const dt_tokenizer *k, const char *encodings)
{
    dt_file *file;
    TEST_OK(ctx, dt_file_open(ctx, encodings, &file));
    check_ids(k, file, "text", "ids", (dt_encoding){ .special = true });
    check_ids(k, file, "text", "ids_plain", (dt_encoding){ .special = false });
    check_ids(k, file, "text", "ids_template", (dt_encoding){ .special = true, .wrap = true });
    check_ids(k, file, "bytes", "bytes_ids", (dt_encoding){ .special = true });
    check_bytes(k, file, "random_bytes", false);
    check_bytes(k, file, "random_bytes_skip", true);
    dt_file_close(file);
}

/* The tokenizer written as text and read again; its text must be equal. */
static dt_tokenizer *again(const dt_tokenizer *k)
{
    kept text = { 0 }, other = { 0 };
    dt_tokenizer *out;
    TEST_OK(ctx, dt_tokenizer_text(k, keep, &text));
    TEST_OK(ctx, dt_tokenizer_parse(ctx, text.bytes, text.n, "itself", &out));
    TEST_OK(ctx, dt_tokenizer_text(out, keep, &other));
    ck_assert(text.n == other.n && memcmp(text.bytes, other.bytes, text.n) == 0);
    free(text.bytes);
    free(other.bytes);
    return out;
}

static bool find(char path[TEST_PATH], const char *name, const char *file)
{
    char part[TEST_PATH];
    snprintf(part, sizeof part, "tokenizer/%s/%s", name, file);
    return test_golden(path, part);
}

START_TEST(ids_are_the_reference_s)
{
    char path[TEST_PATH], encodings[TEST_PATH];
    dt_tokenizer *k;
    if (!find(path, names.name[_i], "tokenizer.json")) return;
    if (!find(encodings, names.name[_i], "encodings.safetensors")) return;
    TEST_OK(ctx, dt_tokenizer_read(ctx, path, &k));
    ck_assert_str_eq(dt_tokenizer_kind(k), "bpe");
    check_all(k, encodings);
    dt_tokenizer *other = again(k);
    check_all(other, encodings);
    ck_assert_int_eq(dt_tokenizer_vocab(other), atoi(strchr(names.name[_i], '-') + 1));
    const bool gpt2 = strncmp(names.name[_i], "gpt2", 4) == 0;
    ck_assert_int_eq(dt_tokenizer_end(other),
                     dt_tokenizer_id(k, gpt2 ? "<|endoftext|>" : "<|end_of_text|>"));
    ck_assert_int_eq(dt_tokenizer_id(k, "no such token"), -1);
    dt_tokenizer_free(other);
    dt_tokenizer_free(k);
}
END_TEST

START_TEST(old_merges_are_the_same)
{
    char path[TEST_PATH], encodings[TEST_PATH];
    dt_tokenizer *k;
    if (!find(path, "gpt2-512-old", "tokenizer.json")) return;
    if (!find(encodings, "gpt2-512", "encodings.safetensors")) return;
    TEST_OK(ctx, dt_tokenizer_read(ctx, path, &k));
    check_all(k, encodings);
    dt_tokenizer_free(k);
}
END_TEST

static json_t *read_index(void)
{
    char path[TEST_PATH];
    json_error_t error;
    if (!test_parsers() || !test_golden(path, "tokenizer/index.json")) return NULL;
    json_t *index = json_load_file(path, 0, &error);
    ck_assert_msg(index != NULL, "%s", error.text);
    return index;
}

START_TEST(a_corpus_has_the_reference_s_ids)
{
    char path[TEST_PATH], corpus[TEST_PATH], digits[65];
    dt_tokenizer *k;
    dt_ids ids = { 0 };
    size_t bytes;
    json_t *index = read_index();
    if (index == NULL || !test_shared(corpus, "data/text/tinyshakespeare.txt") ||
        !find(path, names.name[_i], "tokenizer.json")) {
        json_decref(index);
        return;
    }
    TEST_OK(ctx, dt_tokenizer_read(ctx, path, &k));
    char *text = test_read_file(corpus, &bytes);
    TEST_OK(ctx, dt_tokenizer_encode(k, text, bytes, &(dt_encoding){ .special = true }, &ids));
    free(text);
    unsigned char *u16 = malloc((size_t)ids.n * 2);
    for (int64_t i = 0; i < ids.n; i++) {
        u16[2 * i] = (unsigned char)ids.id[i];
        u16[2 * i + 1] = (unsigned char)(ids.id[i] >> 8);
    }
    test_sha256(u16, (size_t)ids.n * 2, digits);
    free(u16);
    const json_t *want = json_object_get(
        json_object_get(json_object_get(index, "tokenizers"), names.name[_i]), "corpus");
    ck_assert_int_eq(ids.n, json_integer_value(json_object_get(want, "tokens")));
    ck_assert_str_eq(
        digits, json_string_value(json_object_get(want, "sha256 of the ids as little-endian u16")));
    dt_ids_free(&ids);
    dt_tokenizer_free(k);
    json_decref(index);
}
END_TEST

/* ---- broken files --------------------------------------------------------------------------- */

static const struct {
    const char *name, *message;
} broken[] = {
    { "truncated", "ends" },
    { "no-model", "no model" },
    { "no-vocab", "no model.vocab" },
    { "wordpiece", "WordPiece" },
    { "unknown-merge", "merge 3 names 'zzzz'" },
    { "merge-of-three", "merge 2 has more than two parts" },
    { "merge-no-space", "merge 2 is 'ab', without a space" },
    { "no-result", "result of merge 0" },
    { "same-id", "'a' and 'b' have one id" },
    { "negative-id", "the id of 'a' is negative" },
    { "text-id", "the id of 'a' is not a number" },
    { "missing-byte", "byte 0x80" },
    { "byte-fallback", "byte_fallback" },
    { "dropout", "dropout: 0.1" },
    { "normalizer", "normalizer: 'Lowercase'" },
    { "other-regex", "the regex '" },
    { "metaspace", "Metaspace" },
    { "prefix-space", "add_prefix_space: true" },
    { "added-clash", "have one id" },
    { "added-empty", "added token is empty" },
};

START_TEST(broken_files_are_refused)
{
    char path[TEST_PATH], name[64];
    dt_tokenizer *k = NULL;
    snprintf(name, sizeof name, "tokenizer/broken/%s.json", broken[_i].name);
    if (!test_golden(path, name)) return;
    TEST_FAILS(ctx, DT_ERR_FORMAT, broken[_i].message, dt_tokenizer_read(ctx, path, &k));
    ck_assert(k == NULL && strstr(dt_error(ctx), broken[_i].name) != NULL);
}
END_TEST

START_TEST(every_broken_file_is_tried)
{
    json_t *index = read_index();
    const char *name;
    json_t *entry;
    if (index == NULL) return;
    json_object_foreach(json_object_get(index, "broken"), name, entry)
    {
        int i = 0;
        while (i < DT__COUNT_OF(broken) && strncmp(broken[i].name, name, strcspn(name, ".")) != 0) {
            i++;
        }
        TEST_EACH(i < DT__COUNT_OF(broken), "%s", name);
    }
    json_decref(index);
}
END_TEST

/* ---- edited files --------------------------------------------------------------------------- */

/* A reference file with the first `from` replaced; NULL where there is no such file. To be
 * freed. */
static char *edited(const char *name, const char *from, const char *to)
{
    char path[TEST_PATH];
    if (!find(path, name, "tokenizer.json")) return NULL;
    char *text = test_read_file(path, NULL), *place = strstr(text, from);
    ck_assert_msg(place != NULL, "%s is not in %s", from, name);
    char *all = malloc(strlen(text) + strlen(to) + 1);
    memcpy(all, text, (size_t)(place - text));
    strcpy(all + (place - text), to);
    strcat(all, place + strlen(from));
    free(text);
    return all;
}

static const struct {
    const char *from, *to, *message; /* NULL: nothing is wrong with it */
} edits[] = {
    { "\"unk_token\":null", "\"unk_token\":\"<unk>\"", NULL },
    { "\"dropout\":null", "\"dropout\":0.0", NULL },
    { "\"end_of_word_suffix\":null", "\"end_of_word_suffix\":\"\"", NULL },
    { "\"ignore_merges\":true,", "", NULL },
    { "\"version\":\"1.0\"", "\"version\":\"1.0\",\"extra\":1", "unknown key 'extra'" },
    { "\"truncation\":null", "\"truncation\":{\"max_length\":5}", "truncation: 'without a type'" },
    { "\"padding\":null", "\"padding\":7", "padding" },
    { "\"normalizer\":null", "\"normalizer\":{\"type\":\"NFC\"}", NULL },
    { "\"rstrip\":false", "\"rstrip\":true", NULL },
    { "\"lstrip\":false", "\"lstrip\":true", NULL },
    { "\"single_word\":false", "\"single_word\":true", "single_word of an added token: true" },
    { "\"id\":510", "\"id\":5", "'&' and '<|begin_of_text|>' have one id, 5" },
    { "\"id\":510", "\"id\":4194304", "4194304 are possible" },
    { "\"id\":510", "\"id\":1.5", "a whole number" },
    { "\"id\":511,\"content\":\"<|end_of_text|>\"", "\"id\":511,\"content\":\"<|begin_of_text|>\"",
      "'<|begin_of_text|>' occurs twice" },
    { "\"behavior\":\"Isolated\"", "\"behavior\":\"Removed\"",
      "pre_tokenizer.pretokenizers[0].behavior: 'Removed'" },
    { "\"invert\":false", "\"invert\":true", NULL },
    { "\"use_regex\":false", "\"use_regex\":true", NULL },
    { "\\\\p{N}{1,3}", "\\\\p{N}", NULL },
    { "\\\\p{N}{1,3}", "\\\\p{N}{1,2}", "the regex '(?i:'s|'t" },
    { "\"type\":\"Split\"", "\"type\":\"Digits\"", "unknown key 'pattern' in pre_tokenizer" },
    { "\"add_prefix_space\":false,", "", "add_prefix_space is missing" },
    { "\"type\":\"TemplateProcessing\"", "\"type\":\"BertProcessing\"",
      "post_processor: 'BertProcessing'" },
    { "\"ids\":[510]", "\"ids\":[9999]", "'<|begin_of_text|>' is 9999, which is not a token" },
    { "\"id\":\"A\"", "\"id\":\"B\"", "a second text" },
    { "{\"SpecialToken\":{\"id\":\"<|begin", "{\"SpecialToken\":{\"id\":\"<|never",
      "special_tokens does not have '<|never_of_text|>'" },
    { "\"decoder\":{\"type\":\"ByteLevel\"", "\"decoder\":{\"type\":\"Fuse\"", "decoder: 'Fuse'" },
    { "\"continuing_subword_prefix\":null", "\"continuing_subword_prefix\":\"##\"",
      "continuing_subword_prefix: '##'" },
    { "\"fuse_unk\":false", "\"fuse\":false", "unknown key 'fuse' in model" },
    { "\"!\":0", "\"\\u20ac\":0", "is not a sequence of byte characters" },
    { "\"!\":0", "\"\":0", "empty" },
    { "\"!\":0", "\"#\":0", "'#' occurs twice" },
    { "\"merges\":[", "\"merges\":[[\"h\",\"e\"],", "occurs twice" },
    { "\"merges\":[", "\"merges\":[[\"h\"],", "merge 0 has 1 parts" },
    { "\"merges\":[", "\"merges\":[7,", "'[' is expected here" },
};

START_TEST(an_edit_is_seen)
{
    dt_tokenizer *k = NULL;
    char *text = edited("llama3-512", edits[_i].from, edits[_i].to);
    if (text == NULL) return;
    if (edits[_i].message == NULL) {
        TEST_OK(ctx, dt_tokenizer_parse(ctx, text, strlen(text), "edited", &k));
    } else {
        TEST_FAILS(ctx, DT_ERR_FORMAT, edits[_i].message,
                   dt_tokenizer_parse(ctx, text, strlen(text), "edited", &k));
        ck_assert(k == NULL);
    }
    dt_tokenizer_free(k);
    free(text);
}
END_TEST

/* ---- added tokens --------------------------------------------------------------------------- */

static void check_list(const dt_tokenizer *k, const char *text, bool special, const char *want)
{
    char all[512] = "";
    dt_ids ids = { 0 };
    TEST_OK(ctx,
            dt_tokenizer_encode(k, text, strlen(text), &(dt_encoding){ .special = special }, &ids));
    for (int64_t i = 0; i < ids.n; i++) {
        snprintf(all + strlen(all), sizeof all - strlen(all), i == 0 ? "%d" : " %d", ids.id[i]);
    }
    ck_assert_str_eq(all, want);
    dt_ids_free(&ids);
}

/* Qwen2's expression is Llama 3's with a piece for each digit. Ids by tokenizers 0.23.3. */
START_TEST(digits_one_by_one)
{
    char *text = edited("llama3-512", "\\\\p{N}{1,3}", "\\\\p{N}");
    dt_tokenizer *k;
    if (text == NULL) return;
    TEST_OK(ctx, dt_tokenizer_parse(ctx, text, strlen(text), "edited", &k));
    dt_tokenizer *other = again(k);
    check_list(other, "Hello, the 12345 world's 9\n\n \xc2\xb2\xc2\xbd end", false,
               "39 415 78 11 268 220 16 17 18 19 20 263 271 316 324 220 24 272 220 126 110 126 121 "
               "338 267");
    free(text);
    dt_tokenizer_free(other);
    dt_tokenizer_free(k);
}
END_TEST

/* Leftmost, then longest; those with `normalized` only between the others. */
START_TEST(added_tokens_are_found_first)
{
    char *text = edited("gpt2-512", "\"added_tokens\":[",
                        "\"added_tokens\":["
                        "{\"id\":600,\"content\":\"<a>\",\"special\":true},"
                        "{\"id\":601,\"content\":\"<a>!\",\"special\":true},"
                        "{\"id\":602,\"content\":\"!<\",\"normalized\":true,\"special\":false},"
                        "{\"id\":603,\"content\":\"\\u20ac\",\"special\":false},");
    dt_tokenizer *k;
    kept back = { 0 };
    static const int32_t ids[] = { 600, 602, 605, 603 };
    if (text == NULL) return;
    TEST_OK(ctx, dt_tokenizer_parse(ctx, text, strlen(text), "edited", &k));
    dt_tokenizer *other = again(k);
    ck_assert_int_eq(dt_tokenizer_vocab(other), 604);
    check_list(other, "<a>!<a>", true, "601 600");
    check_list(other, "!<a>!<", true, "0 601 27");
    check_list(other, "!!<!", true, "0 602 0");
    check_list(other, "\xe2\x82\xac<a", true, "603 27 64");
    check_list(other, "<a>!<", false, "27 64 29 0 27");
    ck_assert_int_eq(dt_tokenizer_id(other, "<a>!"), 601);
    ck_assert_int_eq(dt_tokenizer_id(other, "!<"), 602);
    ck_assert_int_eq(dt_tokenizer_id(other, "<a"), -1);
    TEST_OK(ctx, dt_tokenizer_decode(other, ids, 4, true, keep, &back));
    ck_assert(back.n == 5 && memcmp(back.bytes, "!<\xe2\x82\xac", 5) == 0);
    free(back.bytes);
    free(text);
    dt_tokenizer_free(other);
    dt_tokenizer_free(k);
}
END_TEST

/* ---- any bytes ------------------------------------------------------------------------------ */

/* Words, spaces, special tokens, characters, and bytes that are not UTF-8. */
static size_t random_text(dt__stream *s, char *text, size_t room)
{
    static const char *const parts[] = {
        "the ",
        "  ",
        "\n",
        "\r\n ",
        "'s",
        "'LL",
        "'\xc5\xbf",
        "1234567",
        "\xc3\xa9",
        "\xe0\xa4\xbf",
        "\xc2\x85",
        "\xe3\x80\x80",
        "<|endoftext|>",
        "<|begin_of_text|>",
        "\xff",
        "\xe2\x82",
        ".,!?",
        "\t x",
        "ing",
    };
    size_t n = 0;
    const size_t most = (size_t)dt__random_below(s, room);
    while (n < most) {
        const uint64_t pick = dt__random_below(s, DT__COUNT_OF(parts) + 6);
        if (pick >= DT__COUNT_OF(parts)) {
            text[n++] = (char)(unsigned char)dt__random_below(s, 256);
            continue;
        }
        const size_t length = strlen(parts[pick]);
        if (n + length > most) break;
        memcpy(text + n, parts[pick], length);
        n += length;
    }
    return n;
}

/* Decoding restores the bytes, and plain text never becomes a special token. */
static void check_random(const dt_tokenizer *k, int32_t first_special, int rounds)
{
    dt__stream s = dt__stream_of(7, DT__FOR_USER);
    char text[300];
    dt_ids ids = { 0 };
    kept back = { 0 };
    for (int i = 0; i < rounds; i++) {
        const size_t n = random_text(&s, text, sizeof text);
        const dt_encoding how = { .special = i % 2 == 0 };
        ids.n = 0;
        back.n = 0;
        TEST_EACH(dt_tokenizer_encode(k, text, n, &how, &ids) == DT_OK, "%s", dt_error(ctx));
        for (int64_t j = 0; j < ids.n && !how.special; j++) {
            TEST_EACH(ids.id[j] < first_special, "text %d becomes %d", i, ids.id[j]);
        }
        TEST_EACH(dt_tokenizer_decode(k, ids.id, ids.n, false, keep, &back) == DT_OK, "%s",
                  dt_error(ctx));
        TEST_EACH(back.n == n && memcmp(back.bytes, text, n) == 0, "text %d does not come back", i);
    }
    free(back.bytes);
    dt_ids_free(&ids);
}

START_TEST(any_bytes_come_back)
{
    static const char *const both[] = { "gpt2-512", "llama3-512" };
    char path[TEST_PATH];
    dt_tokenizer *k;
    if (!find(path, both[_i], "tokenizer.json")) return;
    TEST_OK(ctx, dt_tokenizer_read(ctx, path, &k));
    check_random(k, _i == 0 ? 511 : 510, 3000);
    dt_tokenizer_free(k);
}
END_TEST

/* Untrusted text may have pieces of any length: here the whole text is one. */
START_TEST(long_pieces_take_n_log_n)
{
    static const char letters[] = "et \xff";
    char path[TEST_PATH];
    dt_tokenizer *k;
    const size_t n = 400000;
    if (!find(path, "llama3-512", "tokenizer.json")) return;
    TEST_OK(ctx, dt_tokenizer_read(ctx, path, &k));
    char *text = malloc(n);
    for (int i = 0; i < 5; i++) {
        dt_ids ids = { 0 };
        kept back = { 0 };
        if (i < 4) memset(text, letters[i], n);
        else
            for (size_t j = 0; j < n; j++) text[j] = "the"[j % 3];
        TEST_OK(ctx, dt_tokenizer_encode(k, text, n, NULL, &ids));
        TEST_OK(ctx, dt_tokenizer_decode(k, ids.id, ids.n, false, keep, &back));
        ck_assert(back.n == n && memcmp(back.bytes, text, n) == 0);
        free(back.bytes);
        dt_ids_free(&ids);
    }
    free(text);
    dt_tokenizer_free(k);
}
END_TEST

/* ---- hostile files -------------------------------------------------------------------------- */

static const char *const splices[] = { "true", "null",    "{}",      "[]",
                                       "\"\"", "-1",      "4194303", "99999999999999999999",
                                       "[[",   "\\u0000", "}",       "]",
                                       ",",    "\"id\":", "\xff" };

static size_t mutate(dt__stream *s, char *text, size_t n)
{
    const size_t at = (size_t)dt__random_below(s, n);
    const size_t cut = (size_t)dt__random_below(s, dt__random_below(s, 8) == 0 ? n - at : 12);
    const size_t gone = cut < n - at ? cut : n - at;
    const char *with = splices[dt__random_below(s, DT__COUNT_OF(splices))];
    const size_t length = dt__random_below(s, 3) == 0 ? strlen(with) : 0;
    if (dt__random_below(s, 3) == 0) {
        text[at] = (char)(unsigned char)dt__random_below(s, 256);
        return n;
    }
    memmove(text + at + length, text + at + gone, n - at - gone);
    memcpy(text + at, with, length);
    return n - gone + length;
}

/* Any contents of a file give an error, or a tokenizer that decodes what it encoded. */
START_TEST(mutations_do_no_harm)
{
    char path[TEST_PATH];
    size_t n;
    int good = 0;
    dt__stream s = dt__stream_of((uint64_t)_i, DT__FOR_USER);
    if (!find(path, _i == 0 ? "gpt2-512" : "llama3-512", "tokenizer.json")) return;
    char *text = test_read_file(path, &n), *copy = malloc(n + 64);
    for (int i = 0; i < 3000; i++) {
        dt_tokenizer *k;
        memcpy(copy, text, n);
        size_t m = mutate(&s, copy, n);
        if (i % 3 == 0) m = mutate(&s, copy, m < 1 ? 1 : m);
        char *exact = malloc(m + 1); /* so that a sanitizer sees its end */
        memcpy(exact, copy, m);
        const dt_status status = dt_tokenizer_parse(ctx, exact, m, "mutated", &k);
        free(exact);
        TEST_EACH(status == DT_OK || status == DT_ERR_FORMAT, "%s", dt_error(ctx));
        if (status != DT_OK) continue;
        check_random(k, INT32_MAX, 4);
        dt_tokenizer_free(again(k));
        dt_tokenizer_free(k);
        good++;
    }
    printf("bpe: %d of 3000 mutations are tokenizers\n", good);
    free(copy);
    free(text);
}
END_TEST

static dt_status use(dt_ctx *c, void *user)
{
    const char *const *file = user;
    dt_tokenizer *k = NULL;
    dt_ids ids = { 0 };
    kept text = { 0 };
    dt_status s = dt_tokenizer_read(c, file[0], &k);
    if (s == DT_OK) {
        s = dt_tokenizer_encode(k, "The end.<|end_of_text|>", 23, &(dt_encoding){ true, true },
                                &ids);
    }
    if (s == DT_OK) s = dt_tokenizer_text(k, keep, &text);
    if (s == DT_OK) s = dt_tokenizer_write(k, file[1]);
    if (s == DT_OK) s = dt_tokens_write(c, file[2], ids.id, ids.n, 2);
    dt_tokens *t = NULL;
    if (s == DT_OK) s = dt_tokens_open(c, file[2], 2, &t);
    dt_tokens_free(t);
    free(text.bytes);
    dt_ids_free(&ids);
    dt_tokenizer_free(k);
    return s;
}

START_TEST(every_allocation_may_fail)
{
    char folder[TEST_PATH], path[TEST_PATH], saved[TEST_PATH], ids[TEST_PATH];
    const char *files[] = { path, saved, ids };
    if (!find(path, "llama3-512", "tokenizer.json")) return;
    test_folder(folder);
    test_join(saved, folder, "k.json");
    test_join(ids, folder, "a.bin");
    printf("bpe: %lld allocations failed in turn\n", (long long)test_every_allocation(use, files));
}
END_TEST

Suite *test_bpe_suite(void)
{
    Suite *s = suite_create("bpe");
    TCase *c = tcase_create("reference");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 120);
    find_names();
    tcase_add_loop_test(c, ids_are_the_reference_s, 0, names.n);
    tcase_add_test(c, old_merges_are_the_same);
    tcase_add_loop_test(c, a_corpus_has_the_reference_s_ids, 0, names.n);
    tcase_add_loop_test(c, broken_files_are_refused, 0, DT__COUNT_OF(broken));
    tcase_add_test(c, every_broken_file_is_tried);
    tcase_add_loop_test(c, an_edit_is_seen, 0, DT__COUNT_OF(edits));
    tcase_add_test(c, digits_one_by_one);
    tcase_add_test(c, added_tokens_are_found_first);
    tcase_add_loop_test(c, any_bytes_come_back, 0, 2);
    tcase_add_test(c, long_pieces_take_n_log_n);
    tcase_add_loop_test(c, mutations_do_no_harm, 0, 2);
    tcase_add_test(c, every_allocation_may_fail);
    suite_add_tcase(s, c);
    return s;
}

/* Byte-level BPE: the ids of reference files, exactly; round trips of any bytes; files that are broken
 * or made to harm. */
#include "sha256.h"
#include "testing.h"

#include "core/core.h"

#include <detent/io.h>
#include <detent/text.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static dt_ctx *ctx;

static void setup(void) { ck_assert(dt_ctx_create(&ctx, NULL) == DT_OK); }
static void teardown(void) { dt_ctx_free(ctx); }

/* ---- a sink that keeps what it gets ------------------------------------------------------------ */

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

/* ---- reference values ---------------------------------------------------------------------------- */

static const char *const names[] = { "gpt2-512", "gpt2-1024", "llama3-512", "llama3-1024" };

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
        TEST_EACH(ids.n == m && memcmp(ids.id, right, (size_t)m * sizeof *right) == 0,
                  "%s: text %lld has other ids", ids_name, (long long)i);
        if (how.wrap) continue;
        TEST_EACH(dt_tokenizer_decode(k, ids.id, ids.n, false, keep, &back) == DT_OK, "%s",
                  dt_error(ctx));
        TEST_EACH(back.n == (size_t)n && memcmp(back.bytes, bytes, back.n) == 0,
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
        TEST_EACH(back.n == (size_t)m && memcmp(back.bytes, right, back.n) == 0,
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

/* The same tokenizer once more, through its text, which must be the text of that one too. */
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
    if (!find(path, names[_i], "tokenizer.json")) return;
    if (!find(encodings, names[_i], "encodings.safetensors")) return;
    TEST_OK(ctx, dt_tokenizer_read(ctx, path, &k));
    ck_assert_str_eq(dt_tokenizer_kind(k), "bpe");
    check_all(k, encodings);
    dt_tokenizer *other = again(k);
    check_all(other, encodings);
    ck_assert_int_eq(dt_tokenizer_vocab(other), atoi(strchr(names[_i], '-') + 1));
    ck_assert_int_eq(dt_tokenizer_end(other),
                     dt_tokenizer_id(k, _i < 2 ? "<|endoftext|>" : "<|end_of_text|>"));
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
    if (!test_golden(path, "tokenizer/index.json")) return NULL;
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
        !find(path, names[_i], "tokenizer.json")) {
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
    const json_t *want =
        json_object_get(json_object_get(json_object_get(index, "tokenizers"), names[_i]), "corpus");
    ck_assert_int_eq(ids.n, json_integer_value(json_object_get(want, "tokens")));
    ck_assert_str_eq(
        digits, json_string_value(json_object_get(want, "sha256 of the ids as little-endian u16")));
    dt_ids_free(&ids);
    dt_tokenizer_free(k);
    json_decref(index);
}
END_TEST

/* ---- broken files --------------------------------------------------------------------------------- */

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
    { "text-id", "the id of 'a' is no number" },
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

Suite *test_bpe_suite(void)
{
    Suite *s = suite_create("bpe");
    TCase *c = tcase_create("reference");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, ids_are_the_reference_s, 0, DT__COUNT_OF(names));
    tcase_add_test(c, old_merges_are_the_same);
    tcase_add_loop_test(c, a_corpus_has_the_reference_s_ids, 0, DT__COUNT_OF(names));
    tcase_add_loop_test(c, broken_files_are_refused, 0, DT__COUNT_OF(broken));
    tcase_add_test(c, every_broken_file_is_tried);
    suite_add_tcase(s, c);
    return s;
}

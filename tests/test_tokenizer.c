/* Tokenizers: round trips of any bytes, characters of a corpus, tokenizers as text, refused
 * input. */
#include "testing.h"

#include "core/core.h"

#include <detent/experimental/text.h>

#include <stdlib.h>

static dt_ctx *ctx;

static void setup(void) { ck_assert(dt_ctx_create(&ctx, NULL) == DT_OK); }
static void teardown(void) { dt_ctx_free(ctx); }

/* ---- a sink that collects the text ---------------------------------------------------------- */

typedef struct kept {
    char bytes[1 << 16];
    size_t n;
} kept;

static dt_status keep(void *user, const char *text, size_t bytes)
{
    kept *k = user;
    ck_assert(bytes <= sizeof k->bytes - k->n);
    memcpy(k->bytes + k->n, text, bytes);
    k->n += bytes;
    return DT_OK;
}

/* The same tokenizer once more, through its text. */
static dt_tokenizer *again(const dt_tokenizer *k)
{
    static kept text;
    dt_tokenizer *out;
    text.n = 0;
    TEST_OK(ctx, dt_tokenizer_text(k, keep, &text));
    TEST_OK(ctx, dt_tokenizer_parse(ctx, text.bytes, text.n, "itself", &out));
    return out;
}

static void check_round_trip(const dt_tokenizer *k, const char *text, size_t bytes, int64_t tokens)
{
    static kept back;
    dt_ids ids = { 0 };
    back.n = 0;
    TEST_OK(ctx, dt_tokenizer_encode(k, text, bytes, NULL, &ids));
    ck_assert_int_eq(ids.n, tokens);
    TEST_OK(ctx, dt_tokenizer_decode(k, ids.id, ids.n, false, keep, &back));
    ck_assert(back.n == bytes && memcmp(back.bytes, text, bytes) == 0);
    dt_ids_free(&ids);
}

/* ---- bytes and characters ------------------------------------------------------------------- */

START_TEST(bytes_are_their_ids)
{
    dt_tokenizer *k;
    char all[256];
    dt_ids ids = { 0 };
    for (int i = 0; i < 256; i++) all[i] = (char)(unsigned char)i;
    TEST_OK(ctx, dt_tokenizer_bytes(ctx, &k));
    dt_tokenizer *other = again(k);
    ck_assert_int_eq(dt_tokenizer_vocab(other), 256);
    ck_assert_str_eq(dt_tokenizer_kind(other), "bytes");
    TEST_OK(ctx, dt_tokenizer_encode(other, all, 256, &(dt_encoding){ true, true }, &ids));
    ck_assert_int_eq(ids.n, 256);
    for (int i = 0; i < 256; i++) TEST_EACH(ids.id[i] == i, "byte %d is %d", i, ids.id[i]);
    check_round_trip(other, all, 256, 256);
    check_round_trip(k, "", 0, 0);
    ck_assert_int_eq(dt_tokenizer_id(k, "A"), 65);
    ck_assert_int_eq(dt_tokenizer_id(k, "AB"), -1);
    ck_assert_int_eq(dt_tokenizer_end(k), -1);
    dt_ids_free(&ids);
    dt_tokenizer_free(other);
    dt_tokenizer_free(k);
}
END_TEST

START_TEST(characters_are_sorted)
{
    static const char corpus[] = "b\xf0\x9f\x98\x80"
                                 "a\0\xc3\xa9"
                                 "ab\n";
    static const int32_t want[] = { 3, 5, 2, 0, 4, 2, 3, 1 };
    dt_tokenizer *k;
    dt_ids ids = { 0 };
    TEST_OK(ctx, dt_tokenizer_chars(ctx, corpus, sizeof corpus - 1, &k));
    dt_tokenizer *other = again(k);
    ck_assert_int_eq(dt_tokenizer_vocab(other), 6);
    ck_assert_str_eq(dt_tokenizer_kind(other), "chars");
    TEST_OK(ctx, dt_tokenizer_encode(other, corpus, sizeof corpus - 1, NULL, &ids));
    ck_assert(ids.n == 8 && memcmp(ids.id, want, sizeof want) == 0);
    check_round_trip(k, corpus, sizeof corpus - 1, 8);
    ck_assert_int_eq(dt_tokenizer_id(k, "\xc3\xa9"), 4);
    TEST_FAILS(ctx, DT_ERR_FORMAT, "U+0063 at byte 2",
               dt_tokenizer_encode(k, "abc", 3, NULL, &ids));
    ck_assert_int_eq(ids.n, 8);
    TEST_FAILS(ctx, DT_ERR_FORMAT, "byte 1 of the text, 0xff",
               dt_tokenizer_encode(k, "a\xff", 2, NULL, &ids));
    dt_ids_free(&ids);
    dt_tokenizer_free(other);
    dt_tokenizer_free(k);
    TEST_FAILS(ctx, DT_ERR_FORMAT, "byte 2 of the text, 0xc0",
               dt_tokenizer_chars(ctx, "ab\xc0\x80", 4, &k));
    TEST_FAILS(ctx, DT_ERR_ARG, "empty", dt_tokenizer_chars(ctx, "", 0, &k));
}
END_TEST

START_TEST(decoding_skips_large_ids_and_refuses_negative_ones)
{
    dt_tokenizer *k;
    static kept back;
    static const int32_t ids[] = { 72, 256, 1 << 30, 105 }, negative[] = { 72, -1 };
    back.n = 0;
    TEST_OK(ctx, dt_tokenizer_bytes(ctx, &k));
    TEST_OK(ctx, dt_tokenizer_decode(k, ids, 4, true, keep, &back));
    ck_assert(back.n == 2 && memcmp(back.bytes, "Hi", 2) == 0);
    TEST_FAILS(ctx, DT_ERR_ARG, "id 1 is -1",
               dt_tokenizer_decode(k, negative, 2, false, keep, &back));
    ck_assert_uint_eq(back.n, 2);
    dt_tokenizer_free(k);
}
END_TEST

static const struct {
    const char *text, *message;
} refused[] = {
    { "", "ends where '{' is expected" },
    { "{}", "there is no model" },
    { "{\"model\":null}", "there is no model" },
    { "{\"model\":{}}", "model has no type" },
    { "{\"model\":{\"type\":7}}", "a string is expected here" },
    { "{\"model\":{\"type\":\"Unigram\"}}", "model.type 'Unigram'" },
    { "{\"model\":{\"type\":\"bytes\"}} x", "nothing may follow" },
    { "{\"model\":{\"type\":\"bytes\"},\"model\":1}", "occurs twice" },
    { "{\"model\":{\"type\":\"bytes\",\"vocab\":{}}}", "unknown key 'vocab' in model" },
    { "{\"model\":{\"type\":\"bytes\"},\"normalizer\":{}}", "has no 'normalizer'" },
    { "{\"models\":1}", "unknown key 'models'" },
    { "{\"version\":\"2.0\",\"model\":{\"type\":\"bytes\"}}", "version '2.0'" },
    { "{\"model\":{\"type\":\"chars\"}}", "characters is missing" },
    { "{\"model\":{\"type\":\"chars\",\"characters\":\"\"}}", "characters is empty" },
    { "{\"model\":{\"type\":\"chars\",\"characters\":[]}}", "a string is expected here" },
};

START_TEST(wrong_text_is_refused)
{
    dt_tokenizer *k = NULL;
    TEST_FAILS(ctx, DT_ERR_FORMAT, refused[_i].message,
               dt_tokenizer_parse(ctx, refused[_i].text, strlen(refused[_i].text), "a.json", &k));
    ck_assert(k == NULL && strncmp(dt_error(ctx), "a.json: ", 8) == 0);
}
END_TEST

/* ---- files of ids --------------------------------------------------------------------------- */

START_TEST(token_files_hold_ids)
{
    const int each = _i == 0 ? 2 : 4;
    const char *name = _i == 0 ? "a.bin" : "a.u32.bin";
    static const unsigned char want2[] = { 0, 0, 1, 2, 0xff, 0xff },
                               want4[] = { 0, 0, 0, 0, 1, 2, 0, 0, 0xff, 0xff, 0xff, 0x7f };
    const int32_t ids[] = { 0, 513, _i == 0 ? 65535 : INT32_MAX };
    int32_t back[3];
    char folder[TEST_PATH], path[TEST_PATH];
    dt_tokens *t;
    size_t size;
    test_folder(folder);
    test_join(path, folder, name);
    TEST_OK(ctx, dt_tokens_write(ctx, path, ids, 3, each));
    char *bytes = test_read_file(path, &size);
    ck_assert(size == 3 * (size_t)each && memcmp(bytes, _i == 0 ? want2 : want4, size) == 0);
    free(bytes);
    TEST_OK(ctx, dt_tokens_open(ctx, path, 0, &t));
    ck_assert_int_eq(dt_tokens_count(t), 3);
    for (int i = 0; i < 3; i++) ck_assert_int_eq(dt_tokens_at(t, i), ids[i]);
    TEST_OK(ctx, dt_tokens_read(t, 1, 2, back));
    ck_assert(memcmp(back, ids + 1, 2 * sizeof *ids) == 0);
    TEST_FAILS(ctx, DT_ERR_ARG, "2 ids from 2 on; there are 3", dt_tokens_read(t, 2, 2, back));
    ck_assert_int_eq(dt_tokens_at(t, -1), -1);
    dt_tokens_free(t);
}
END_TEST

START_TEST(token_files_refuse)
{
    static const int32_t ids[] = { 1, 65536, -1 };
    char folder[TEST_PATH], path[TEST_PATH];
    dt_tokens *t;
    int32_t id;
    test_folder(folder);
    test_join(path, folder, "a.bin");
    TEST_FAILS(ctx, DT_ERR_ARG, "id 1 is 65536", dt_tokens_write(ctx, path, ids, 2, 2));
    TEST_FAILS(ctx, DT_ERR_ARG, "id 2 is -1", dt_tokens_write(ctx, path, ids, 3, 4));
    TEST_FAILS(ctx, DT_ERR_ARG, "3 bytes", dt_tokens_write(ctx, path, ids, 1, 3));
    ck_assert(!test_file_exists(path));
    TEST_FAILS(ctx, DT_ERR_IO, "a.bin", dt_tokens_open(ctx, path, 0, &t));
    TEST_FAILS(ctx, DT_ERR_IO, "not a regular file", dt_tokens_open(ctx, folder, 0, &t));
    test_write_file(path, "abc", 3);
    TEST_FAILS(ctx, DT_ERR_FORMAT, "not a multiple", dt_tokens_open(ctx, path, 0, &t));
    TEST_FAILS(ctx, DT_ERR_ARG, "3 bytes", dt_tokens_open(ctx, path, 3, &t));
    test_write_file(path, "", 0);
    TEST_OK(ctx, dt_tokens_open(ctx, path, 0, &t));
    ck_assert(dt_tokens_count(t) == 0 && dt_tokens_read(t, 0, 0, &id) == DT_OK);
    dt_tokens_free(t);
    test_write_file(path, "\xff\xff\xff\xff", 4);
    TEST_OK(ctx, dt_tokens_open(ctx, path, 4, &t));
    TEST_FAILS(ctx, DT_ERR_FORMAT, "below 2^31", dt_tokens_read(t, 0, 1, &id));
    dt_tokens_free(t);
}
END_TEST

Suite *test_tokenizer_suite(void)
{
    Suite *s = suite_create("tokenizer");
    TCase *c = tcase_create("simple");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, bytes_are_their_ids);
    tcase_add_test(c, characters_are_sorted);
    tcase_add_test(c, decoding_skips_large_ids_and_refuses_negative_ones);
    tcase_add_loop_test(c, wrong_text_is_refused, 0, DT__COUNT_OF(refused));
    tcase_add_loop_test(c, token_files_hold_ids, 0, 2);
    tcase_add_test(c, token_files_refuse);
    suite_add_tcase(s, c);
    return s;
}

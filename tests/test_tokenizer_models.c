/* Tokenizers with the pipelines of known models: the ids, and the decoded texts, that the package
 * tokenizers gives random texts (scripts/golden-tokenizers); what is refused, by its path. */
#include "testing.h"

#include "core/text/byte_order.h"

#include <detent/experimental/text.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dt_ctx *ctx;

static void setup(void) { ck_assert(dt_ctx_create(&ctx, NULL) == DT_OK); }
static void teardown(void) { dt_ctx_free(ctx); }

static const char *const names[] = { "gpt2",      "qwen2",  "smollm2", "olmo2", "pythia",
                                     "tinyllama", "llama2", "mistral", "phi3",  "gemma" };

static bool find(char path[TEST_PATH], const char *name, const char *file)
{
    char part[TEST_PATH];
    snprintf(part, sizeof part, "tokenizer/models/%s/%s", name, file);
    return test_golden(path, part);
}

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
    if (bytes > 0) memcpy(k->bytes + k->n, text, bytes);
    k->n += bytes;
    return DT_OK;
}

/* ---- reference values ----------------------------------------------------------------------- */

/* A file of little-endian u32 (scripts/golden-tokenizers). */
typedef struct reader {
    const char *at, *end;
} reader;

static uint32_t number(reader *r)
{
    uint32_t n;
    ck_assert(r->end - r->at >= 4);
    dt__copy_little(&n, r->at, sizeof n);
    r->at += sizeof n;
    return n;
}

static const char *letters(reader *r, size_t *n)
{
    *n = number(r);
    const char *text = r->at;
    r->at += (*n + 3) / 4 * 4;
    ck_assert(r->at <= r->end);
    return text;
}

/* Compares ids with the next list of the file. */
static void check_ids(const dt_tokenizer *k, reader *r, const char *text, size_t n,
                      const dt_encoding *how, int64_t *compared)
{
    dt_ids ids = { 0 };
    const int64_t want = number(r);
    TEST_OK(ctx, dt_tokenizer_encode(k, text, n, how, &ids));
    bool same = ids.n == want && r->end - r->at >= 4 * want;
    for (int64_t i = 0; i < want && same; i++) {
        int32_t id;
        dt__copy_little(&id, r->at + 4 * i, sizeof id);
        same = ids.id[i] == id;
    }
    ck_assert_msg(same, "%lld ids, not %lld, or others (special %d, wrap %d): %.*s",
                  (long long)ids.n, (long long)want, how->special, how->wrap, (int)n, text);
    r->at += 4 * want;
    *compared += want;
    dt_ids_free(&ids);
}

/* The first list of the text's ids as text is what the package decodes. */
static void check_text(const dt_tokenizer *k, const reader *of_ids, reader *r)
{
    reader ids = *of_ids;
    size_t n;
    kept all = { 0 }, parts = { 0 };
    const int64_t count = number(&ids);
    int32_t *id = malloc((size_t)count * sizeof *id + 1);
    for (int64_t i = 0; i < count; i++) id[i] = (int32_t)number(&ids);
    const char *text = letters(r, &n);
    TEST_OK(ctx, dt_tokenizer_decode(k, id, count, false, keep, &all));
    ck_assert_msg(all.n == n && (n == 0 || memcmp(all.bytes, text, n) == 0), "decoded: %.*s",
                  (int)n, text);
    for (int64_t i = 0; i < count; i++) {
        TEST_OK(ctx, dt_tokenizer_decode_on(k, id + i, 1, false, keep, &parts));
    }
    /* token by token there may be a space more at the beginning */
    const size_t more = parts.n - all.n;
    ck_assert(more <= 1 && (more == 0 || *parts.bytes == ' '));
    ck_assert(n == 0 || memcmp(parts.bytes + more, all.bytes, n) == 0);
    free(all.bytes);
    free(parts.bytes);
    free(id);
}

static int64_t check_texts(const dt_tokenizer *k, const char *path)
{
    size_t bytes, n;
    char *all = test_read_file(path, &bytes);
    reader r = { all, all + bytes };
    int64_t compared = 0, texts = 0;
    for (; r.at < r.end; texts++) {
        const char *text = letters(&r, &n);
        const reader first = r;
        check_ids(k, &r, text, n, &(dt_encoding){ .special = true }, &compared);
        check_ids(k, &r, text, n, &(dt_encoding){ .special = false }, &compared);
        check_ids(k, &r, text, n, &(dt_encoding){ .special = true, .wrap = true }, &compared);
        check_text(k, &first, &r);
    }
    free(all);
    ck_assert_int_ge(texts, 50);
    return compared;
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

START_TEST(ids_and_texts_are_the_package_s)
{
    char path[TEST_PATH], texts[TEST_PATH];
    dt_tokenizer *k;
    if (!find(path, names[_i], "tokenizer.json") || !find(texts, names[_i], "texts.bin")) return;
    TEST_OK(ctx, dt_tokenizer_read(ctx, path, &k));
    dt_tokenizer *other = again(k);
    check_texts(k, texts);
    const int64_t n = check_texts(other, texts);
    printf("tokenizer_models: %s: %lld ids\n", names[_i], (long long)n);
    dt_tokenizer_free(other);
    dt_tokenizer_free(k);
}
END_TEST

/* Bytes that are no UTF-8 come back, with a normalizer and with a sentencepiece vocabulary. */
START_TEST(any_bytes_come_back)
{
    static const char *const texts[] = {
        "\xff",          "a\xc3 b\x80",           "\xe2\x82",
        "\xed\xa0\x80z", "e\xcc\x81\xff\xcc\x81", "\xf4\x90\x80\x80"
    };
    static const char *const backs[] = {
        "\xff",          "a\xc3 b\x80",          "\xe2\x82",
        "\xed\xa0\x80z", "\xc3\xa9\xff\xcc\x81", "\xf4\x90\x80\x80"
    };
    static const char *const which[] = { "qwen2", "gemma", "tinyllama" };
    char path[TEST_PATH];
    dt_tokenizer *k;
    if (!find(path, which[_i], "tokenizer.json")) return;
    TEST_OK(ctx, dt_tokenizer_read(ctx, path, &k));
    for (int i = 0; i < (int)(sizeof texts / sizeof *texts); i++) {
        dt_ids ids = { 0 };
        kept back = { 0 };
        const char *want = _i == 0 ? backs[i] : texts[i]; /* Qwen2 composes */
        TEST_OK(ctx, dt_tokenizer_encode(k, texts[i], strlen(texts[i]), NULL, &ids));
        TEST_OK(ctx, dt_tokenizer_decode(k, ids.id, ids.n, false, keep, &back));
        TEST_EACH(back.n == strlen(want) && memcmp(back.bytes, want, back.n) == 0, "text %d", i);
        free(back.bytes);
        dt_ids_free(&ids);
    }
    dt_tokenizer_free(k);
}
END_TEST

/* ---- edited files --------------------------------------------------------------------------- */

static const struct {
    const char *name, *from, *to, *message; /* NULL: nothing is wrong with it */
} edits[] = {
    { "qwen2", "{\"type\":\"NFC\"}", "{\"type\":\"NFKD\"}", NULL },
    { "qwen2", "{\"type\":\"NFC\"}",
      "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":\"Strip\"}]}",
      "normalizer.normalizers[1]: 'Strip' is not known here, only NFC, NFD, NFKC, NFKD, Prepend, "
      "Replace" },
    { "qwen2", "{\"type\":\"NFC\"}",
      "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"x\"},\"content\":\"y\"}",
      "normalizer.pattern: a Regex is not known here" },
    { "qwen2", "{\"type\":\"NFC\"}", "{\"type\":\"Prepend\"}", "normalizer.prepend is missing" },
    { "qwen2", "{\"type\":\"NFC\"}", "{\"type\":\"Prepend\",\"prepend\":\"\"}", "1 to 15 bytes" },
    { "qwen2", "\"Isolated\"", "\"Contiguous\"",
      "pre_tokenizer.pretokenizers[0].behavior: 'Contiguous' is not known here" },
    { "smollm2", "\"type\":\"Digits\"", "\"type\":\"Punctuation\"",
      "pre_tokenizer.pretokenizers[0]: 'Punctuation' is not known here, only ByteLevel, Split" },
    { "smollm2", "\"individual_digits\":true", "\"individual_digits\":false", NULL },
    { "smollm2", "\"byte_fallback\":false", "\"byte_fallback\":true",
      "'ByteLevel' is not known here with model.byte_fallback" },
    { "gemma", "<0x41>", "<0xGG>", "'<0x41>' is not in the vocabulary" },
    { "gemma", "\"ByteFallback\"", "\"Fuse\"", "decoder: of a model with byte_fallback" },
    { "gemma", "\"byte_fallback\":true", "\"byte_fallback\":false", "the last step" },
    { "tinyllama", "\"start\":1", "\"start\":-1", "" },
    { "tinyllama", "\"stop\":0", "\"stop\":1", "Strip of spaces at the beginning" },
    { "llama2", "\"prepend_scheme\":\"first\"", "\"prepend_scheme\":\"last\"",
      "pre_tokenizer.prepend_scheme: 'last' is not known here, only always, first and never" },
    { "phi3", "\"single_word\":false", "\"single_word\":true",
      "single_word of an added token: true" },
};

START_TEST(an_edit_is_seen)
{
    char path[TEST_PATH];
    dt_tokenizer *k = NULL;
    if (!find(path, edits[_i].name, "tokenizer.json")) return;
    char *text = test_read_file(path, NULL), *place = strstr(text, edits[_i].from);
    ck_assert_msg(place != NULL, "%s is not in %s", edits[_i].from, edits[_i].name);
    const size_t n = strlen(text) + strlen(edits[_i].to) + 1;
    char *all = malloc(n);
    snprintf(all, n, "%.*s%s%s", (int)(place - text), text, edits[_i].to,
             place + strlen(edits[_i].from));
    if (edits[_i].message == NULL) {
        TEST_OK(ctx, dt_tokenizer_parse(ctx, all, strlen(all), "edited", &k));
    } else {
        TEST_FAILS(ctx, DT_ERR_FORMAT, edits[_i].message,
                   dt_tokenizer_parse(ctx, all, strlen(all), "edited", &k));
        ck_assert(k == NULL);
    }
    dt_tokenizer_free(k);
    free(all);
    free(text);
}
END_TEST

static dt_status use(dt_ctx *c, void *user)
{
    static const char text[] = "e\xcc\x81 it's <|user|>  12 \xe4\xbd\xa0<tool_call>";
    dt_ids ids = { 0 };
    kept back = { 0 };
    dt_tokenizer *k = NULL;
    dt_status s = dt_tokenizer_read(c, user, &k);
    if (s == DT_OK) {
        s = dt_tokenizer_encode(k, text, sizeof text - 1, &(dt_encoding){ .special = true }, &ids);
    }
    if (s == DT_OK) s = dt_tokenizer_decode(k, ids.id, ids.n, false, keep, &back);
    if (s == DT_OK) s = dt_tokenizer_text(k, keep, &back);
    free(back.bytes);
    dt_ids_free(&ids);
    dt_tokenizer_free(k);
    return s;
}

START_TEST(every_allocation_may_fail)
{
    static const char *const which[] = { "qwen2", "phi3" };
    char path[TEST_PATH];
    if (!find(path, which[_i], "tokenizer.json")) return;
    test_every_allocation(use, path);
}
END_TEST

Suite *test_tokenizer_models_suite(void)
{
    Suite *s = suite_create("tokenizer_models");
    TCase *c = tcase_create("models");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 300);
    tcase_add_loop_test(c, ids_and_texts_are_the_package_s, 0, sizeof names / sizeof *names);
    tcase_add_loop_test(c, any_bytes_come_back, 0, 3);
    tcase_add_loop_test(c, an_edit_is_seen, 0, sizeof edits / sizeof *edits);
    tcase_add_loop_test(c, every_allocation_may_fail, 0, 2);
    suite_add_tcase(s, c);
    return s;
}

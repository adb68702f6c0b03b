/* detent sample: greedy text of every form of a model, exact bytes of output, stop texts, ends,
 * JSON, and mistakes in prompts and options. */
#include "testing.h"

#include "cli/print/text_stream.h"

#include <detent/experimental/io.h>
#include <detent/experimental/text.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DETENT "'" DETENT_BINARY_DIR "/detent' sample "

static char folder[TEST_PATH];

/* ---- models --------------------------------------------------------------------------------- */

static const dt_llama_options options = {
    .vocab = 256,
    .context = 40,
    .layers = 2,
    .heads = 4,
    .kv_heads = 2,
    .width = 32,
    .hidden = 48,
    .theta = 10000,
    .eps = 1e-5,
    .rope = { .factor = 1, .low_freq_factor = 1, .high_freq_factor = 4, .original_context = 8 },
};

static const dt_family *family_named(const char *name)
{
    int i = 0;
    while (strcmp(dt_family_at(i)->name, name) != 0) i++;
    return dt_family_at(i);
}

typedef struct text {
    size_t n;
    char bytes[4000];
} text;

static dt_status append(void *user, const char *bytes, size_t n)
{
    text *to = user;
    ck_assert_uint_lt(to->n + n, sizeof to->bytes);
    memcpy(to->bytes + to->n, bytes, n);
    to->n += n;
    return DT_OK;
}

static void save_with(dt_module *m, const dt_tokenizer *k, const char *name, const char *data)
{
    char path[TEST_PATH];
    text own = { 0 };
    dt_model_info info = { .family = family_named("llama"), .options = &options, .data = data };
    if (k != NULL) ck_assert_int_eq(dt_tokenizer_text(k, append, &own), DT_OK);
    if (k != NULL) info.tokenizer = own.bytes;
    test_join(path, folder, name);
    ck_assert_msg(dt_model_save(m, &info, path) == DT_OK, "%s", dt_error(dt_module_ctx(m)));
}

static void save(dt_module *m, const dt_tokenizer *k, const char *name)
{
    save_with(m, k, name, NULL);
}

/* float.safetensors, prepared, converted: of bytes; none: without a tokenizer; chars: of "abc\n"
 * and a character of two bytes; asked, sums: with a format of prompts. */
static void setup(void)
{
    dt_ctx *ctx;
    dt_module *m;
    dt_tokenizer *bytes, *chars;
    const dt_qat_options qat = dt_qat_defaults();
    test_folder(folder);
    ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK);
    ck_assert_int_eq(dt_llama_create(ctx, &options, &m), DT_OK);
    ck_assert_int_eq(dt_tokenizer_bytes(ctx, &bytes), DT_OK);
    ck_assert_int_eq(dt_tokenizer_chars(ctx, "abc\n\xc3\xa4", 6, &chars), DT_OK);
    save(m, bytes, "float");
    save(m, NULL, "none");
    save(m, chars, "chars");
    save_with(m, bytes, "asked", "{\"target\": \"tokens\", \"prompt\": \"a{q}c\"}");
    save_with(m, bytes, "sums", "{\"target\": \"tokens\", \"prompt\": \"{x}b{y}\"}");
    ck_assert_int_eq(dt_prepare(m, &qat), DT_OK);
    save(m, bytes, "prepared");
    ck_assert_int_eq(dt_convert(m, NULL, NULL), DT_OK);
    save(m, bytes, "converted");
    dt_tokenizer_free(bytes);
    dt_tokenizer_free(chars);
    dt_module_free(m);
    dt_ctx_free(ctx);
}

/* Standard output of detent sample in the folder, malloc'ed; *status is its exit status. */
static char *run(const char *arguments, int *status)
{
    char *output = NULL;
    *status = test_shell(&output, "cd '%s' && " DETENT "%s", folder, arguments);
    return output;
}

static char *done(const char *arguments)
{
    int status;
    char *output = run(arguments, &status);
    ck_assert_msg(status == 0, "detent sample %s: %d: %s", arguments, status, output);
    return output;
}

static void same(const char *a, const char *b)
{
    char *x = done(a), *y = done(b);
    ck_assert_msg(strcmp(x, y) == 0, "%s: '%s'\n%s: '%s'", a, x, b, y);
    free(x);
    free(y);
}

/* ---- text ----------------------------------------------------------------------------------- */

#define GREEDY " --temperature 0 --prompt-ids 1,2,3 --print-ids 2>/dev/null"

START_TEST(converted_models_write_the_text_of_prepared_ones)
{
    same("prepared" GREEDY, "converted" GREEDY);
    same("converted --threads 1" GREEDY, "converted --threads 3" GREEDY);
    same("converted --prompt abc --seed 5 --print-ids 2>/dev/null",
         "prepared --prompt abc --seed 5 --print-ids 2>/dev/null");
}
END_TEST

START_TEST(prompts_come_from_text_ids_and_files)
{
    same("float --prompt abc --print-ids 2>/dev/null", "float --prompt-ids 97,98,99 --print-ids "
                                                       "2>/dev/null");
    same("float --prompt abc --print-ids 2>/dev/null",
         "none --tokenizer bytes --prompt abc --print-ids 2>/dev/null");
    char path[TEST_PATH];
    test_join(path, folder, "prompt");
    test_write_text(path, "abc");
    same("float --prompt abc --print-ids 2>/dev/null",
         "float --prompt-file prompt --print-ids 2>/dev/null");
    same("float --prompt abc --print-ids 2>/dev/null",
         "float --prompt-file - --print-ids 2>/dev/null <prompt");
}
END_TEST

START_TEST(prompts_take_the_models_format)
{
    char *said = done("asked --prompt abc --max-tokens 1 2>&1");
    ck_assert_ptr_nonnull(strstr(said, "asked was trained on prompts of a format: --format puts"));
    free(said);
    static const char *const silent[] = { "float --prompt abc --max-tokens 1 2>&1",
                                          "asked --format --prompt b --max-tokens 1 2>&1",
                                          "asked --special --prompt abc --max-tokens 1 2>&1",
                                          "asked --prompt-ids 1 --max-tokens 1 2>&1" };
    for (int i = 0; i < 4; i++) {
        said = done(silent[i]);
        ck_assert_msg(strstr(said, "--format puts") == NULL, "%s: %s", silent[i], said);
        free(said);
    }
    same("float --prompt abc --print-ids 2>/dev/null",
         "asked --format --prompt b --print-ids 2>/dev/null");
    same("float --prompt abc --print-ids 2>/dev/null",
         "asked --prompt abc --print-ids 2>/dev/null");
    same("float --prompt abc --print-ids 2>/dev/null",
         "sums --format --prompt '{\"y\": \"c\", \"x\": \"a\"}' --print-ids 2>/dev/null");
    char path[TEST_PATH], *next[2];
    test_join(path, folder, "b");
    test_write_text(path, "b");
    test_join(path, folder, "abc");
    test_write_text(path, "abc");
    static const char command[] = "cd '%s' && '" DETENT_BINARY_DIR
                                  "/detent' predict %s | tail -n 1 | tr -s ' ' | cut -d ' ' -f 2-";
    ck_assert_int_eq(test_shell(&next[0], command, folder, "float abc"), 0);
    ck_assert_int_eq(test_shell(&next[1], command, folder, "asked b --format"), 0);
    ck_assert_str_eq(next[0], next[1]);
    free(next[0]);
    free(next[1]);
}
END_TEST

/* Exactly the bytes of the ids. */
START_TEST(bytes_are_exact)
{
    char *ids = done("float --prompt abc --seed 3 --print-ids 2>/dev/null");
    char *hex = done("float --prompt abc --seed 3 2>/dev/null | od -An -v -tu1 | tr -s ' \\n' ' '");
    char *at = ids, *byte = hex;
    for (int i = 0; i < 256; i++) {
        const long want = strtol(at, &at, 10), got = strtol(byte, &byte, 10);
        TEST_EACH(want == got, "byte %d is %ld, not %ld", i, got, want);
    }
    ck_assert_str_eq(at, "\n");
    ck_assert_uint_eq(strspn(byte, " \n"), strlen(byte));
    free(ids);
    free(hex);
}
END_TEST

START_TEST(text_ends_before_what_stops_it)
{
    char *ids = done("float --prompt abc --seed 3 --print-ids 2>/dev/null");
    char command[400], *at = ids;
    long id[6];
    for (int i = 0; i < 6; i++) id[i] = strtol(at, &at, 10);
    snprintf(command, sizeof command,
             "float --prompt abc --seed 3 --print-ids --stop %ld 2>/dev/null | wc -w", id[3]);
    char *words = done(command);
    ck_assert_int_le(atoi(words), 3);
    free(words);
    free(ids);
    same("chars --prompt a --seed 4 --stop b 2>/dev/null",
         "chars --prompt a --seed 4 2>/dev/null | tr '\\n' X | sed 's/b.*//' | tr X '\\n'");
}
END_TEST

/* A stop text that is the last to come, of any length, is not written and ends the text. */
START_TEST(a_stop_text_may_be_the_last_to_come)
{
    static const char *const stops[] = { "c", "bc", "abc" };
    for (size_t i = 0; i < 3; i++) {
        text said = { 0 };
        text_stream s = { .to = append, .user = &said, .stop = stops[i] };
        ck_assert_int_eq(text_stream_add(&s, "aabc", 4), DT_OK);
        ck_assert_int_eq(text_stream_flush(&s), DT_OK);
        ck_assert(s.stopped);
        ck_assert_uint_eq(said.n, 3 - i);
        ck_assert_mem_eq(said.bytes, "aab", said.n);
        text_stream_free(&s);
    }
}
END_TEST

START_TEST(json_has_every_field)
{
    char *output = done("float --prompt abc --seed 3 --max-tokens 9 --json 2>/dev/null");
    json_error_t error;
    json_t *r = json_loads(output, JSON_ALLOW_NUL, &error);
    ck_assert_msg(r != NULL, "%s: %s", error.text, output);
    ck_assert_uint_eq(json_array_size(json_object_get(r, "ids")), 9);
    ck_assert(json_is_string(json_object_get(r, "text")));
    ck_assert_int_eq(json_integer_value(json_object_get(r, "prompt_tokens")), 3);
    ck_assert_int_eq(json_integer_value(json_object_get(r, "tokens")), 9);
    ck_assert_str_eq(json_string_value(json_object_get(r, "ended_by")), "tokens");
    ck_assert(json_is_number(json_object_get(r, "tokens_per_s")));
    json_decref(r);
    free(output);
}
END_TEST

/* ---- ends and mistakes ---------------------------------------------------------------------- */

typedef struct usage_case {
    const char *arguments;
    int status;
    const char *words;
} usage_case;

static const usage_case cases[] = {
    { "float --prompt abc", 0, "the window of 40 tokens slid 11 times" },
    { "float --prompt abc --max-tokens 5", 0, "5 more" },
    { "float --prompt abc --max-tokens 5", 0, "as many as --max-tokens says" },
    { "float --prompt abc --max-tokens 0", 0, "0 more" },
    { "float --prompt $(printf %040d 0)", 0, "prompt: 40 tokens" },
    { "float --prompt $(printf %041d 0)", 2,
      "the prompt has 41 tokens; the model's context is 40" },
    { "float --prompt ''", 2, "the prompt is empty" },
    { "float --prompt-ids ''", 2, "the prompt is empty" },
    { "chars --prompt abxc", 2, "U+0078 at byte 2 of the text" },
    { "none --prompt abc", 2, "none carries no tokenizer" },
    { "sums --format --prompt-ids 1,2", 2, "--format is for texts" },
    { "float --format --prompt a", 2, "float has no format of prompts" },
    { "sums --format --prompt a", 2, "an object with the fields of the prompt's format" },
    { "sums --format --prompt '{\"x\": \"a\"}'", 2, "there is no \"y\"" },
    { "none --prompt-ids 3 --stop x", 2, "without a tokenizer an id" },
    { "float", 2, "give one of --prompt" },
    { "float --prompt a --prompt-ids 1", 2, "only one can be given" },
    { "float --prompt-ids '1, 2 3'", 0, "prompt: 3 tokens" },
    { "float --prompt-ids 1,,2", 2, "should be like 1,2,3" },
    { "float --prompt-ids 1,2,", 2, "should be like 1,2,3" },
    { "float --prompt-ids 1,b", 2, "should be like 1,2,3" },
    { "float --prompt-ids 256", 2, "--prompt-ids has 256; the model's ids lie in 0...255" },
    { "float --prompt a --max-tokens -1", 2, "--max-tokens is '-1'" },
    { "float --prompt a --temperature x", 2, "--temperature is 'x'" },
    { "float --prompt a --temperature nan", 2, "--temperature is 'nan'" },
    { "float --prompt a --top-p 0", 2, "--top-p is '0', and should be a number above 0" },
    { "float --prompt a --top-k 1.5", 2, "--top-k is '1.5'" },
    { "float --prompt abc --max-tokens 5 --cache int8", 0, "5 more" },
    { "float --prompt abc --max-tokens 5 --cache int4", 0, "5 more" },
    { "float --prompt a --cache int2", 2, "--cache must be one of f32, int8, int4, not 'int2'" },
    { "float --prompt a --stop 256", 2, "--stop is '256'" },
    { "float --prompt a --stop ''", 2, "--stop requires a text" },
    { "float --prompt-file nowhere", 4, "nowhere: No such file" },
    { "float --prompt-file .", 4, "cannot be read" },
    { "nowhere --prompt a", 4, "nowhere" },
    { "float --prompt a --tokenizer nowhere", 4, "nowhere" },
    { "float --prompt abc 2>&1 >/dev/full #", 1, "standard output cannot be written" },
};

START_TEST(ends_and_mistakes_are_named)
{
    const usage_case *c = &cases[_i];
    char *output = NULL;
    const int status = test_shell(&output, "cd '%s' && " DETENT "%s 2>&1", folder, c->arguments);
    ck_assert_msg(status == c->status && strstr(output, c->words) != NULL, "%s: %d: %s",
                  c->arguments, status, output);
    free(output);
}
END_TEST

/* At any time the signal ends the program with the exit status of an interruption. */
START_TEST(a_signal_ends_it)
{
    char path[TEST_PATH];
    dt_ctx *ctx;
    dt_module *m;
    dt_llama_options o = options;
    o.context = 200000;
    o.layers = o.kv_heads = o.heads = 1;
    o.width = o.hidden = 8;
    const dt_model_info info = { .family = family_named("llama"), .options = &o };
    test_join(path, folder, "long");
    ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK);
    ck_assert_int_eq(dt_llama_create(ctx, &o, &m), DT_OK);
    ck_assert_int_eq(dt_model_save(m, &info, path), DT_OK);
    dt_module_free(m);
    dt_ctx_free(ctx);
    char *output = NULL;
    const int status = test_shell(&output,
                                  "timeout --preserve-status -s INT 1 " DETENT
                                  "'%s' --prompt-ids 1 --max-tokens 150000 2>&1 >/dev/null",
                                  path);
    ck_assert_msg(status == 130, "%d: %s", status, output);
    free(output);
}
END_TEST

Suite *test_sample_cli_suite(void);
Suite *test_sample_cli_suite(void)
{
    Suite *s = suite_create("sample_cli");
    TCase *c = tcase_create("sample_cli");
    tcase_add_checked_fixture(c, setup, NULL);
    tcase_set_timeout(c, 60);
    tcase_add_test(c, converted_models_write_the_text_of_prepared_ones);
    tcase_add_test(c, prompts_come_from_text_ids_and_files);
    tcase_add_test(c, prompts_take_the_models_format);
    tcase_add_test(c, bytes_are_exact);
    tcase_add_test(c, text_ends_before_what_stops_it);
    tcase_add_test(c, a_stop_text_may_be_the_last_to_come);
    tcase_add_test(c, json_has_every_field);
    tcase_add_loop_test(c, ends_and_mistakes_are_named, 0, (int)(sizeof cases / sizeof cases[0]));
    tcase_add_test(c, a_signal_ends_it);
    suite_add_tcase(s, c);
    return s;
}

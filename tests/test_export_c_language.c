/* Language models as C: random ones of both families, in floats and quantized, are exported,
 * compiled and fed token by token; logits have the bits of the decoder's. */
#include "random_nets.h"

#include "core/text/utf8.h"
#include "testing.h"

#include <detent/export.h>
#include <detent/io.h>
#include <detent/experimental/nn.h>
#include <detent/experimental/text.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static dt_ctx *ctx;

static void setup(void) { ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK); }
static void teardown(void) { dt_ctx_free(ctx); }

/* ---- models --------------------------------------------------------------------------------- */

typedef enum form { PLAIN, CONVERTED } form;

static dt_module *model_of(uint64_t seed, form f, random_net *d)
{
    *d = random_net_of_family(seed, seed % 2 == 0 ? "gpt" : "llama");
    int64_t *context = seed % 2 == 0 ? &d->options.gpt.context : &d->options.llama.context;
    *context += seed % 7 == 0 ? 600 : 60; /* two parts of keys, and two tiles of them */
    dt_seed(ctx, seed);
    dt_module *m = random_net_create(ctx, d);
    if (f == PLAIN) return m;
    TEST_EACH(dt_prepare(m, &d->qat) == DT_OK, "network %llu: %s", (unsigned long long)d->seed,
              dt_error(ctx));
    random_net_observe(ctx, d, m);
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    return m;
}

/* ---- exports -------------------------------------------------------------------------------- */

typedef void reset_function(void *state);
typedef int next_function(void *state, int32_t token, float *logits);
typedef int test_function(void *state);

typedef struct exported {
    void *library;
    reset_function *reset;
    next_function *next;
    test_function *test;
    void *state;
} exported;

typedef void any_function(void);

/* Converts a data pointer to a function pointer as POSIX recommends, without a cast. */
static any_function *function_of(void *library, const char *name)
{
    any_function *f = NULL;
    void *address = dlsym(library, name);
    ck_assert_msg(address != NULL, "%s is not there", name);
    memcpy(&f, &address, sizeof f);
    return f;
}

static const char *const compilers[] = { "cc -Wshadow -Werror -O1",
                                         "cc -O3 -march=native -ffp-contract=fast" };

/* The number behind a macro of the header. */
static long long number_of(const char *folder, const char *macro)
{
    char path[TEST_PATH], line[128];
    test_join(path, folder, "story.h");
    char *text = test_read_file(path, NULL);
    snprintf(line, sizeof line, "#define %s ", macro);
    const char *at = strstr(text, line);
    ck_assert_msg(at != NULL, "%s is not in the header", macro);
    const long long n = strtoll(at + strlen(line), NULL, 10);
    free(text);
    return n;
}

static exported compile(const char *folder, const char *compiler)
{
    char path[TEST_PATH];
    const int status = test_shell(NULL,
                                  "cd '%s' && %s -std=c99 -pedantic -Wall -Wextra -Wconversion "
                                  "-Werror -DSTORY_NO_MAIN -shared -fPIC story.c story_test.c "
                                  "-o story.so",
                                  folder, compiler);
    ck_assert_msg(status == 0, "%s does not compile %s", compiler, folder);
    test_join(path, folder, "story.so");
    exported e = { .library = dlopen(path, RTLD_NOW | RTLD_LOCAL) };
    ck_assert_msg(e.library != NULL, "%s", dlerror());
    e.reset = (reset_function *)function_of(e.library, "story_reset");
    e.next = (next_function *)function_of(e.library, "story_next");
    e.test = (test_function *)function_of(e.library, "story_selftest");
    e.state = malloc((size_t)number_of(folder, "STORY_STATE_BYTES"));
    return e;
}

static void drop(exported *e)
{
    free(e->state);
    dlclose(e->library);
}

static void check_tokens(const random_net *d, dt_module *m, exported *e, int64_t n)
{
    dt_decoder *decoder;
    dt__stream s = dt__stream_of(d->seed, DT__FOR_USER);
    float *got = malloc((size_t)d->vocab * sizeof *got);
    TEST_OK(ctx, dt_decoder_create(m, NULL, &decoder));
    e->reset(e->state);
    for (int64_t i = 0; i < n; i++) {
        const int32_t id = (int32_t)dt__random_below(&s, (uint64_t)d->vocab);
        dt_tensor *logits;
        TEST_OK(ctx, dt_decoder_feed(decoder, &id, 1, &logits));
        TEST_EACH(e->next(e->state, id, i % 3 == 1 ? NULL : got) == 0, "network %llu: token %lld",
                  (unsigned long long)d->seed, (long long)i);
        if (i % 3 == 1) continue;
        TEST_EACH(memcmp(got, dt_data(logits), (size_t)d->vocab * sizeof *got) == 0,
                  "network %llu: logits behind token %lld", (unsigned long long)d->seed,
                  (long long)i);
    }
    dt_decoder_free(decoder);
    free(got);
}

/* The options of d, with longrope and a context of twice the original one. */
static void make_long(random_net *d)
{
    dt_llama_options *o = &d->options.llama;
    const int64_t width = o->head_width == 0 ? o->width / o->heads : o->head_width;
    o->rope.scaling = DT_ROPE_PLAIN;
    o->block.local_theta = 0;
    o->longrope = (dt_longrope_options){ .given = true, .original_context = o->context / 2 };
    o->longrope.short_factor.n = o->longrope.long_factor.n = (int)(width / 2);
    for (int i = 0; i < width / 2; i++) {
        o->longrope.short_factor.v[i] = 1 + 0.1 * i;
        o->longrope.long_factor.v[i] = 1 + 3 * i;
    }
}

/* The page says what keys and values of all tokens take: without experts and windows, floats of
 * each layer. */
static void check_page(const random_net *d, const char *folder)
{
    char path[TEST_PATH], line[128];
    const dt_llama_options *o = &d->options.llama;
    const long long heads = o->kv_heads == 0 ? o->heads : o->kv_heads;
    const long long width = o->head_width == 0 ? o->width / o->heads : o->head_width;
    const long long token = o->layers * 2 * heads * width * 4;
    const long long context = number_of(folder, "STORY_CONTEXT");
    test_join(path, folder, "README.md");
    char *text = test_read_file(path, NULL);
    snprintf(line, sizeof line, "values | %lld bytes, %lld a token, for %lld tokens",
             token * context, token, context);
    ck_assert_msg(strstr(text, line) != NULL, "%s is not in README.md", line);
    free(text);
}

static void check(uint64_t seed, form f, bool is_long)
{
    random_net d;
    char folder[TEST_PATH], path[TEST_PATH];
    dt_module *m = model_of(seed, f, &d);
    if (is_long) {
        dt_module_free(m);
        make_long(&d);
        TEST_OK(ctx, dt_llama_create(ctx, &d.options.llama, &m));
    }
    const dt_model_info info = { .family = d.family, .options = &d.options };
    dt_export_options options = dt_export_defaults();
    options.name = "story";
    options.context = is_long ? d.options.llama.longrope.original_context : 0;
    test_folder(folder);
    test_join(path, folder, "out");
    TEST_EACH(dt_export(m, &info, "c", &options, path, NULL) == DT_OK, "network %llu, form %d: %s",
              (unsigned long long)seed, (int)f, dt_error(ctx));
    if (is_long) check_page(&d, path);
    exported e = compile(path, compilers[seed / 2 % DT__COUNT_OF(compilers)]);
    const int wrong = e.test(e.state);
    TEST_EACH(wrong == 0, "network %llu, form %d: %d wrong in its self-test",
              (unsigned long long)seed, (int)f, wrong);
    check_tokens(&d, m, &e, number_of(path, "STORY_CONTEXT"));
    drop(&e);
    dt_module_free(m);
}

START_TEST(logits_are_the_decoders)
{
    const int64_t n = test_networks((test_draws){ .usual = 24, .quick = 8, .sanitized = 2 });
    for (uint64_t seed = 0; seed < (uint64_t)n; seed++)
        check(seed + 500, seed / 2 % 4 == 0 ? PLAIN : CONVERTED, false);
}
END_TEST

START_TEST(longrope_has_the_bits_of_short_texts) { check(601, PLAIN, true); }
END_TEST

/* ---- tokenizers and sampling ---------------------------------------------------------------- */

typedef struct sampling { /* as story_text.h declares it */
    double temperature, top_p;
    int32_t top_k;
    uint64_t seed;
} sampling;

typedef int32_t encode_function(const char *text, int32_t bytes, int32_t *tokens, int32_t most);
typedef const char *decode_function(int32_t token, int32_t *bytes);
typedef int32_t sample_function(const float *logits, const sampling *how, uint64_t draw,
                                int32_t *room);

#define LONGEST 400

static const char corpus[] =
    "It's a test; we'LL see 12345 \xc3\xa9t\xc3\xa9 \xe2\x82\xac \n\n  x\r\n"
    "\xd0\x9f\xd1\x80\xd0\xb8 \xe4\xb8\xad\xe6\x96\x87 \xf0\x9f\x98\x80 "
    "\xc2\xbd\xe2\x85\xa3 'S they've\xc2\xa0 don'\xc5\xbf \t!?\n\xe2\x96\x81 "
    "\xe2\x96\x81\xe2\x96\x81";

static dt_status into(void *user, const char *text, size_t bytes)
{
    strncat(user, text, bytes);
    return DT_OK;
}

/* A character of any code point, which may be a surrogate: then it is not UTF-8. */
static int64_t draw_character(dt__stream *s, char *to)
{
    static const uint32_t most[] = { 0x250, 0x3100, 0x10000, 0x110000 };
    return dt__utf8_put((uint32_t)dt__random_below(s, most[dt__random_below(s, 4)]), to);
}

/* Pieces of the corpus in any order; other bytes and characters, if the tokenizer supports any. */
static int64_t draw_text(dt__stream *s, bool any, char text[LONGEST])
{
    int64_t n = 0;
    while (n < LONGEST - 40) {
        int64_t at = (int64_t)dt__random_below(s, sizeof corpus - 1);
        if (any && dt__random_below(s, 9) == 0) text[n++] = (char)dt__random_below(s, 256);
        if (any && dt__random_below(s, 4) == 0) n += draw_character(s, text + n);
        while (at > 0 && (corpus[at] & 0xc0) == 0x80) at--;
        for (int k = 0; (k < 8 || (corpus[at] & 0xc0) == 0x80) && corpus[at] != 0; k++) {
            text[n++] = corpus[at++];
        }
        if (dt__random_below(s, 30) == 0) break;
    }
    return n;
}

typedef struct onto_text {
    char *to;
    size_t n;
} onto_text;

static dt_status onto(void *user, const char *text, size_t bytes)
{
    onto_text *t = user;
    memcpy(t->to + t->n, text, bytes);
    t->n += bytes;
    return DT_OK;
}

static void check_encoding(const dt_tokenizer *k, void *library)
{
    encode_function *encode = (encode_function *)function_of(library, "story_encode");
    decode_function *decode = (decode_function *)function_of(library, "story_decode");
    dt__stream s = dt__stream_of(5, DT__FOR_USER);
    const int64_t draws = test_count((test_draws){ .usual = 2000, .sanitized = 100 });
    for (int i = 0; i < draws; i++) {
        char text[LONGEST];
        int32_t got[LONGEST];
        dt_ids want = { 0 };
        const int64_t n = draw_text(&s, strcmp(dt_tokenizer_kind(k), "chars") != 0, text);
        TEST_EACH(dt_tokenizer_encode(k, text, (size_t)n, NULL, &want) == DT_OK, "%s",
                  dt_error(ctx));
        const int32_t count = encode(text, (int32_t)n, got, LONGEST);
        TEST_EACH(count == want.n && memcmp(got, want.id, (size_t)count * sizeof *got) == 0,
                  "text %d has %d tokens, not %lld", i, count, (long long)want.n);
        char decoded[4 * LONGEST] = "";
        TEST_OK(ctx, dt_tokenizer_decode_on(k, got, count, true, onto, &(onto_text){ decoded, 0 }));
        for (int64_t at = 0, j = 0; j < count; j++) {
            int32_t bytes;
            const char *token = decode(got[j], &bytes);
            TEST_EACH(memcmp(token, decoded + at, (size_t)bytes) == 0, "text %d, token %lld", i,
                      (long long)j);
            at += bytes;
        }
        dt_ids_free(&want);
    }
}

static void check_sampling(void *library, int64_t vocab)
{
    sample_function *sample = (sample_function *)function_of(library, "story_sample");
    dt__stream s = dt__stream_of(6, DT__FOR_USER);
    int32_t *room = malloc((size_t)vocab * sizeof *room);
    dt_tensor *logits;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 1, &vocab, &logits));
    const int64_t draws = test_count((test_draws){ .usual = 3000, .sanitized = 168 });
    for (int i = 0; i < draws; i++) {
        float *x = dt_data_mut(logits);
        for (int64_t k = 0; k < vocab; k++) x[k] = (float)dt__random_below(&s, 50) * 0.2F;
        const sampling how = { (double)(i % 4) * 0.4, i % 3 == 0 ? 1 : 0.3 * (i % 3), i % 7,
                               (uint64_t)i * 977 };
        const dt_sampling same = {
            .temperature = how.temperature, .top_k = how.top_k, .top_p = how.top_p, .seed = how.seed
        };
        int32_t want;
        TEST_OK(ctx, dt_sample(ctx, &same, i, logits, &want));
        const int32_t got = sample(x, &how, (uint64_t)i, room);
        TEST_EACH(got == want, "draw %d is %d, not %d", i, got, want);
    }
    dt_tensor_free(logits);
    free(room);
}

static const char *const tokenizers[] = { "bytes",
                                          "chars",
                                          "tokenizer/gpt2-512/tokenizer.json",
                                          "tokenizer/llama3-512/tokenizer.json",
                                          "tokenizer/models/gemma/tokenizer.json",
                                          "tokenizer/models/tinyllama/tokenizer.json",
                                          "tokenizer/models/llama2/tokenizer.json",
                                          "tokenizer/models/mistral/tokenizer.json",
                                          "tokenizer/models/phi3/tokenizer.json" };

static dt_tokenizer *tokenizer_of(int i)
{
    char path[TEST_PATH];
    dt_tokenizer *k = NULL;
    if (i == 0) TEST_OK(ctx, dt_tokenizer_bytes(ctx, &k));
    if (i == 1) TEST_OK(ctx, dt_tokenizer_chars(ctx, corpus, sizeof corpus - 1, &k));
    if (i > 1 && test_golden(path, tokenizers[i])) TEST_OK(ctx, dt_tokenizer_read(ctx, path, &k));
    return k;
}

/* The program prints the prompt, and then the text of `detent sample`. */
static void same_program(dt_module *m, const dt_model_info *info, const char *folder)
{
    char path[TEST_PATH], *out;
    test_join(path, folder, "model.safetensors");
    TEST_OK(ctx, dt_model_save(m, info, path));
    const int status = test_shell(
        &out,
        "cd '%s' && ./story 'we  see' 4 0 > here.txt && printf 'we  see' > there.txt "
        "&& " DETENT_BINARY_DIR
        "/detent sample model.safetensors --prompt 'we  see' --max-tokens 4 --temperature 0 "
        "2>&1 >> there.txt && echo >> there.txt && cmp here.txt there.txt 2>&1",
        folder);
    ck_assert_msg(status == 0, "%s", out);
    free(out);
}

/* What is exported has no sanitizer: there it need only run. */
#ifdef TEST_SANITIZED
#define LEVEL "-O0"
#else
#define LEVEL "-O2"
#endif

START_TEST(text_is_that_of_the_tokenizer)
{
    char folder[TEST_PATH], path[TEST_PATH], page[TEST_PATH], json[1 << 18] = "";
    dt_tokenizer *k = tokenizer_of(_i);
    if (k == NULL) return;
    const dt_gpt_options o = { .vocab = dt_tokenizer_vocab(k),
                               .context = 16,
                               .layers = 1,
                               .heads = 2,
                               .width = 8,
                               .eps = 1e-5 };
    dt_module *m;
    TEST_OK(ctx, dt_gpt_create(ctx, &o, &m));
    TEST_OK(ctx, dt_tokenizer_text(k, into, json));
    const dt_model_info info = { .family = dt_family_named(ctx, "gpt"),
                                 .options = &o,
                                 .tokenizer = json };
    dt_export_options options = dt_export_defaults();
    options.name = "story";
    options.text = true;
    test_folder(folder);
    test_join(path, folder, "out");
    TEST_OK(ctx, dt_export(m, &info, "c", &options, path, NULL));
    const int status =
        test_shell(NULL,
                   "cd '%s' && cc " LEVEL " -std=c99 -pedantic -Wall -Wextra -Wconversion "
                   "-Werror story.c story_text.c -DSTORY_MAIN -o story && ./story x "
                   "3 > out.txt && cc " LEVEL " -shared -fPIC story_text.c -o text.so",
                   path);
    ck_assert_msg(status == 0, "%s does not compile and run", tokenizers[_i]);
    same_program(m, &info, path);
    test_join(page, path, "README.md");
    char *readme = test_read_file(page, NULL); /* floats of 16 tokens, and of one */
    ck_assert(strstr(readme, "| of these keys and values | 1024 bytes, 64 a token") != NULL);
    free(readme);
    test_join(path, path, "text.so");
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(library != NULL, "%s", dlerror());
    check_encoding(k, library);
    check_sampling(library, o.vocab);
    dlclose(library);
    dt_module_free(m);
    dt_tokenizer_free(k);
}
END_TEST

/* Tokenizers with which the C files would cut text differently from detent: two spaces before a
 * text, a special token that is one character, more tokens than the model has. */
static const struct {
    const char *at, *insert; /* of tinyllama's tokenizer.json */
    int64_t vocab;
    const char *says;
} others[] = {
    { "{\"type\":\"Replace\"", "{\"type\":\"Prepend\",\"prepend\":\"\u2581\"},", 697,
      "changes spaces alone" },
    { "{\"id\":1,", "{\"id\":292,\"content\":\"e\",\"special\":true},", 697,
      "no special token of one character" },
    { "{\"id\":1,", "", 696, "the tokenizer has 697 tokens, the model's vocabulary 696" },
};

START_TEST(other_tokenizers_are_refused)
{
    char folder[TEST_PATH], path[TEST_PATH], changed[1 << 16];
    if (!test_golden(path, "tokenizer/models/tinyllama/tokenizer.json")) return;
    char *json = test_read_file(path, NULL), *at = strstr(json, others[_i].at);
    ck_assert(at != NULL && strlen(json) + 100 < sizeof changed);
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - json), json, others[_i].insert, at);
    const dt_gpt_options o = {
        .vocab = others[_i].vocab, .context = 9, .layers = 1, .heads = 2, .width = 8, .eps = 1e-5
    };
    const dt_model_info info = { .family = dt_family_named(ctx, "gpt"),
                                 .options = &o,
                                 .tokenizer = changed };
    dt_export_options options = dt_export_defaults();
    options.text = true;
    dt_module *m;
    test_folder(folder);
    test_join(path, folder, "out");
    TEST_OK(ctx, dt_gpt_create(ctx, &o, &m));
    TEST_FAILS(ctx, DT_ERR_UNSUPPORTED, others[_i].says,
               dt_export(m, &info, "c", &options, path, NULL));
    ck_assert(!test_file_exists(path));
    dt_module_free(m);
    free(json);
}
END_TEST

/* ---- failures ------------------------------------------------------------------------------- */

static dt_status export_mixture(dt_ctx *c, void *user)
{
    const dt_llama_options o = { .vocab = 20,
                                 .context = 9,
                                 .layers = 1,
                                 .heads = 2,
                                 .width = 8,
                                 .hidden = 12,
                                 .tied = true,
                                 .theta = 10000,
                                 .eps = 1e-5,
                                 .moe = { .given = true, .experts = 3, .top_k = 2 } };
    const dt_model_info info = { .family = dt_family_named(c, "llama"),
                                 .options = &o,
                                 .tokenizer = "{\"model\":{\"type\":\"chars\",\"characters\":"
                                              "\"abc\"}}" };
    dt_qat_options qat = dt_qat_defaults();
    qat.preset = DT_INT4_WEIGHT; /* others quantize an input of several layers at once if there is
                                  * memory, and one by one if not */
    char path[TEST_PATH];
    static int number;
    dt_export_options options = dt_export_defaults();
    options.text = true;
    snprintf(path, sizeof path, "%s/%d", (const char *)user, number++);
    dt_module *m;
    if (info.family == NULL || dt_llama_create(c, &o, &m) != DT_OK) return dt_error_status(c);
    dt_status s = dt_prepare(m, &qat);
    if (s == DT_OK) s = dt_convert(m, NULL, NULL);
    if (s == DT_OK) s = dt_export(m, &info, "c", &options, path, NULL);
    ck_assert(s == DT_OK || !test_file_exists(path));
    dt_module_free(m);
    return s;
}

START_TEST(allocations_may_fail)
{
    char folder[TEST_PATH];
    test_folder(folder);
    ck_assert_int_gt(test_every_allocation(export_mixture, folder), 10);
}
END_TEST

START_TEST(mistakes_are_refused)
{
    char folder[TEST_PATH];
    const dt_gpt_options o = {
        .vocab = 20, .context = 9, .layers = 1, .heads = 2, .width = 8, .eps = 1e-5
    };
    const dt_model_info info = { .family = dt_family_named(ctx, "gpt"), .options = &o };
    dt_export_options options = dt_export_defaults();
    dt_module *m;
    test_folder(folder);
    TEST_OK(ctx, dt_gpt_create(ctx, &o, &m));
    options.context = 10;
    TEST_FAILS(ctx, DT_ERR_ARG, "a context of 10 tokens; the model has one of 9",
               dt_export(m, &info, "c", &options, folder, NULL));
    options.context = 5;
    options.text = true;
    TEST_FAILS(ctx, DT_ERR_UNSUPPORTED, "not a language model with a tokenizer",
               dt_export(m, &info, "c", &options, folder, NULL));
    dt_module_free(m);
}
END_TEST

Suite *test_export_c_language_suite(void)
{
    Suite *suite = suite_create("export_c_language");
    TCase *tc = tcase_create("models");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, logits_are_the_decoders);
    tcase_add_test(tc, longrope_has_the_bits_of_short_texts);
    tcase_add_loop_test(tc, text_is_that_of_the_tokenizer, 0, DT__COUNT_OF(tokenizers));
    tcase_add_test(tc, allocations_may_fail);
    tcase_add_test(tc, mistakes_are_refused);
    tcase_add_loop_test(tc, other_tokenizers_are_refused, 0, DT__COUNT_OF(others));
    suite_add_tcase(suite, tc);
    return suite;
}

/* Language models as C: random ones of both families, in floats and quantized, are exported,
 * compiled and fed token by token; logits have the bits of the decoder's. */
#include "random_nets.h"
#include "testing.h"

#include <detent/export.h>
#include <detent/nn.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static dt_ctx *ctx;

static void setup(void) { ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK); }
static void teardown(void) { dt_ctx_free(ctx); }

/* ---- models --------------------------------------------------------------------------------- */

typedef enum form { PLAIN, CONVERTED } form;

/* A batch in training mode, which initializes static and learned ranges. */
static void observe(const random_net *d, dt_module *m)
{
    dt_tape *t;
    dt_tensor *x = random_net_input(ctx, d);
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_no_grad(t, true);
    dt_train(m, true);
    dt_forward(t, m, x);
    TEST_EACH(dt_tape_status(t) == DT_OK, "network %llu: %s", (unsigned long long)d->seed,
              dt_error(ctx));
    dt_train(m, false);
    dt_tape_free(t);
    dt_tensor_free(x);
}

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
    observe(d, m);
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

/* As POSIX says, not by a cast of a pointer to data. */
static any_function *function_of(void *library, const char *name)
{
    any_function *f = NULL;
    void *address = dlsym(library, name);
    ck_assert_msg(address != NULL, "%s is not there", name);
    memcpy(&f, &address, sizeof f);
    return f;
}

static const char *const compilers[] = { "cc -O1", "cc -O3 -march=native -ffp-contract=fast" };

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
    TEST_OK(ctx, dt_decoder_create(m, 0, &decoder));
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

static void check(uint64_t seed, form f)
{
    random_net d;
    char folder[TEST_PATH], path[TEST_PATH];
    dt_module *m = model_of(seed, f, &d);
    const dt_model_info info = { .family = d.family, .options = &d.options };
    dt_export_options options = dt_export_defaults();
    options.name = "story";
    test_folder(folder);
    test_join(path, folder, "out");
    TEST_EACH(dt_export(m, &info, "c", &options, path, NULL) == DT_OK, "network %llu, form %d: %s",
              (unsigned long long)seed, (int)f, dt_error(ctx));
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
    const int64_t n = test_networks((test_draws){ 24, 4 });
    for (uint64_t seed = 0; seed < (uint64_t)n; seed++)
        check(seed + 500, seed / 2 % 4 == 0 ? PLAIN : CONVERTED);
}
END_TEST

/* ---- every preset, and a long text ------------------------------------------------------------ */

Suite *test_export_c_language_suite(void)
{
    Suite *suite = suite_create("export_c_language");
    TCase *tc = tcase_create("models");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, logits_are_the_decoders);
    suite_add_tcase(suite, tc);
    return suite;
}

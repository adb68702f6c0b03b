/* What the suites share: paths, temporary folders, allocators that fail, comparison of floats. A
 * suite is a file test_<topic>.c that defines `Suite *test_<topic>_suite(void)`. */
#ifndef TESTING_H
#define TESTING_H

#include <detent/experimental/detent.h>

#include <check.h>
#include <string.h>

/* Check writes the place of each assertion that holds to a file, and reads all of them after the
 * test, for the message of a crash: a tenth of the time of sanitized suites with many assertions.
 * This replaces it. */
#define _mark_point(file, line) ((void)0)

/* Check's tcase_create; lets test_skip distinguish tests that share a process. */
TCase *test_case_create(const char *name);

/* Check's tcase_add_test and similar functions, which leave out tests that the runner was not asked
 * for (`detent-test TOPIC CASE`). tcase_add_named_test runs `test` for each index below n; name(i)
 * is the name of the case, such as an op: the runner selects it by that name or by that of the
 * test. */
void test_add(TCase *c, const TTest *test, int signal, int exit, int from, int to,
              const char *(*name)(int));
#define _tcase_add_test(c, test, signal, exit, from, to)                                           \
    test_add(c, test, signal, exit, from, to, NULL)
#define tcase_add_named_test(c, test, n, name) test_add(c, test, 0, 0, 0, n, name)

/* Selects the tests of suites that are created from now on: tests and cases with these names; NULL:
 * all. Each name counts the tests that were added for it; with `list` no test is added, and every
 * name is printed. */
typedef struct test_choice {
    char *const *name;
    int n, added;
    bool list;
} test_choice;
void test_choose(test_choice *choice);

/* All tests run in this process. One that takes longer than 600 seconds, 7200 with
 * DETENT_TESTS=all, ends it. */
void test_share_process(void);
#define tcase_create(name) test_case_create(name)

#define SUITE(topic) Suite *test_##topic##_suite(void);
#include "suites.inc"
#undef SUITE

/* gcc has a macro for each sanitizer, clang 14 a feature. TEST_TSAN: clang's of threads; TEST_MSAN:
 * of uninitialized memory. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TEST_TSAN 1
#endif
#if __has_feature(memory_sanitizer)
#define TEST_MSAN 1
#endif
#if __has_feature(address_sanitizer) || defined(TEST_MSAN) || defined(TEST_TSAN)
#define TEST_SANITIZED 1
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_SANITIZED 1
#endif

/* ---- files ---------------------------------------------------------------------------------- */

/* Programs of this build run in an emulator. */
#ifndef TEST_EMULATED
#define TEST_EMULATED 0
#endif

#define TEST_PATH 1024
/* Presets that tests of all layers go through, from 0 on. */
#define TEST_PRESETS (DT_MXFP8_MXFP4 + 1)

/* Whether weights of a preset have groups of a fixed size, and inputs of convolutions stay
 * float. */
#define TEST_OF_BLOCKS(preset) ((preset) >= DT_INT8_BLOCK_Q4_0_WEIGHT && (preset) < TEST_PRESETS)
#define TEST_FLOAT_IMAGES(preset)                                                                  \
    ((preset) == DT_INT4_WEIGHT || (preset) == DT_INT8_BLOCK_INT4_WEIGHT || TEST_OF_BLOCKS(preset))

/* Finds `name` ("ops/tanh.json", "quant") among the reference values: $DETENT_SHARED/golden,
 * ../shared/golden next to the sources, then the subset in tests/golden. Returns false, after
 * test_skip, where none of them has it. */
bool test_golden(char path[TEST_PATH], const char *name);

/* The names in a folder of reference values, and in its subset in tests/golden, that end in `end`,
 * which is cut off; sorted. Folders end in "/". Suites call this when they are created, so that
 * each name is a test. */
#define TEST_NAMES 128
typedef struct test_names {
    int n;
    char name[TEST_NAMES][64];
} test_names;
void test_golden_names(const char *folder, const char *end, test_names *out);

/* Cuts a list such as "c0,c1" of a file's metadata into names. NULL is an empty list. */
void test_list(const char *text, test_names *out);

/* Finds `name` ("data/mnist10k") in $DETENT_SHARED or ../shared; otherwise as above. */
bool test_shared(char path[TEST_PATH], const char *name);

/* path = folder/name. `path` and `folder` may be the same array. */
void test_join(char path[TEST_PATH], const char *folder, const char *name);

/* Makes a new empty folder. The runner removes it at its end, also after a test that crashed. */
void test_folder(char path[TEST_PATH]);

/* Returns the whole file with a NUL after it, to be freed with free(). `size` may be NULL. A file
 * that cannot be read fails the test. */
char *test_read_file(const char *path, size_t *size);

/* Writes or overwrites a file; `text` forms write strlen(text) bytes. */
void test_write_file(const char *path, const void *data, size_t size);
void test_write_text(const char *path, const char *text);

bool test_file_exists(const char *path);

/* Removes a file, or a folder and all in it, if it is there. */
void test_remove(const char *path);

/* Limits the size of files of this process to `bytes` (a larger write fails, without a signal); -1
 * removes the limit. Use no assertion between the two calls: Check writes each one that fails to a
 * file. */
bool test_limit_files(int64_t bytes);

/* Runs a shell command. Returns its exit status (128 + signal after a crash) and, where `output` is
 * not NULL, what it wrote to stdout, to be freed; add "2>&1" to see both. */
int test_shell(char **output, const char *format, ...) DT_PRINTF(2, 3);

/* Whether the compiler that `command` begins with is installed, and its output can be loaded: a
 * native compiler is not, in a build for another machine, whose PATH has `cc` and `gcc` for that
 * machine. */
bool test_has_compiler(const char *command);

/* ---- skips ----------------------------------------------------------------------------------- */

/* Says on stderr what this test does not check, and what is missing. The runner counts the test as
 * skipped. */
void test_skip(const char *format, ...) DT_PRINTF(1, 2);

/* Whether libyaml and jansson can be used: false, after test_skip, under a sanitizer of
 * uninitialized memory, which takes all that they write for uninitialized. */
bool test_parsers(void);

/* Ends a process that a test forked, without the functions that run at the end of the test's own
 * process; keeps counts of scripts/coverage. */
_Noreturn void test_leave(int status);

/* ---- numbers of cases ------------------------------------------------------------------------ */

/* Whether DETENT_TESTS=all is in the environment, as in `scripts/check --all`: tests then run all
 * their repetitions. Otherwise they run all kinds of cases, and few of each. */
bool test_all(void);

/* Whether every call site that can fail is tried: DETENT_FAILURES=all (scripts/coverage), or
 * DETENT_TESTS=all. */
bool test_every_site(void);

/* How many random cases a test draws, or one of how many cases it runs. Errors that a sanitizer
 * finds depend on the kind of a case, so it needs few. */
typedef struct test_draws {
    int64_t usual;     /* with DETENT_TESTS=all */
    int64_t sanitized; /* under a sanitizer, which is 5 to 20 times as slow */
    int64_t quick;     /* otherwise; 0: the usual number */
} test_draws;

int64_t test_count(test_draws draws);

/* The number for random networks. DETENT_NETWORKS in the environment overrides it. */
int64_t test_networks(test_draws draws);

/* The number for scenarios of test_every_allocation and for damages of inputs: the usual one also
 * where test_every_site. */
int64_t test_failures(test_draws draws);

/* ---- failing allocations -------------------------------------------------------------------- */

/* Counts the calls of a context to its allocator. Zero it, set `fail_at`, create the context. */
typedef struct test_memory {
    int64_t calls;   /* of allocate */
    int64_t fail_at; /* the call, counted from 1, that returns NULL; 0: none */
    int64_t live;    /* blocks not yet released */
    size_t bytes;    /* in them */
} test_memory;

/* The allocator that counts in `m`. It fails the test where a block is released with another size
 * than it was allocated with. */
dt_allocator test_allocator(test_memory *m);

/* Runs `scenario` repeatedly, each time on a new context with 2 threads, with allocation 1, 2, 3,
 * ... failing, until a run makes fewer allocations. Each run must return DT_ERR_NOMEM with a
 * message and leave no block allocated; the last one must return DT_OK. Without DETENT_TESTS=all
 * the gaps grow by an eighth, and by a third under a sanitizer: of 1,000 allocations 50 or 24 fail.
 * Where test_every_site, one call of the library for memory fails at each of its call sites, also
 * where the block pool has a block (tests/failing_calls.h).
 * Returns the number of the last run. The scenario frees what it makes, but not the context. */
int64_t test_every_allocation(dt_status (*scenario)(dt_ctx *ctx, void *user), void *user);

/* Only the failures at call sites: nothing unless test_every_site, and then only sites that no
 * earlier scenario of this process reached. For tests with thousands of scenarios. */
void test_new_sites(dt_status (*scenario)(dt_ctx *ctx, void *user), void *user);

/* Makes malloc, calloc and realloc fail, as libraries call them (libyaml, jansson, zlib, libc): the
 * n-th call of this thread from now on returns NULL, once; 0 ends it. End it before anything that
 * may not fail, such as an assertion or a parallel region. A context's default allocator is not
 * affected. */
void test_malloc_fail_at(int64_t n);

/* Calls of this thread since test_malloc_fail_at. */
int64_t test_malloc_calls(void);

/* False, after test_skip, under a sanitizer, which has a malloc of its own, and without glibc; then
 * test_malloc_fail_at does nothing. */
bool test_malloc_can_fail(void);

/* ---- closeness ------------------------------------------------------------------------------ */

/* |a - b| <= absolute + relative * |b|; NaN is near NaN, and an infinity is near itself. */
bool test_near(double a, double b, double absolute, double relative);

/* The first index where a[i] is not near b[i]; -1 where all are. */
int64_t test_first_far_f32(const float *a, const float *b, int64_t n, double absolute,
                           double relative);
int64_t test_first_far_f64(const double *a, const double *b, int64_t n, double absolute,
                           double relative);

#define TEST_NEAR(a, b, absolute, relative)                                                        \
    ck_assert_msg(test_near(a, b, absolute, relative), "%s = %.17g, %s = %.17g", #a, (double)(a),  \
                  #b, (double)(b))

/* ck_assert_msg for loops: Check writes to a file for every assertion that holds, which is slower
 * than most conditions. */
#define TEST_EACH(condition, ...)                                                                  \
    do {                                                                                           \
        if (!(condition)) ck_abort_msg(__VA_ARGS__);                                               \
    } while (0)

/* A call that must return DT_OK; otherwise the test fails with the message of `ctx`. */
#define TEST_OK(ctx, call)                                                                         \
    do {                                                                                           \
        const dt_status test_status_ = (call);                                                     \
        ck_assert_msg(test_status_ == DT_OK, "%s: %s: %s", #call, dt_status_name(test_status_),    \
                      (ctx) == NULL ? "" : dt_error(ctx));                                         \
    } while (0)

/* A call that must fail with `code` and a message that contains `text`. */
#define TEST_FAILS(ctx, code, text, call)                                                          \
    do {                                                                                           \
        const dt_status test_status_ = (call);                                                     \
        ck_assert_msg(test_status_ == (code), "%s gave %s, not %s", #call,                         \
                      dt_status_name(test_status_), #code);                                        \
        ck_assert_msg(strstr(dt_error(ctx), text) != NULL, "%s: the message is \"%s\"", #call,     \
                      dt_error(ctx));                                                              \
    } while (0)

/* Called by the runner before and after all suites. Where DETENT_TIMES names a file, each test adds
 * a line to it: its CPU seconds and its name. */
void test_begin(void);
void test_end(void);

/* How many tests called test_skip since the last call; for the runner. */
int64_t test_skips(void);

#endif

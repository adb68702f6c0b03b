/* The fuzz targets (tests/fuzz) on known inputs: their seeds; tests/fuzz/corpus, which has inputs
 * that once broke a promise, or reach code that seeds do not; and seeds with one to three changes.
 * Where a seed is JSON, or has JSON in front of its data, each value and key in it is replaced,
 * repeated or removed. With DETENT_FAILURES=all memory fails, too. DETENT_FUZZ_SEEDS names a folder
 * for the seeds: FOLDER/TARGET/NAME, for scripts/fuzz. */
#include "damaged_text.h"
#include "failing_calls.h"
#include "fuzz/fuzz.h"
#include "testing.h"

#include "core/core.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

/* ---- memory that fails ----------------------------------------------------------------------- */

static void end_of_failures(void) { failing_end(); }

/* All passes call the target from here (failing_calls.h). */
static void run_with(const fuzz_target *t, const char *data, size_t n, failing_call c)
{
    failing_begin(c);
    t->run((const uint8_t *)data, n);
    failing_end();
}

/* Fails memory at every call site that no earlier input has reached. */
static void run_without_memory(const fuzz_target *t, const char *data, size_t n)
{
    if (!test_every_site()) return;
    fuzz_at_promise = end_of_failures;
    run_with(t, data, n, (failing_call){ FAILING_FIND, FAILING_MEMORY, false, ENOMEM });
    const int64_t found = failing_found();
    for (int64_t i = 0; i < found; i++) {
        run_with(t, data, n, (failing_call){ i, FAILING_MEMORY, i % 2 == 1, ENOMEM });
    }
    fuzz_at_promise = NULL;
}

/* ---- known inputs ---------------------------------------------------------------------------- */

/* Runs the target on every file of a folder, cut at several places too; returns how many. */
static int replay(const fuzz_target *t, const char *folder)
{
    DIR *d = opendir(folder);
    int n = 0;
    if (d == NULL) return 0;
    for (const struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        char path[TEST_PATH];
        size_t size;
        if (e->d_name[0] == '.') continue;
        test_join(path, folder, e->d_name);
        char *data = test_read_file(path, &size);
        for (size_t part = 0; part <= 8; part++) {
            const size_t bytes = size * part / 8;
            char *own = malloc(bytes == 0 ? 1 : bytes); /* ends where memory ends */
            ck_assert_ptr_nonnull(own);
            memcpy(own, data, bytes);
            t->run((const uint8_t *)own, bytes);
            free(own);
        }
        run_without_memory(t, data, size);
        free(data);
        n++;
    }
    closedir(d);
    return n;
}

/* ---- changes --------------------------------------------------------------------------------- */

static size_t insert(char *data, size_t n, size_t at, const char *text, size_t size)
{
    memmove(data + at + size, data + at, n - at);
    memcpy(data + at, text, size);
    return n + size;
}

#define LONGEST 24 /* bytes that a change may insert */

/* Changes one place of the n bytes, behind which are LONGEST more; returns the new number. */
static size_t change(dt__stream *s, char *data, size_t n)
{
    static const char *const texts[] = { "\"",
                                         "{",
                                         "}",
                                         "[",
                                         "]",
                                         ",",
                                         ":",
                                         "null",
                                         "true",
                                         "\\u0000",
                                         "1e999",
                                         "-1",
                                         "0",
                                         "{}",
                                         "[]",
                                         " ",
                                         "9999999999999999999",
                                         "0.5",
                                         "\n",
                                         "\xff" };
    static const int32_t numbers[] = { 0, 1, 2, -1, 255, 65536, INT32_MAX, INT32_MIN };
    char part[LONGEST];
    if (n == 0) return n;
    const size_t at = (size_t)dt__random_below(s, n), left = n - at;
    const size_t size = 1 + (size_t)dt__random_below(s, left < LONGEST ? left : LONGEST);
    const char *text = texts[dt__random_below(s, DT__COUNT_OF(texts))];
    switch (dt__random_below(s, 6)) {
    case 0: data[at] = (char)dt__random_below(s, 256); return n;
    case 1: data[at] = *text; return n;
    case 2: memmove(data + at, data + at + size, left - size); return n - size;
    case 3: memcpy(part, data + at, size); return insert(data, n, at, part, size);
    case 4: return insert(data, n, at, text, strlen(text));
    default:
        memcpy(data + at, &numbers[dt__random_below(s, DT__COUNT_OF(numbers))],
               left < 4 ? left : 4);
        return n;
    }
}

static void run_changed(const fuzz_target *t, const char *path, dt__stream *s)
{
    /* a network takes a hundred times as long as a file */
    const bool slow = strcmp(t->name, "graph") == 0 || strcmp(t->name, "rounding") == 0;
    const test_draws draws = { .usual = 250, .quick = 10, .sanitized = 3 };
    size_t size;
    char *data = test_read_file(path, &size);
    for (int64_t i = test_failures(draws) / (slow ? 40 : 1); i > 0; i--) {
        char *own = malloc(size + 3 * LONGEST);
        ck_assert_ptr_nonnull(own);
        memcpy(own, data, size);
        size_t n = size;
        for (uint64_t k = 1 + dt__random_below(s, 3); k > 0; k--) n = change(s, own, n);
        char *exact = realloc(own, n == 0 ? 1 : n); /* ends where memory ends */
        ck_assert_ptr_nonnull(exact);
        t->run((const uint8_t *)exact, n);
        free(exact);
    }
    free(data);
}

START_TEST(changed_inputs)
{
    const fuzz_target *t = fuzz_targets[_i];
    dt__stream s = dt__stream_of((uint64_t)_i, DT__FOR_USER);
    char folder[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    t->seeds(&(fuzz_seeds){ folder });
    DIR *d = opendir(folder);
    ck_assert_ptr_nonnull(d);
    for (const struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        if (e->d_name[0] == '.') continue;
        test_join(path, folder, e->d_name);
        run_changed(t, path, &s);
    }
    closedir(d);
}
END_TEST

/* ---- values ---------------------------------------------------------------------------------- */

/* Seeds with text: bytes in front, and parts with a length (fuzz_part) before the last. */
static const struct {
    const char *target;
    int front, parts;
} texts[] = {
    { "file", 0, 0 },      { "model", 0, 0 },      { "checkpoint", 0, 0 }, { "recipe", 0, 0 },
    { "sweep", 0, 0 },     { "rounding", 0, 2 },   { "hf", 0, 3 },         { "compressed", 0, 1 },
    { "tokenizer", 0, 1 }, { "model_data", 1, 1 },
};

/* Where part i begins and ends; its text ends before a 0. */
typedef struct part {
    size_t at, end, text;
} part;

static bool part_of(const char *data, size_t n, int which, int i, part *out)
{
    size_t at = (size_t)texts[which].front, end = n;
    for (int k = 0; k <= i; k++) {
        if (k > 0) at = end;
        end = n;
        if (k == texts[which].parts) continue;
        if (n < at + 2) return false;
        const unsigned char *length = (const unsigned char *)data + at;
        end = at + 2 + (size_t)(length[0] | length[1] << 8);
        at += 2;
    }
    if (end > n) return false;
    const char *zero = memchr(data + at, 0, end - at);
    *out = (part){ at, end, zero == NULL ? end - at : (size_t)(zero - data) - at };
    return true;
}

/* Runs the target with change k of a part; false: there are fewer. */
static bool run_damaged(const fuzz_target *t, const char *data, size_t n, const part *p, int64_t k)
{
    size_t size;
    char *text = damaged_text(data + p->at, p->text, k, &size);
    if (text == NULL) return false;
    const size_t rest = n - p->at - p->text;
    char *own = malloc(p->at + size + rest + 1);
    ck_assert_ptr_nonnull(own);
    memcpy(own, data, p->at);
    memcpy(own + p->at, text, size);
    memcpy(own + p->at + size, data + p->at + p->text, rest);
    if (p->end < n) { /* it has a length in front */
        const size_t length = p->end - p->at - p->text + size;
        own[p->at - 2] = (char)length;
        own[p->at - 1] = (char)(length >> 8);
    }
    t->run((const uint8_t *)own, p->at + size + rest);
    free(own);
    free(text);
    return true;
}

static int64_t damage_file(int which, const char *path, int64_t first)
{
    static const test_draws apart = { .usual = 1, .quick = 149, .sanitized = 599 };
    const fuzz_target *t = fuzz_target_named(texts[which].target);
    const bool many = strcmp(t->name, "tokenizer") == 0; /* tokens, which are alike */
    const int64_t step = test_failures(apart) * (many ? 37 : 1);
    size_t n;
    int64_t ran = 0;
    char *data = test_read_file(path, &n);
    for (int i = 0; i <= texts[which].parts; i++) {
        part p;
        if (!part_of(data, n, which, i, &p)) break;
        for (int64_t k = first % step; run_damaged(t, data, n, &p, k); k += step) ran++;
    }
    free(data);
    return ran;
}

START_TEST(damaged_values)
{
    char folder[TEST_PATH], path[TEST_PATH];
    int64_t ran = 0, files = 0;
    test_folder(folder);
    fuzz_target_named(texts[_i].target)->seeds(&(fuzz_seeds){ folder });
    DIR *d = opendir(folder);
    ck_assert_ptr_nonnull(d);
    for (const struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        if (e->d_name[0] == '.') continue;
        test_join(path, folder, e->d_name);
        ran += damage_file(_i, path, 31 * files++);
    }
    closedir(d);
    ck_assert_int_gt(ran, 0);
    printf("fuzz: %lld damaged values of %s\n", (long long)ran, texts[_i].target);
}
END_TEST

START_TEST(known_inputs)
{
    const fuzz_target *t = fuzz_targets[_i];
    const char *kept = getenv("DETENT_FUZZ_SEEDS");
    char folder[TEST_PATH], corpus[TEST_PATH];
    if (kept == NULL) test_folder(folder);
    else test_join(folder, kept, t->name);
    mkdir(folder, 0777);
    t->seeds(&(fuzz_seeds){ folder });
    ck_assert_msg(replay(t, folder) > 0, "%s has no seeds", t->name);
    test_join(corpus, DETENT_SOURCE_DIR "/tests/fuzz/corpus", t->name);
    replay(t, corpus);
}
END_TEST

Suite *test_fuzz_suite(void)
{
    Suite *s = suite_create("fuzz");
    TCase *c = tcase_create("known inputs");
    int n = 0;
    while (fuzz_targets[n] != NULL) n++;
    tcase_set_timeout(c, 1800);
    tcase_add_loop_test(c, known_inputs, 0, n);
    tcase_add_loop_test(c, changed_inputs, 0, n);
    tcase_add_loop_test(c, damaged_values, 0, DT__COUNT_OF(texts));
    suite_add_tcase(s, c);
    return s;
}

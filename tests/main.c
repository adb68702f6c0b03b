/* The runner: `detent-test` runs every suite, `detent-test TOPIC ...` the named ones, and
 * `detent-test --list` lists them. `detent-test TOPIC CASE ...` runs tests of a suite by name, or
 * items that it runs over, such as an op or a layer; `--list TOPIC` lists them. A word behind a
 * suite that is both one of its cases and a suite is the case.
 *
 * Check runs each test in a process of its own, so a crash is one failure. Under a sanitizer, and
 * with CK_FORK=no, for a debugger, all run in this process: a third of the time of sanitized tests
 * was spent on starting and ending processes, each of which is searched for leaks. With CK_FORK=yes
 * it is visible which test leaks. A test may print a report of its own to stdout. The last line
 * counts: "12 passed, 0 failed, 1 skipped". A skipped test lacks data or a program, says which, and
 * does not count as passed. */
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct entry {
    const char *topic;
    Suite *(*suite)(void);
} entry;

static const entry entries[] = {
#define SUITE(topic) { #topic, test_##topic##_suite },
#include "suites.inc"
#undef SUITE
    { NULL, NULL },
};

typedef struct counts {
    int passed, failed, skipped;
} counts;

static void run(const entry *e, char *const *names, int n, counts *all)
{
    test_choice only = { .name = names, .n = n };
    test_choose(n > 0 ? &only : NULL);
    SRunner *runner = srunner_create(e->suite());
    srunner_run_all(runner, CK_SILENT);
    counts c = { .failed = srunner_ntests_failed(runner), .skipped = (int)test_skips() };
    c.passed = srunner_ntests_run(runner) - c.failed - c.skipped;
    if (c.failed > 0) srunner_print(runner, CK_NORMAL);
    srunner_free(runner);
    char title[200];
    int used = snprintf(title, sizeof title, "%s", e->topic);
    for (int i = 0; i < n && used < (int)sizeof title; i++) {
        used += snprintf(title + used, sizeof title - (size_t)used, " %s", names[i]);
    }
    printf("%-20s %d passed, %d failed, %d skipped\n", title, c.passed, c.failed, c.skipped);
    all->passed += c.passed;
    all->failed += c.failed;
    all->skipped += c.skipped;
}

static const entry *find(const char *topic)
{
    const entry *e = entries;
    while (e->topic != NULL && strcmp(e->topic, topic) != 0) e++;
    return e->topic == NULL ? NULL : e;
}

/* Makes the suite without running it. Returns how many tests it has for the names. */
static int look(const entry *e, test_choice choice)
{
    test_choose(&choice);
    srunner_free(srunner_create(e->suite()));
    test_choose(NULL);
    return choice.added;
}

/* How many of the arguments, from the first on, are cases of the suite. */
static int count_cases(const entry *e, char *const *names, int n)
{
    int k = 0;
    while (k < n && look(e, (test_choice){ .name = names + k, .n = 1 }) > 0) k++;
    return k;
}

static int list(const char *topic)
{
    const entry *e = topic == NULL ? entries : find(topic);
    if (e == NULL) return -1;
    if (topic != NULL) look(e, (test_choice){ .list = true });
    for (; topic == NULL && e->topic != NULL; e++) puts(e->topic);
    return 0;
}

/* Reports an unknown suite or case, and lists the known ones. */
static int refuse(const char *name, const entry *before)
{
    fflush(stdout);
    fprintf(stderr, "detent-test: no suite '%s'", name);
    if (before != NULL) fprintf(stderr, ", and no case of that name in '%s'", before->topic);
    fprintf(stderr, "; %s:\n", before == NULL ? "the suites" : "its cases");
    dup2(STDERR_FILENO, STDOUT_FILENO);
    list(before == NULL ? NULL : before->topic);
    return 2;
}

/* Arguments are suites, each with cases of it behind it. */
static int run_named(int n, char **names, counts *all)
{
    const entry *e = NULL;
    for (int i = 0; i < n; i++) { /* nothing runs where a name is unknown */
        const entry *next = find(names[i]);
        if (next == NULL) return refuse(names[i], e);
        e = next;
        i += count_cases(e, names + i + 1, n - i - 1);
    }
    for (int i = 0; i < n;) {
        e = find(names[i++]);
        const int cases = count_cases(e, names + i, n - i);
        run(e, names + i, cases, all);
        i += cases;
    }
    return 0;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* a test's process must not print our lines again */
    setenv("CK_DEFAULT_TIMEOUT", "600", 0);
#ifdef TEST_SANITIZED
    if (getenv("CK_FORK") == NULL) test_share_process();
#endif
    if (argc > 1 && strcmp(argv[1], "--list") == 0) {
        return list(argv[2]) == 0 ? EXIT_SUCCESS : refuse(argv[2], NULL);
    }
    test_begin();
    counts all = { 0 };
    const int status = run_named(argc - 1, argv + 1, &all);
    for (const entry *e = entries; argc == 1 && e->topic != NULL; e++) run(e, NULL, 0, &all);
    test_end();
    if (status != 0) return status;
    if (argc != 2) {
        printf("%d passed, %d failed, %d skipped\n", all.passed, all.failed, all.skipped);
    }
    return all.failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

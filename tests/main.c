/* The runner: `detent-test` runs every suite, `detent-test TOPIC ...` those named, and
 * `detent-test --list` names them. Check runs each test in a process of its own, so a crash is one
 * failure. Under a sanitizer, and with CK_FORK=no, for a debugger, all run in this process: a third
 * of the time of sanitized tests went into starting and ending processes, each of which is searched
 * for leaks. CK_FORK=yes tells which of a suite's tests leaks. A test may print a report of its own
 * to stdout. The last line counts: "12 passed, 0 failed, 1 skipped". A skipped test lacks data or a
 * program, says which, and is none of the passed. */
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void run(const entry *e, counts *all)
{
    SRunner *runner = srunner_create(e->suite());
    srunner_run_all(runner, CK_SILENT);
    counts c = { .failed = srunner_ntests_failed(runner), .skipped = (int)test_skips() };
    c.passed = srunner_ntests_run(runner) - c.failed - c.skipped;
    if (c.failed > 0) srunner_print(runner, CK_NORMAL);
    srunner_free(runner);
    printf("%-20s %d passed, %d failed, %d skipped\n", e->topic, c.passed, c.failed, c.skipped);
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

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* a test's process must not print our lines again */
    setenv("CK_DEFAULT_TIMEOUT", "600", 0);
#ifdef TEST_SANITIZED
    if (getenv("CK_FORK") == NULL) test_share_process();
#endif
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (const entry *e = entries; e->topic != NULL; e++) puts(e->topic);
        return EXIT_SUCCESS;
    }
    for (int i = 1; i < argc; i++) {
        if (find(argv[i]) != NULL) continue;
        fprintf(stderr, "detent-test: no suite '%s'; --list names them\n", argv[i]);
        return 2;
    }
    test_begin();
    counts all = { 0 };
    for (int i = 1; i < argc; i++) run(find(argv[i]), &all);
    for (const entry *e = entries; argc == 1 && e->topic != NULL; e++) run(e, &all);
    test_end();
    if (argc != 2) {
        printf("%d passed, %d failed, %d skipped\n", all.passed, all.failed, all.skipped);
    }
    return all.failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* The runner: `detent-test` runs every suite, `detent-test TOPIC ...` those named, and
 * `detent-test --list` names them. Check runs each test in a process of its own, so a crash is one
 * failure; CK_FORK=no keeps them in this one for a debugger. A test may print a report of its own
 * to stdout. The last line counts: "12 passed, 0 failed". */
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

static int run(const entry *e, int *passed)
{
    SRunner *runner = srunner_create(e->suite());
    srunner_run_all(runner, CK_SILENT);
    const int failed = srunner_ntests_failed(runner);
    const int count = srunner_ntests_run(runner);
    if (failed > 0) srunner_print(runner, CK_NORMAL);
    srunner_free(runner);
    printf("%-20s %d passed, %d failed\n", e->topic, count - failed, failed);
    *passed += count - failed;
    return failed;
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
    int passed = 0, failed = 0;
    for (int i = 1; i < argc; i++) failed += run(find(argv[i]), &passed);
    for (const entry *e = entries; argc == 1 && e->topic != NULL; e++) failed += run(e, &passed);
    test_end();
    if (argc != 2) printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Runs a command of the program in the test's own process. */
#include "failing_calls.h"
#include "fault_runs.h"

#include "cli/cli.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MOST_WORDS 64

/* The two streams while a command writes to a file, and the folder where the test is. */
typedef struct aside {
    int out, error, in, folder;
} aside;

static void turn(aside *a, const char *streams, const char *folder)
{
    fflush(NULL);
    const int to = open(streams, O_RDWR | O_CREAT | O_TRUNC, 0666);
    const int from = open("/dev/null", O_RDONLY);
    *a = (aside){ dup(1), dup(2), dup(0), open(".", O_RDONLY | O_DIRECTORY) };
    ck_assert_int_ge(to, 0);
    ck_assert_int_ge(from, 0);
    ck_assert_int_ge(a->folder, 0);
    ck_assert(dup2(to, 1) == 1 && dup2(to, 2) == 2 && dup2(from, 0) == 0);
    ck_assert_int_eq(chdir(folder), 0);
    close(to);
    close(from);
}

static void turn_back(const aside *a)
{
    fflush(NULL);
    clearerr(stdout);
    clearerr(stdin);
    const bool back = fchdir(a->folder) == 0 && dup2(a->out, 1) == 1 && dup2(a->error, 2) == 2 &&
                      dup2(a->in, 0) == 0;
    close(a->out);
    close(a->error);
    close(a->in);
    close(a->folder);
    ck_assert(back);
}

static int cut_into_words(char *text, char **words)
{
    char *rest = NULL;
    int n = 1;
    for (char *w = strtok_r(text, " ", &rest); w != NULL && n < MOST_WORDS - 1; n++) {
        words[n] = w;
        w = strtok_r(NULL, " ", &rest);
    }
    words[n] = NULL;
    return n;
}

void fault_run_inside(fault_run *r, const failing_call *fails)
{
    static char streams[TEST_PATH];
    char text[2048], program[] = "detent", *words[MOST_WORDS] = { program };
    aside a;
    size_t n;
    if (*streams == 0) {
        test_folder(streams);
        test_join(streams, streams, "streams");
    }
    snprintf(text, sizeof text, "%s", r->arguments);
    const int n_words = cut_into_words(text, words);
    turn(&a, streams, r->folder);
    if (fails != NULL) failing_begin(*fails);
    r->status = cli_main(n_words, words);
    r->happened = fails != NULL && failing_end();
    turn_back(&a);
    char *said = test_read_file(streams, &n);
    snprintf(r->said, sizeof r->said, "%s", said);
    free(said);
}

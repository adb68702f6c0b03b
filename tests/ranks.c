/* Starts the program on several ranks, and compares what their runs wrote. */
#include "ranks.h"

#include "fault_runs.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef TEST_SANITIZED /* MPI leaks memory */
#define QUIETLY "env ASAN_OPTIONS=detect_leaks=0 "
#else
#define QUIETLY ""
#endif

static const launcher launchers[LAUNCHERS] = {
    { "detent-openmpi.so", "mpirun.openmpi",
      QUIETLY "mpirun.openmpi --oversubscribe --allow-run-as-root --mca btl self,vader" },
    { "detent-mpich.so", "mpirun.mpich", QUIETLY "mpirun.mpich" },
};

static bool is_there(const launcher *l)
{
    char path[TEST_PATH];
    test_join(path, DETENT_BINARY_DIR, l->module);
    return test_file_exists(path) && test_shell(NULL, "command -v %s >/dev/null", l->program) == 0;
}

int ranks_launchers(const launcher *found[LAUNCHERS])
{
    int n = 0;
    for (int i = 0; i < LAUNCHERS; i++) {
        if (is_there(&launchers[i])) found[n++] = &launchers[i];
    }
    if (n == 0) test_skip("runs of several ranks: there is no MPI that detent was built with");
    return n;
}

int ranks_run(const launcher *l, int ranks, const char *folder, const char *words, char **said)
{
    char start[256] = "";
    if (l != NULL) snprintf(start, sizeof start, "%s -n %d", l->command, ranks);
    return test_shell(said, "cd %s && %s " RANKS_PROGRAM " %s 2>&1", folder, start, words);
}

void ranks_choose_way(int way)
{
    if (way == 0) unsetenv("DETENT_EXCHANGE");
    else setenv("DETENT_EXCHANGE", "messages", 1);
}

void ranks_choose_no_way(void) { ranks_choose_way(0); }

void ranks_train(const launcher *l, int ranks, const char *folder, const char *recipe)
{
    char words[2048], *said = NULL;
    snprintf(words, sizeof words, "train " RANKS_RECIPES "%s", recipe);
    const int status = ranks_run(l, ranks, folder, words, &said);
    ck_assert_msg(status == 0, "%s on %d ranks: status %d: %s", recipe, ranks, status, said);
    free(said);
}

void ranks_compare(const char *a, const char *b, const char *what)
{
    char of_a[TEST_PATH], of_b[TEST_PATH];
    tree x, y;
    ck_assert(test_shell(NULL,
                         "sed -i -E 's/, \"(communication_ms|exposed_ms|sent_bytes)\": "
                         "[^,}]*//g' %s/run/metrics.jsonl %s/run/metrics.jsonl",
                         a, b) == 0);
    test_join(of_a, a, "run");
    test_join(of_b, b, "run");
    tree_read(&x, of_a);
    tree_read(&y, of_b);
    ck_assert_msg(x.n == y.n && x.n > 3, "%s: %d files, %d files", what, (int)x.n, (int)y.n);
    for (int64_t i = 0; i < x.n; i++) {
        const char *path = x.file[i].path;
        if (strcmp(path, "machine.json") == 0) continue;
        ck_assert_str_eq(path, y.file[i].path);
        ck_assert_msg(tree_same_file(&x.file[i], &y.file[i]), "%s: %s differs", what, path);
    }
    tree_free(&x);
    tree_free(&y);
}

void ranks_write_script(const char *folder)
{
    char path[TEST_PATH];
    test_join(path, folder, "rank.sh");
    test_write_text(path,
                    "#!/bin/sh\n"
                    "# rank.sh RANK SIGNAL SECONDS WORD...\n"
                    "rank=$1; signal=$2; seconds=$3; shift 3\n" RANKS_PROGRAM " \"$@\" &\n"
                    "pid=$!\n"
                    "if [ \"$OMPI_COMM_WORLD_RANK$PMI_RANK\" = $rank ]; then\n"
                    "    while ! ls run/checkpoints/step-* >/dev/null 2>&1; do sleep 0.02; done\n"
                    "    sleep $seconds; echo $pid >pid; kill -$signal $pid\n"
                    "fi\n"
                    "wait $pid\n");
    ck_assert(test_shell(NULL, "chmod +x %s", path) == 0);
}

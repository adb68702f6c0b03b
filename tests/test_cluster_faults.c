/* Faults in runs of several ranks: a signal, a kill, a full disk, no memory. Each run ends with a
 * clear status, no file is damaged, and --resume goes on with the run. */
#include "fault_runs.h"
#include "ranks.h"
#include "run_jobs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- stopping and killing -------------------------------------------------------------------- */

#define LONG RANKS_DIGITS "train.epochs=4000 train.checkpoint.every_steps=5 "

START_TEST(one_rank_that_is_asked_to_stop_ends_all)
{
    const launcher *found[LAUNCHERS];
    char folder[TEST_PATH], *said;
    const int n = ranks_launchers(found);
    for (int i = 0; i < n && i < (test_all() ? n : 1); i++) {
        test_folder(folder);
        ranks_write_script(folder);
        const int status = test_shell(
            &said, "cd %s && %s -n 2 ./rank.sh 1 TERM 0 train " RANKS_RECIPES LONG " 2>&1", folder,
            found[i]->command);
        ck_assert_msg(status == 130, "status %d: %s", status, said);
        ck_assert_msg(strstr(said, "a checkpoint was saved in run") != NULL, "said: %s", said);
        free(said);
        ck_assert_int_eq(test_shell(NULL,
                                    "cd %s && for f in run/checkpoints/*; do " RANKS_PROGRAM
                                    " check $f || "
                                    "exit 1; done",
                                    folder),
                         0);
    }
}
END_TEST

START_TEST(a_rank_that_hangs_is_named)
{
    const launcher *found[LAUNCHERS];
    char folder[TEST_PATH], *said;
    const int n = ranks_launchers(found);
    for (int i = 0; i < n * RANKS_WAYS && (test_all() || i == 0); i++) {
        test_folder(folder);
        ranks_write_script(folder);
        ranks_choose_way(i / n);
        const int status =
            test_shell(&said,
                       "cd %s && %s -n 2 ./rank.sh 1 STOP 0 train " RANKS_RECIPES LONG
                       "cluster.timeout=5 2>&1; "
                       "s=$?; kill -KILL $(cat pid) 2>/dev/null; exit $s",
                       folder, found[i % n]->command);
        ck_assert_msg(status != 0, "status 0: %s", said);
        ck_assert_msg(strstr(said, "nothing has come within 5 s (cluster.timeout)") != NULL &&
                          strstr(said, "from rank 1") != NULL,
                      "said: %s", said);
        free(said);
    }
}
END_TEST

/* 20 kills at random moments: the run goes on from its newest checkpoint, on another number of
 * ranks each time, and ends with the bytes of a run that was not disturbed. Open MPI's mpirun may
 * hang for ever when its ranks have ended while they started: hence `timeout`. */
START_TEST(killed_ranks_do_no_harm)
{
    const launcher *found[LAUNCHERS];
    char alone[TEST_PATH], folder[TEST_PATH], a[TEST_PATH + 8], b[TEST_PATH + 8], *said;
    const int n = ranks_launchers(found), kills = test_all() ? 20 : 0;
    static const char recipe[] =
        RANKS_DIGITS "model.norm=batch train.epochs=400 qat.start_step=100 "
                     "train.checkpoint.every_steps=7 "
                     "'convert={rounder: gptq, calibration: {samples: 30}}'";
    if (n == 0 || kills == 0) return;
    test_folder(alone);
    test_folder(folder);
    ranks_write_script(folder);
    ranks_train(NULL, 1, alone, recipe);
    int done = 1;
    for (int i = 0; i < kills; i++) {
        const int ranks = i % 2 ? 4 : 2;
        const launcher *l = found[i % n];
        done = test_shell(
            &said, "cd %s && timeout -k 5 20 %s -n %d ./rank.sh %d KILL 0.%02d train %s%s 2>&1",
            folder, l->command, ranks, i % ranks, i * 37 % 40,
            i == 0 ? RANKS_RECIPES : "run --resume cluster.timeout=4", i == 0 ? recipe : "");
        free(said);
        ck_assert_int_eq(test_shell(&said,
                                    "cd %s && for f in run/checkpoints/*; do " RANKS_PROGRAM
                                    " check $f || "
                                    "exit 1; done 2>&1",
                                    folder),
                         0);
        free(said);
    }
    ck_assert_int_ne(done, 0); /* there was something left to kill */
    ck_assert_int_eq(ranks_run(found[0], 2, folder, "train run --resume", NULL), 0);
    snprintf(a, sizeof a, "%s/run", alone);
    snprintf(b, sizeof b, "%s/run", folder);
    job_same_files(a, b, "model.safetensors");
    job_same_files(a, b, "float.safetensors");
}
END_TEST

/* All ranks are killed at once, while they share memory: it has no name that could stay. */
START_TEST(nothing_is_left_of_the_memory_of_killed_ranks)
{
    const launcher *found[LAUNCHERS];
    char folder[TEST_PATH], script[TEST_PATH], *said;
    if (ranks_launchers(found) == 0) return;
    test_folder(folder);
    test_join(script, folder, "kill.sh");
    test_write_text(script,
                    "echo $$ >pid$OMPI_COMM_WORLD_RANK$PMI_RANK\n"
                    "if [ $OMPI_COMM_WORLD_RANK$PMI_RANK = 0 ]; then {\n"
                    "    until ls run/checkpoints/step-* >ls; do sleep 0.02; done\n"
                    "    grep -h detent-ranks /proc/$(cat pid0)/maps /proc/$(cat pid1)/maps\n"
                    "    kill -KILL $(cat pid0 pid1)\n"
                    "} & fi >maps 2>/dev/null\n"
                    "exec " RANKS_PROGRAM " \"$@\"\n");
    const int status = test_shell(
        &said, "cd %s && timeout -k 5 60 %s -n 2 sh kill.sh train " RANKS_RECIPES LONG " 2>&1",
        folder, found[0]->command);
    ck_assert_msg(status != 0 && status != 124, "status %d: %s", status, said);
    ck_assert_msg(strstr(said, "2 ranks, which read each other's memory") != NULL, "%s", said);
    free(said);
    ck_assert_int_eq(test_shell(&said, "grep -c '/memfd:detent-ranks (deleted)' %s/maps", folder),
                     0);
    ck_assert_int_eq(atoi(said), 2);
    free(said);
    ck_assert_int_ne(test_shell(NULL, "ls /dev/shm /tmp | grep detent-ranks"), 0);
    /* Launchers may end before the last rank does. */
    ck_assert_int_eq(
        test_shell(NULL,
                   "inode=$(awk '{ print $5; exit }' %s/maps); n=0; test -n \"$inode\" && "
                   "while grep -qs \" $inode */memfd:\" /proc/[0-9]*/maps; do "
                   "    sleep 0.1; n=$((n + 1)); test $n -lt 100 || exit 1; done",
                   folder),
        0);
}
END_TEST

/* ---- faults of one rank ---------------------------------------------------------------------- */

/* A checkpoint every two updates; at the end all that ranks share. */
#define SHORT                                                                                      \
    RANKS_DIGITS "train.checkpoint.every_steps=2 data.validation=0.2 train.eval_batch_size=5 "     \
                 "run.report=true "                                                                \
                 "'convert={rounder: gptq, calibration: {samples: 30, batch_size: 5}}'"

/* The rank whose calls of a kind fail from one on, and how the run must end: with `status` on all
 * ranks, unless the library of MPI fails by itself. */
static const struct {
    const char *kind;
    int rank, error, status;
    bool quick;
} faults[] = {
    { "write", 0, ENOSPC, 1, true },   { "fsync", 0, EIO, 1, false },
    { "rename", 0, ENOSPC, 1, false }, { "mkdir", 0, ENOSPC, 0, false },
    { "memory", 0, ENOMEM, 0, false }, { "memory", 1, ENOMEM, 0, false },
    { "memory", 3, ENOMEM, 0, false }, { "read", 1, EIO, 0, false },
    { "open", 2, EMFILE, 0, false },   { "mmap", 1, ENOMEM, 0, false },
};

#define FAULTS ((int)(sizeof faults / sizeof faults[0]))

/* Writes fault.sh: the calls of `kind` fail on one rank from number `at` on; 0: they are counted,
 * in the file "calls". */
static void write_fault(const char *folder, int i, long at)
{
    char path[TEST_PATH], text[1024], how[200] = "";
    if (at > 0) {
        snprintf(how, sizeof how, "export FAULT_KIND=%s FAULT_AT=%ld FAULT_ERROR=%d FAULT_LASTS=1",
                 faults[i].kind, at, faults[i].error);
    }
    snprintf(text, sizeof text,
             "#!/bin/sh\nif [ \"$OMPI_COMM_WORLD_RANK$PMI_RANK\" = %d ]; then\n"
             "    export LD_PRELOAD=%s FAULT_COUNTS=calls\n    %s\nfi\nexec " RANKS_PROGRAM
             " \"$@\"\n",
             faults[i].rank, fault_library(), how);
    test_join(path, folder, "fault.sh");
    test_write_text(path, text);
    ck_assert(test_shell(NULL, "chmod +x %s", path) == 0);
}

/* Trains under the fault. */
static int train_with(const launcher *l, const char *folder, int i, char **said)
{
    return test_shell(said,
                      "cd %s && timeout -k 5 60 %s -n %d ./fault.sh train " RANKS_RECIPES SHORT
                      " cluster.timeout=10 2>&1",
                      folder, l->command, faults[i].rank > 1 ? 4 : 2);
}

static void go_on(const launcher *l, const char *alone, const char *folder, const char *what)
{
    char *said = NULL;
    int status =
        test_shell(&said,
                   "cd %s && for f in run/checkpoints/step-*; do test ! -e $f || " RANKS_PROGRAM
                   " check $f || exit 1; done 2>&1",
                   folder);
    ck_assert_msg(status == 0, "%s: %s", what, said);
    free(said);
    status = test_shell(&said,
                        "cd %s && if test -e run; then %s -n 2 " RANKS_PROGRAM
                        " train run --resume cluster.timeout=100; else %s -n 2 " RANKS_PROGRAM
                        " train " RANKS_RECIPES SHORT "; fi 2>&1",
                        folder, l->command, l->command);
    ck_assert_msg(status == 0, "%s: status %d: %s", what, status, said);
    free(said);
    char a[TEST_PATH], b[TEST_PATH];
    test_join(a, alone, "run");
    test_join(b, folder, "run");
    job_same_files(a, b, "model.safetensors");
}

static long calls_of(const launcher *l, int i)
{
    char folder[TEST_PATH], *said = NULL;
    test_folder(folder);
    write_fault(folder, i, 0);
    const int status = train_with(l, folder, i, &said);
    ck_assert_msg(status == 0, "status %d: %s", status, said);
    free(said);
    ck_assert(test_shell(&said, "cd %s && sed -n 's/^%s //p' calls", folder, faults[i].kind) == 0);
    const long n = atol(said);
    free(said);
    return n;
}

START_TEST(a_fault_of_one_rank_ends_all_and_does_no_harm)
{
    const launcher *found[LAUNCHERS];
    char alone[TEST_PATH], folder[TEST_PATH], what[80], *said;
    if (!fault_shim() || ranks_launchers(found) == 0) return;
    if (!faults[_i].quick && !test_all()) return;
    const launcher *l = found[0];
    const long calls = calls_of(l, _i);
    const int trials = test_all() ? 6 : 1;
    ck_assert_int_gt(calls, 0);
    test_folder(alone);
    ranks_train(NULL, 1, alone, SHORT);
    for (int k = 0; k < trials; k++) {
        const long at = 1 + calls * (2 * k + 1) / (2 * trials);
        test_folder(folder);
        write_fault(folder, _i, at);
        const int status = train_with(l, folder, _i, &said);
        snprintf(what, sizeof what, "%s %ld of rank %d", faults[_i].kind, at, faults[_i].rank);
        if (faults[_i].status != 0) {
            ck_assert_msg(status == faults[_i].status, "%s: status %d: %s", what, status, said);
            ck_assert_msg(strstr(said, strerror(faults[_i].error)) != NULL, "%s: %s", what, said);
        }
        ck_assert_msg(status != 124 && status != 137, "%s: it hung: %s", what, said);
        free(said);
        go_on(l, alone, folder, what);
    }
}
END_TEST

/* ---- ranks that are out of step, or end by themselves ---------------------------------------- */

/* A script that sets `environment` on rank 1 and runs detent. */
static void write_rank_1(const char *folder, const char *environment)
{
    char path[TEST_PATH], text[1024];
    snprintf(text, sizeof text,
             "#!/bin/sh\nif [ \"$OMPI_COMM_WORLD_RANK$PMI_RANK\" = 1 ]; then\n    export %s\nfi\n"
             "exec " RANKS_PROGRAM " \"$@\"\n",
             environment);
    test_join(path, folder, "fault.sh");
    test_write_text(path, text);
    ck_assert(test_shell(NULL, "chmod +x %s", path) == 0);
}

START_TEST(a_message_of_another_length_names_its_rank)
{
    const launcher *found[LAUNCHERS];
    char folder[TEST_PATH], environment[512], *said;
    const int n = fault_shim() ? ranks_launchers(found) : 0;
    ranks_choose_way(1); /* test_intranode.c: by memory */
    for (int i = 0; i < n; i++) {
        test_folder(folder);
        snprintf(environment, sizeof environment, "LD_PRELOAD=%s MESSAGE_AT=12", fault_messages());
        write_rank_1(folder, environment);
        const int status = test_shell(
            &said,
            "cd %s && timeout -k 5 60 %s -n 2 ./fault.sh train " RANKS_RECIPES RANKS_DIGITS " 2>&1",
            folder, found[i]->command);
        /* The launcher may kill the other rank, and then gives a status of its own. */
        ck_assert_msg(status != 0 && status != 124 && status != 137, "status %d: %s", status, said);
        ck_assert_msg(strstr(said, "are expected: ranks are out of step, of ") != NULL &&
                          strstr(said, " from rank 1") != NULL,
                      "%s", said);
        free(said);
    }
}
END_TEST

/* A launcher that does not end the other ranks: they end because the failed rank announces its end
 * or, if the library of MPI itself failed, by timeout. One allocation fails at a time. */
START_TEST(a_rank_that_ends_by_itself_says_so_to_the_others)
{
    const launcher *found[LAUNCHERS];
    char folder[TEST_PATH], environment[512], *said;
    const int n = ranks_launchers(found);
    int named = 0;
    const launcher *mpich = n > 0 && strstr(found[n - 1]->program, "mpich") ? found[n - 1] : NULL;
    if (mpich == NULL || !fault_shim() || !test_all()) return;
    for (int at = 9400; at < 10200; at += 50) {
        test_folder(folder);
        snprintf(environment, sizeof environment,
                 "LD_PRELOAD=%s FAULT_KIND=memory FAULT_AT=%d FAULT_ERROR=12", fault_library(), at);
        write_rank_1(folder, environment);
        const int status = test_shell(
            &said,
            "cd %s && timeout -k 5 60 %s -n 2 -disable-auto-cleanup ./fault.sh train " RANKS_RECIPES
                RANKS_DIGITS "cluster.timeout=20 2>&1",
            folder, mpich->command);
        ck_assert_msg(status != 124 && status != 137, "allocation %d: it hung: %s", at, said);
        named += strstr(said, "rank 1 has ended: ") != NULL;
        free(said);
    }
    ck_assert_int_gt(named, 0);
}
END_TEST

Suite *test_cluster_faults_suite(void)
{
    Suite *s = suite_create("cluster_faults");
    TCase *t = tcase_create("ranks");
    tcase_add_checked_fixture(t, NULL, ranks_choose_no_way);
    tcase_set_timeout(t, 1800);
    tcase_add_test(t, one_rank_that_is_asked_to_stop_ends_all);
    tcase_add_test(t, a_rank_that_hangs_is_named);
    tcase_add_test(t, nothing_is_left_of_the_memory_of_killed_ranks);
    tcase_add_test(t, killed_ranks_do_no_harm);
    tcase_add_test(t, a_message_of_another_length_names_its_rank);
    tcase_add_test(t, a_rank_that_ends_by_itself_says_so_to_the_others);
    tcase_add_loop_test(t, a_fault_of_one_rank_ends_all_and_does_no_harm, 0, FAULTS);
    suite_add_tcase(s, t);
    return s;
}

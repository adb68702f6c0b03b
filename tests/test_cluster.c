/* Runs of several ranks: the same bytes on 1, 2 and 4 ranks, what must agree, stopping, resuming.
 * The program runs under the launchers of the MPIs that detent was built with; without one the
 * tests are skipped. */
#include "run_jobs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* A launcher, the module that it needs, and how it starts several ranks on one processor. */
typedef struct launcher {
    const char *module, *program, *command;
} launcher;

#ifdef TEST_SANITIZED /* MPI leaves memory behind */
#define QUIETLY "env ASAN_OPTIONS=detect_leaks=0 "
#else
#define QUIETLY ""
#endif

static const launcher launchers[] = {
    { "detent-openmpi.so", "mpirun.openmpi",
      QUIETLY "mpirun.openmpi --oversubscribe --allow-run-as-root --mca btl self,vader" },
    { "detent-mpich.so", "mpirun.mpich", QUIETLY "mpirun.mpich" },
};

#define LAUNCHERS ((int)(sizeof launchers / sizeof launchers[0]))

/* What all cases share, and their recipes, of a few updates. */
#define COMMON                                                                                     \
    "run.dir=run run.threads=1 run.report=false train.log.layers_every_steps=0 "                   \
    "cluster.check_steps=2 cluster.timeout=100 "
#define DIGITS                                                                                     \
    "digits-mlp.yaml " COMMON "model.sizes=[784,24,10] data.train_count=90 data.test_count=20 "    \
    "train.epochs=2 train.batch_size=30 qat.start_step=3 train.schedule.warmup_steps=1 "           \
    "train.shards=4 "
#define IMAGES                                                                                     \
    "digits-cnn.yaml " COMMON "data.train_count=60 data.test_count=20 train.epochs=2 "             \
    "train.batch_size=20 qat.start_step=3 train.schedule.warmup_steps=1 train.shards=4 "
#define ADDER                                                                                      \
    "adder.yaml " COMMON "train.steps=5 model.layers=1 model.width=16 model.heads=2 "              \
    "train.batch_size=10 data.train_count=200 data.test_count=20 train.schedule.warmup_steps=1 "   \
    "qat.start_step=3 train.shards=4 "
#define STATIC(observer)                                                                           \
    "'qat={preset: int8-static-int8-weight, start_step: 3, activation: {observer: " observer "}}'" \
    " "

static const struct {
    const char *name, *recipe;
    bool quick; /* also without DETENT_TESTS=all */
} cases[] = {
    { "mlp", DIGITS "model.norm=batch model.dropout=0.2", true },
    { "learned",
      DIGITS "'qat={preset: int4-int4, start_step: 3}' 'data.augment={shift: 1, mixup: "
             "0.4, cutmix: 1}'",
      true },
    { "cnn", IMAGES STATIC("moving_average"), true },
    { "experts",
      ADDER "'model={family: llama, vocab: 12, context: 11, layers: 1, heads: 2, width: 16, "
            "hidden: 16, moe: {experts: 4, top_k: 2}}'",
      true },
    { "gpt", ADDER "'qat={preset: int4-int4, start_step: 3}' model.dropout=0.1", false },
    { "recompute", ADDER "train.recompute=true train.clip_grad_norm=0.3", false },
    { "teacher", ADDER "'train.distill={weight: 0.5}'", false },
    { "minmax", IMAGES STATIC("minmax"), false },
    { "percentile", IMAGES STATIC("percentile, percentile: 99, samples: 3000"), false },
    { "mse", IMAGES STATIC("mse"), false },
    { "device", DIGITS "'qat={preset: device-int4, start_step: 3, activation: {range: learned}}'",
      false },
    { "accumulate", DIGITS "train.accumulate=2 qat.start_step=0", false },
    { "lion", DIGITS "'train.optimizer={name: lion, lr: 3e-4}'", false },
    { "sgd", DIGITS "'train.optimizer={name: sgd, lr: 0.1, momentum: 0.9}'", false },
    { "adam", DIGITS "'train.optimizer={name: adam}'", false },
    { "lora", DIGITS "'adapters={rank: 3, alpha: 6}'", false },
    { "average", DIGITS "'train.average={name: ema}' model.norm=batch", false },
    { "integers", DIGITS "train.backward=int8-all", false },
    { "baseline",
      DIGITS "train.float_baseline=true data.validation=0.2 train.finish_with=best "
             "train.evaluate.every_steps=3",
      false },
    { "rounder", DIGITS "'convert={rounder: gptq, calibration: {samples: 40}}'", false },
    { "early",
      DIGITS "data.validation=0.2 train.evaluate.every_steps=1 train.early_stopping="
             "'{patience: 1, least_improvement: 5}'",
      false },
    { "shared",
      DIGITS "cluster.shard_optimizer=on model.norm=batch 'train.average={name: ema}' "
             "train.clip_grad_norm=0.2 'qat={preset: int4-int4, start_step: 3}'",
      true },
    { "shared dynamic",
      DIGITS "cluster.shard_optimizer=on data.validation=0.2 train.finish_with=best "
             "train.evaluate.every_steps=2 'train.average={name: ema}' train.accumulate=2",
      false },
    { "shared experts",
      ADDER "cluster.shard_optimizer=on train.checkpoint.grouped=experts "
            "'train.optimizer={name: lion, lr: 3e-4}' "
            "'model={family: llama, vocab: 12, context: 11, layers: 1, heads: 2, width: 32, "
            "hidden: 64, moe: {experts: 4, top_k: 2}}'",
      true },
    { "shared cnn", IMAGES STATIC("moving_average") "cluster.shard_optimizer=on", false },
    { "shared sgd",
      DIGITS "'train.optimizer={name: sgd, lr: 0.1, momentum: 0.9}' cluster.shard_optimizer=on",
      false },
    { "shared groups",
      DIGITS
      "'train.optimizer={name: adam, weight_decay: 0.1, groups: [{match: \"*bias\", rate: "
      "2, weight_decay: 0}, {match: \"head.weight\", frozen: true}]}' cluster.shard_optimizer=on",
      false },
    { "shared lora", DIGITS "'adapters={rank: 3, alpha: 6}' cluster.shard_optimizer=on", false },
    { "shared buckets",
      DIGITS "cluster.bucket_mb=0.01 train.shards=6 cluster.shard_optimizer=on "
             "model.sizes=[784,60,10]",
      false },
    { "sync", DIGITS "model.norm=batch model.dropout=0.2 cluster.sync_norm=true", true },
    { "sync cnn", IMAGES STATIC("moving_average") "cluster.sync_norm=true", true },
    { "sync learned",
      IMAGES "'qat={preset: int4-int4, start_step: 2}' cluster.sync_norm=true train.batch_size=3",
      false },
    { "sync recompute",
      DIGITS "model.norm=batch train.recompute=true train.accumulate=2 cluster.sync_norm=true "
             "cluster.shard_optimizer=on train.nonfinite=skip",
      false },
    { "sync teacher",
      DIGITS "model.norm=batch 'train.distill={weight: 0.5}' cluster.sync_norm=true "
             "'data.augment={mixup: 0.4}'",
      false },
    { "buckets", DIGITS "cluster.bucket_mb=0.01 train.shards=6", false },
};

#define CASES ((int)(sizeof cases / sizeof cases[0]))
#define PROGRAM DETENT_BINARY_DIR "/detent"
#define RECIPES DETENT_SOURCE_DIR "/configs/"

static bool is_there(const launcher *l)
{
    char path[TEST_PATH];
    test_join(path, DETENT_BINARY_DIR, l->module);
    return test_file_exists(path) && test_shell(NULL, "command -v %s >/dev/null", l->program) == 0;
}

/* The launchers that are there; none: the test is skipped. */
static int find_launchers(const launcher *found[LAUNCHERS])
{
    int n = 0;
    for (int i = 0; i < LAUNCHERS; i++) {
        if (is_there(&launchers[i])) found[n++] = &launchers[i];
    }
    if (n == 0) test_skip("runs of several ranks: there is no MPI that detent was built with");
    return n;
}

/* Runs `words` of detent in the folder, on `ranks` ranks; *said what it wrote. */
static int run(const launcher *l, int ranks, const char *folder, const char *words, char **said)
{
    char start[256] = "";
    if (l != NULL) snprintf(start, sizeof start, "%s -n %d", l->command, ranks);
    return test_shell(said, "cd %s && %s " PROGRAM " %s 2>&1", folder, start, words);
}

static void train(const launcher *l, int ranks, const char *folder, const char *recipe)
{
    char words[2048], *said = NULL;
    snprintf(words, sizeof words, "train " RECIPES "%s", recipe);
    const int status = run(l, ranks, folder, words, &said);
    ck_assert_msg(status == 0, "%s on %d ranks: status %d: %s", recipe, ranks, status, said);
    free(said);
}

/* The same bytes of all that two runs keep: their newest checkpoint and their models. */
static void compare(const char *a, const char *b, const char *what)
{
    char *said = NULL;
    const int status =
        test_shell(&said,
                   "cd %s/run && for f in checkpoints/*.safetensors *.safetensors; do "
                   "cmp $f %s/run/$f || exit 1; done; ls *.safetensors | wc -l",
                   a, b);
    ck_assert_msg(status == 0, "%s: %s", what, said);
    ck_assert_msg(atoi(said) >= 1, "%s: no file to compare", what);
    free(said);
}

START_TEST(any_number_of_ranks_gives_the_same_bytes)
{
    const launcher *found[LAUNCHERS];
    const int n = find_launchers(found);
    if (n == 0 || (!cases[_i].quick && !test_all())) return;
    const bool six = strstr(cases[_i].recipe, "shards=6") != NULL;
    const int most = six ? 6 : 4;
    char alone[TEST_PATH], folder[TEST_PATH];
    test_folder(alone);
    train(NULL, 1, alone, cases[_i].recipe);
    for (int i = 0; i < n; i++) {
        for (int ranks = 2; ranks <= most; ranks++) {
            const bool quick = i == _i % n && ranks == (_i % 2 ? 2 : most);
            if (most % ranks != 0 || (!quick && !test_all())) continue;
            test_folder(folder);
            train(found[i], ranks, folder, cases[_i].recipe);
            compare(alone, folder, cases[_i].name);
        }
    }
}
END_TEST

START_TEST(it_goes_on_with_another_number_of_ranks)
{
    const launcher *found[LAUNCHERS];
    char alone[TEST_PATH], folder[TEST_PATH], a[TEST_PATH + 64], b[TEST_PATH + 64];
    const int n = find_launchers(found);
    if (n == 0) return;
    const launcher *l = found[0];
    static const char recipe[] = DIGITS "train.schedule.total_steps=9 qat.start_step=2 "
                                        "model.norm=batch model.dropout=0.1 ";
    test_folder(alone);
    test_folder(folder);
    snprintf(a, sizeof a, "%strain.epochs=3", recipe);
    snprintf(b, sizeof b, "%strain.epochs=1", recipe);
    train(NULL, 1, alone, a);
    train(l, 4, folder, b);
    ck_assert_int_eq(run(l, 2, folder, "train run --resume train.epochs=2", NULL), 0);
    ck_assert_int_eq(run(NULL, 1, folder, "train run --resume train.epochs=3", NULL), 0);
    snprintf(a, sizeof a, "%s/run", alone);
    snprintf(b, sizeof b, "%s/run", folder);
    job_same_files(a, b, "model.safetensors");
}
END_TEST

/* ---- batch norms over all shards ------------------------------------------------------------- */

/* The first losses of a run whose batches have 1 or 4 shards. */
static void read_losses(const char *keys, double loss[2])
{
    char folder[TEST_PATH], recipe[1024], *said;
    test_folder(folder);
    snprintf(recipe, sizeof recipe, DIGITS "~qat model.norm=batch train.log.every_steps=1 %s",
             keys);
    train(NULL, 1, folder, recipe);
    ck_assert(test_shell(&said, "sed -n 's/.*\"loss\": \\([^,]*\\),.*/\\1/p' %s/run/metrics.jsonl",
                         folder) == 0);
    ck_assert_int_eq(sscanf(said, "%lf %lf", &loss[0], &loss[1]), 2);
    free(said);
}

START_TEST(synchronized_norms_are_those_of_the_whole_batch)
{
    double whole[2], own[2], all[2];
    read_losses("train.shards=1", whole);
    read_losses("train.shards=4", own);
    read_losses("train.shards=4 cluster.sync_norm=true", all);
    for (int i = 0; i < 2; i++) {
        ck_assert_msg(fabs(all[i] - whole[i]) <= 1e-4 * whole[i], "step %d: %g, of one batch %g",
                      i + 1, all[i], whole[i]);
        ck_assert_msg(fabs(own[i] - whole[i]) > 1e-3 * whole[i], "step %d: %g, of one batch %g",
                      i + 1, own[i], whole[i]);
    }
}
END_TEST

/* ---- what must agree ------------------------------------------------------------------------- */

/* Two ranks that differ by what stands before and behind the program's name. */
static void refuse(const launcher *l, const char *const before[2], const char *const behind[2],
                   const char *words)
{
    char folder[TEST_PATH], *said = NULL;
    test_folder(folder);
    const int status =
        test_shell(&said,
                   "cd %s && mkdir a b && head -c 3000 " DETENT_SOURCE_DIR "/README.md >a/text && "
                   "sed s/detent/extent/ a/text >b/text && cp a/text text && "
                   "%s -n 1 %s " PROGRAM " train %s : -n 1 %s " PROGRAM " train %s 2>&1",
                   folder, l->command, before[0], behind[0], before[1], behind[1]);
    ck_assert_msg(status == 1, "status %d: %s", status, said);
    ck_assert_msg(strstr(said, words) != NULL, "%s: not in: %s", words, said);
    ck_assert_msg(test_shell(NULL, "test -e %s/run", folder) != 0, "a folder was made");
    free(said);
}

#define TEXT                                                                                       \
    "shakespeare-char-gpt.yaml " COMMON "data.dir=. data.train=[text] data.tokenizer=bytes "       \
    "model.vocab=256 train.steps=4 train.schedule.warmup_steps=1 train.float_baseline=false ~qat "

START_TEST(ranks_that_differ_are_refused_by_name)
{
    const launcher *found[LAUNCHERS];
    const int n = find_launchers(found);
    const char *const none[2] = { "", "" }, *const sets[2] = { "", "env DETENT_CPU=plain" };
    const char *const same[2] = { RECIPES DIGITS, RECIPES DIGITS };
    const char *const seeds[2] = { RECIPES DIGITS "run.seed=1", RECIPES DIGITS "run.seed=2" };
    const char *const text[2] = { RECIPES TEXT, RECIPES TEXT };
    const char *const folders[2] = { "env -C a", "env -C b" };
    for (int i = 0; i < n && i < (test_all() ? n : 1); i++) {
        refuse(found[i], none, seeds, "rank 1 has another recipe than rank 0");
        refuse(found[i], sets, same, "rank 1 has another instruction set than rank 0");
        refuse(found[i], folders, text, "rank 1 has other data than rank 0");
    }
}
END_TEST

/* ---- stopping and killing -------------------------------------------------------------------- */

/* A script that runs detent and, on one rank, sends it a signal when a file is there. */
static void write_script(const char *folder)
{
    char path[TEST_PATH];
    test_join(path, folder, "rank.sh");
    test_write_text(path,
                    "#!/bin/sh\n"
                    "# rank.sh RANK SIGNAL SECONDS WORD...\n"
                    "rank=$1; signal=$2; seconds=$3; shift 3\n" PROGRAM " \"$@\" &\n"
                    "pid=$!\n"
                    "if [ \"$OMPI_COMM_WORLD_RANK$PMI_RANK\" = $rank ]; then\n"
                    "    while ! ls run/checkpoints/step-* >/dev/null 2>&1; do sleep 0.02; done\n"
                    "    sleep $seconds; echo $pid >pid; kill -$signal $pid\n"
                    "fi\n"
                    "wait $pid\n");
    ck_assert(test_shell(NULL, "chmod +x %s", path) == 0);
}

#define LONG DIGITS "train.epochs=4000 train.checkpoint.every_steps=5 "

START_TEST(one_rank_that_is_asked_to_stop_ends_all)
{
    const launcher *found[LAUNCHERS];
    char folder[TEST_PATH], *said;
    const int n = find_launchers(found);
    for (int i = 0; i < n && i < (test_all() ? n : 1); i++) {
        test_folder(folder);
        write_script(folder);
        const int status =
            test_shell(&said, "cd %s && %s -n 2 ./rank.sh 1 TERM 0 train " RECIPES LONG " 2>&1",
                       folder, found[i]->command);
        ck_assert_msg(status == 130, "status %d: %s", status, said);
        ck_assert_msg(strstr(said, "a checkpoint was saved in run") != NULL, "said: %s", said);
        free(said);
        ck_assert_int_eq(test_shell(NULL,
                                    "cd %s && for f in run/checkpoints/*; do " PROGRAM
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
    const int n = find_launchers(found);
    for (int i = 0; i < n && test_all(); i++) {
        test_folder(folder);
        write_script(folder);
        const int status = test_shell(&said,
                                      "cd %s && %s -n 2 ./rank.sh 1 STOP 0 train " RECIPES LONG
                                      "cluster.timeout=5 2>&1; "
                                      "s=$?; kill -KILL $(cat pid) 2>/dev/null; exit $s",
                                      folder, found[i]->command);
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
    const int n = find_launchers(found), kills = test_all() ? 20 : 0;
    static const char recipe[] = DIGITS "model.norm=batch train.epochs=400 qat.start_step=100 "
                                        "train.checkpoint.every_steps=7";
    if (n == 0 || kills == 0) return;
    test_folder(alone);
    test_folder(folder);
    write_script(folder);
    train(NULL, 1, alone, recipe);
    int done = 1;
    for (int i = 0; i < kills; i++) {
        const int ranks = i % 2 ? 4 : 2;
        const launcher *l = found[i % n];
        done = test_shell(
            &said, "cd %s && timeout -k 5 20 %s -n %d ./rank.sh %d KILL 0.%02d train %s%s 2>&1",
            folder, l->command, ranks, i % ranks, i * 37 % 40,
            i == 0 ? RECIPES : "run --resume cluster.timeout=4", i == 0 ? recipe : "");
        free(said);
        ck_assert_int_eq(test_shell(&said,
                                    "cd %s && for f in run/checkpoints/*; do " PROGRAM
                                    " check $f || "
                                    "exit 1; done 2>&1",
                                    folder),
                         0);
        free(said);
    }
    ck_assert_int_ne(done, 0); /* there was something left to kill */
    ck_assert_int_eq(run(found[0], 2, folder, "train run --resume", NULL), 0);
    snprintf(a, sizeof a, "%s/run", alone);
    snprintf(b, sizeof b, "%s/run", folder);
    job_same_files(a, b, "model.safetensors");
    job_same_files(a, b, "float.safetensors");
}
END_TEST

/* ---- alone ----------------------------------------------------------------------------------- */

START_TEST(shards_that_ranks_do_not_divide_are_refused)
{
    const launcher *found[LAUNCHERS];
    char folder[TEST_PATH], *said;
    if (find_launchers(found) == 0) return;
    test_folder(folder);
    const int status = run(found[0], 2, folder, "train " RECIPES DIGITS "train.shards=3", &said);
    ck_assert_msg(status == 2 && strstr(said, "'train.shards' is 3, which 2 ranks do not divide"),
                  "status %d: %s", status, said);
    free(said);
}
END_TEST

Suite *test_cluster_suite(void)
{
    Suite *s = suite_create("cluster");
    TCase *t = tcase_create("ranks");
    tcase_set_timeout(t, 1800);
    tcase_add_loop_test(t, any_number_of_ranks_gives_the_same_bytes, 0, CASES);
    tcase_add_test(t, synchronized_norms_are_those_of_the_whole_batch);
    tcase_add_test(t, it_goes_on_with_another_number_of_ranks);
    tcase_add_test(t, ranks_that_differ_are_refused_by_name);
    tcase_add_test(t, one_rank_that_is_asked_to_stop_ends_all);
    tcase_add_test(t, a_rank_that_hangs_is_named);
    tcase_add_test(t, killed_ranks_do_no_harm);
    tcase_add_test(t, shards_that_ranks_do_not_divide_are_refused);
    suite_add_tcase(s, t);
    return s;
}

/* cluster.experts: spread. test_cluster.c tests that runs have the same bytes on any number of
 * ranks; this suite compares with experts that are not spread, and tests frozen experts, resuming,
 * memory, refusals, and a rank that is killed. */
#include "ranks.h"
#include "run_jobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIXTURE                                                                                    \
    "adder.yaml " RANKS_COMMON                                                                     \
    "~train.steps train.epochs=2 train.batch_size=10 data.train_count=30 "                         \
    "data.test_count=20 train.schedule.warmup_steps=1 train.schedule.total_steps=9 "               \
    "'model={family: llama, vocab: 12, context: 11, layers: 2, heads: 2, width: 32, hidden: 128, " \
    "moe: {experts: 8, top_k: 2}}' 'qat={preset: int8-dynamic-int4-weight, start_step: 2}' "

/* Of a rank's line in the log, the numbers behind "weights", "gradient" and "optimizer". */
static void read_memory(const char *said, int rank, double mb[3])
{
    static const char *const name[] = { "weights ", "gradient ", "optimizer " };
    char words[32];
    snprintf(words, sizeof words, "rank %d: at most", rank);
    const char *at = strstr(said, words);
    for (int i = 0; i < 3; i++) {
        const char *found = at == NULL ? NULL : strstr(at, name[i]);
        ck_assert_msg(found != NULL, "no %sof rank %d: %s", name[i], rank, said);
        mb[i] = strtod(found + strlen(name[i]), NULL);
    }
}

static char *train(const launcher *l, int ranks, const char *folder, const char *keys)
{
    char words[2048], *said = NULL;
    snprintf(words, sizeof words, "train " RANKS_RECIPES MIXTURE "%s", keys);
    const int status = ranks_run(l, ranks, folder, words, &said);
    ck_assert_msg(status == 0, "%s on %d ranks: status %d: %s", keys, ranks, status, said);
    return said;
}

/* With one shard a rank, a rank has a quarter of the experts' weights, gradients and moments, which
 * are nearly all of the model. */
START_TEST(a_rank_has_its_share_of_the_memory)
{
    static const char large[] =
        "train.shards=4 'model={family: llama, vocab: 12, context: 11, layers: 1, heads: 2, width: "
        "64, hidden: 512, moe: {experts: 8, top_k: 2}}' train.epochs=1 cluster.experts=";
    const launcher *found[LAUNCHERS];
    const int n = ranks_launchers(found);
    char a[TEST_PATH], b[TEST_PATH], keys[512];
    double all[3], own[3];
    if (n == 0) return;
    test_folder(a);
    test_folder(b);
    snprintf(keys, sizeof keys, "%severywhere", large);
    char *said = train(found[0], 4, a, keys);
    read_memory(said, 0, all);
    free(said);
    snprintf(keys, sizeof keys, "%sspread", large);
    said = train(found[n - 1], 4, b, keys);
    for (int rank = 0; rank < 4; rank++) {
        read_memory(said, rank, own);
        for (int i = 0; i < 3; i++) {
            const double most = i == 1 ? 0.5 : 0.3;
            ck_assert_msg(own[i] <= most * all[i], "rank %d, part %d: %g MB of %g: %s", rank, i,
                          own[i], all[i], said);
        }
    }
    free(said);
    strcat(a, "/run");
    strcat(b, "/run");
    job_same_files(a, b, "model.safetensors");
    job_same_files(a, b, "float.safetensors");
}
END_TEST

/* No gradient of an expert is summed then, but rows are still sent in backward, and gradients of
 * other parameters must not be sent in between. In the last batch one rank has no row. */
START_TEST(experts_may_be_frozen)
{
    static const char *const keys[] = {
        "data.train_count=33 train.shards=4 'adapters={rank: 2}' cluster.experts=spread",
        "data.train_count=33 train.shards=4 'train.optimizer={groups: [{match: \"*moe.w_*\", "
        "frozen: true}]}' cluster.experts=spread",
    };
    const launcher *found[LAUNCHERS];
    const int n = ranks_launchers(found);
    char alone[TEST_PATH], folder[TEST_PATH];
    if (n == 0) return;
    test_folder(alone);
    test_folder(folder);
    free(train(NULL, 1, alone, keys[_i]));
    free(train(found[_i % n], 4, folder, keys[_i]));
    strcat(alone, "/run");
    strcat(folder, "/run");
    job_same_files(alone, folder, "model.safetensors");
}
END_TEST

static void go_on(const launcher *l, int ranks, const char *folder, const char *keys)
{
    char words[512], *said = NULL;
    snprintf(words, sizeof words, "train run --resume %s", keys);
    const int status = ranks_run(l, ranks, folder, words, &said);
    ck_assert_msg(status == 0, "%s on %d ranks: status %d: %s", keys, ranks, status, said);
    free(said);
}

START_TEST(it_goes_on_with_another_number_of_ranks)
{
    const launcher *found[LAUNCHERS];
    const int n = ranks_launchers(found);
    char alone[TEST_PATH], folder[TEST_PATH];
    if (n == 0) return;
    test_folder(alone);
    test_folder(folder);
    static const char same[] = "train.shards=4 'train.average={name: ema}' ";
    char keys[256];
    snprintf(keys, sizeof keys, "%strain.epochs=3", same);
    free(train(NULL, 1, alone, keys));
    snprintf(keys, sizeof keys, "%strain.epochs=1 cluster.experts=spread", same);
    free(train(found[0], 4, folder, keys));
    go_on(found[n - 1], 2, folder, "train.epochs=2 cluster.shard_optimizer=on");
    go_on(NULL, 1, folder, "train.epochs=3 cluster.experts=everywhere");
    strcat(alone, "/run");
    strcat(folder, "/run");
    job_same_files(alone, folder, "model.safetensors");
}
END_TEST

/* The others wait for the killed rank's experts. */
START_TEST(killed_ranks_do_no_harm)
{
    const launcher *found[LAUNCHERS];
    const int n = ranks_launchers(found);
    const int kills = (int)test_count((test_draws){ .usual = 10, .sanitized = 1, .quick = 1 });
    char alone[TEST_PATH], folder[TEST_PATH], keys[200], *said;
    if (n == 0) return;
    snprintf(keys, sizeof keys,
             "train.shards=4 train.checkpoint.every_steps=3 train.epochs=%d "
             "train.schedule.total_steps=120 cluster.experts=spread",
             (int)test_count((test_draws){ .usual = 40, .sanitized = 4, .quick = 8 }));
    test_folder(alone);
    test_folder(folder);
    ranks_write_script(folder);
    free(train(NULL, 1, alone, keys));
    for (int i = 0; i < kills; i++) {
        const int ranks = i % 2 ? 4 : 2;
        test_shell(
            &said, "cd %s && timeout -k 5 20 %s -n %d ./rank.sh %d KILL 0.%02d train %s%s 2>&1",
            folder, found[i % n]->command, ranks, i % ranks, i * 37 % 40,
            i == 0 ? RANKS_RECIPES MIXTURE : "run --resume cluster.timeout=4", i == 0 ? keys : "");
        free(said);
        const int good =
            test_shell(&said,
                       "cd %s && for f in run/checkpoints/step*; do test ! -e $f || " RANKS_PROGRAM
                       " check $f || exit 1; done 2>&1",
                       folder);
        ck_assert_msg(good == 0, "kill %d: %s", i, said);
        free(said);
    }
    go_on(found[0], 4, folder, "");
    strcat(alone, "/run");
    strcat(folder, "/run");
    job_same_files(alone, folder, "model.safetensors");
}
END_TEST

static const struct {
    const char *keys, *words;
    int ranks;
} wrong[] = {
    { "train.shards=4 cluster.sync_norm=true", "does not go with 'cluster.sync_norm'", 1 },
    { "train.shards=4 'model={family: llama, vocab: 12, context: 11, layers: 1, heads: 2, width: "
      "16, hidden: 16}'",
      "requires a model with mixtures of experts", 1 },
    { "train.shards=4 'model={family: llama, vocab: 12, context: 11, layers: 1, heads: 2, width: "
      "16, hidden: 16, moe: {experts: 3, top_k: 1}}'",
      "gives each of 4 ranks an expert, but a mixture has 3", 4 },
};

START_TEST(what_does_not_go_with_it_is_refused)
{
    const launcher *found[LAUNCHERS];
    char folder[TEST_PATH], words[1024], *said;
    if (ranks_launchers(found) == 0) return;
    test_folder(folder);
    snprintf(words, sizeof words, "train " RANKS_RECIPES MIXTURE "cluster.experts=spread %s",
             wrong[_i].keys);
    const int ranks = wrong[_i].ranks;
    const int status = ranks_run(ranks > 1 ? found[0] : NULL, ranks, folder, words, &said);
    ck_assert_msg(status == 2 && strstr(said, wrong[_i].words) != NULL, "%s: status %d: %s",
                  wrong[_i].keys, status, said);
    ck_assert_msg(test_shell(NULL, "test -e %s/run", folder) != 0, "a folder was made");
    free(said);
}
END_TEST

Suite *test_cluster_spread_suite(void)
{
    Suite *s = suite_create("cluster_spread");
    TCase *t = tcase_create("ranks");
    tcase_set_timeout(t, 1800);
    tcase_add_test(t, a_rank_has_its_share_of_the_memory);
    tcase_add_loop_test(t, experts_may_be_frozen, 0, 2);
    tcase_add_test(t, it_goes_on_with_another_number_of_ranks);
    tcase_add_test(t, killed_ranks_do_no_harm);
    tcase_add_loop_test(t, what_does_not_go_with_it_is_refused, 0,
                        (int)(sizeof wrong / sizeof wrong[0]));
    suite_add_tcase(s, t);
    return s;
}

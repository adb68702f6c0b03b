/* Interrupted runs resume bit for bit; checkpoints that no run has written are refused. */
#include "run_jobs.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- interruption --------------------------------------------------------------------------- */

typedef struct interruption {
    int64_t after[8];     /* updates, in a run for each */
    const char *extra[2]; /* overrides of all runs */
} interruption;

static const interruption interruptions[] = {
    { { 1, 5, 7, 8, 9, 13, 19 }, { NULL } },
    { { 3, 13 }, { "~qat.start_step", "qat.start_share=0.3" } },
    { { 6 }, { "train.optimizer={name: sgd, lr: 0.1, momentum: 0.9}" } },
    { { 11 }, { "model.norm=batch" } },
    { { 3, 20, 31 }, /* in the baseline, between the two, behind it */
      { "train.float_baseline=true" } },
    { { 8 }, { "qat={preset: int8-static-int8-weight, start_step: 8}" } },
    { { 11 }, { "qat={preset: int8-static-int8-weight, start_step: 2, forward: simulated}" } },
    { { 12 },
      { "qat={start_step: 8, freeze_observer_step: 15, activation: {range: static, observer: "
        "minmax, scheme: symmetric}}" } },
    { { 15 },
      { "qat={start_step: 8, freeze_observer_step: 15, activation: {range: static, observer: "
        "percentile, percentile: 99, samples: 3000}}" } },
    { { 17 },
      { "qat={start_step: 8, freeze_observer_step: 5, calibrate_batches: 2, activation: {range: "
        "static, observer: mse}}" } },
    { { 14 }, { "qat={start_step: 8, refresh_steps: 3, weight: {range: static}}" } },
    { { 8 }, { "qat={preset: int4-int4, start_step: 8}" } },
    { { 11 }, { "qat={preset: device-int8, start_step: 8, freeze_observer_step: 15}" } },
    { { 14 }, { "qat={preset: device-int4, start_step: 8, activation: {range: learned}}" } },
    { { 13 }, { "train.average={name: ema}", "qat={preset: device-int8, start_step: 4}" } },
    { { 7 }, { "adapters={rank: 3, alpha: 6}" } },
    { { 12 }, { "train.backward=int8-all" } },
    { { 8 }, { "train.backward=int8" } },
    { { 11 },
      { "qat={start_step: 4, rate: 3, damping: 1e-3, estimator: dsq, estimator_end: 6, "
        "layer_steps: 3, "
        "norm_batches: 2, weight: {bits: 2}}",
        "model.norm=batch" } },
    { { 9, 15 },
      { "qat={preset: int4-weight, start_step: 4, freeze: 0.05, freeze_from: 0.2, freeze_momentum: "
        "0.3, weight: {bits: 2, range: static}}",
        "model.norm=batch" } },
    { { 5, 12 }, { "train.float=bf16" } },
    { { 7 }, { "train.float=bf16-tiles" } },
    { { 11 }, { "adapters={rank: 2, match: [layers.0, head], train_rest: true}" } },
    { { 9 }, { "qat={preset: int4-int4, start_step: 8, activation: {save: exact}}" } },
    { { 13 },
      { "qat={preset: int4-int4, start_step: 2, weight: {bits: 2, granularity: tensor}, "
        "activation: {bits: 2, unsigned: true}}" } },
    { { 9 }, { "train.schedule={name: multistep, milestones: [4, 11], gamma: 0.5}" } },
    { { 7 }, { "train.schedule={name: cosine_restarts, every: 3, growth: 2, warmup_steps: 2}" } },
    { { 13 }, { "train.schedule={name: polynomial, power: 2, floor: 0.1}" } },
    { { 5 }, { "train.schedule={name: one_cycle}" } },
    { { 17 }, { "train.schedule={name: warmup_stable_decay, decay_steps: 6}" } },
    { { 7 }, { "train.optimizer={name: lion, lr: 3e-4, beta2: 0.99, weight_decay: 0.1}" } },
    { { 5 }, { "train.average={name: ema, decay: 0.9}" } },
    { { 13 }, { "train.average={name: ema, decay: 0.9}", "model.norm=batch" } },
    { { 17 }, { "train.average={name: epochs, last: 2}", "model.norm=batch" } },
    { { 12 },
      { "train.average={name: ema}",
        "qat={preset: int8-static-int8-weight, start_step: 8, freeze_observer_step: 15}" } },
    { { 14 },
      { "train.average={name: epochs, last: 3}", "qat={preset: int4-int4, start_step: 8}" } },
    { { 20 }, { "train.average={name: ema}", "train.float_baseline=true" } },
    { { 7 }, { "train.spikes={policy: skip, deviations: 1, window: 3}", "model.norm=batch" } },
    { { 13 }, { "train.spikes={policy: lower, deviations: 1, window: 3}" } },
    { { 7 }, { "data.augment={shift: 1, mixup: 0.4, cutmix: 1}", "train.label_smoothing=0.1" } },
    { { 13 }, { "data.augment={mixup: 1}", "train.class_weights=balanced" } },
    { { 6 }, { "train.distill={temperature: 2}" } },
    { { 9, 14 }, { "train.distill={features: [layers.0, head], feature_weight: 0.3}" } },
    { { 14 }, /* all at once */
      { "train={epochs: 4, batch_size: 32, average: {name: ema}, spikes: {policy: skip, window: 3, "
        "deviations: 1}, distill: {temperature: 2}, schedule: {name: one_cycle}, checkpoint: "
        "{every_minutes: 1e-12}, log: {every_steps: 3}, optimizer: {name: lion, lr: 1e-3, groups: "
        "[{match: norms.*, frozen: true}, {match: head.*, rate: 0.5}]}}",
        "model.norm=batch" } },
    { { 13 }, { "train.distill={weight: 0.3}", "data.augment={cutmix: 1}" } },
    { { 9 },
      { "train.optimizer.groups=[{match: '*.bias', weight_decay: 0}, {match: layers.0.*, frozen: "
        "true}, {match: head.*, rate: 0.5}]" } },
};

/* One of so many interruptions is tried; equality of bits is also tested without a sanitizer. */
static const test_draws steps = { .usual = 1, .sanitized = 5 };

static void resume_after(const job *straight, const interruption *c, int64_t after)
{
    char name[32], folder[TEST_PATH];
    test_folder(folder);
    snprintf(name, sizeof name, "%lld", (long long)after);
    job first = { .dir = job_path(folder, name),
                  .overrides = { c->extra[0], c->extra[1] },
                  .stop_at = after,
                  .wanted = DT_ERR_INTERRUPTED,
                  .words = "a checkpoint was saved" };
    job second = { .dir = first.dir,
                   .overrides = { "run.threads=1", c->extra[0], c->extra[1] },
                   .resume = true };
    job_run(&first);
    ck_assert_int_eq(first.updates, after);
    ck_assert(!test_file_exists(job_path(first.dir, "summary.json")));
    job_run(&second);
    ck_assert_int_eq(first.updates + second.updates, straight->updates);
    job_same_runs(straight->dir, first.dir);
    for (int i = 0; i < DT_CONTENDERS; i++) {
        ck_assert_double_eq(straight->summary.result[i].metrics.loss,
                            second.summary.result[i].metrics.loss);
    }
}

START_TEST(an_interrupted_run_resumes_bit_for_bit)
{
    const int64_t step = test_count(steps);
    const interruption *c = &interruptions[_i];
    if (_i % step != 0) return;
    char folder[TEST_PATH];
    test_folder(folder);
    job straight = { .dir = job_path(folder, "straight"),
                     .overrides = { c->extra[0], c->extra[1] } };
    job_run(&straight);
    for (int k = 0; k < DT__COUNT_OF(c->after) && c->after[k] > 0; k++) {
        if (k % step == 0) resume_after(&straight, c, c->after[k]);
    }
}
END_TEST

/* A killed run has a checkpoint from some steps earlier, and later lines in metrics.jsonl. */
START_TEST(a_damaged_checkpoint_falls_back)
{
    char folder[TEST_PATH];
    size_t n;
    test_folder(folder);
    job straight = { .dir = job_path(folder, "straight") },
        first = { .dir = job_path(folder, "resumed") };
    first.stop_at = 15;
    first.wanted = DT_ERR_INTERRUPTED;
    job_run(&straight);
    job_run(&first);
    const char *newest = job_path(first.dir, "checkpoints/step-0000000015.safetensors");
    char *bytes = test_read_file(newest, &n);
    bytes[n - 9] ^= 1;
    test_write_file(newest, bytes, n);
    free(bytes);
    job second = { .dir = first.dir, .resume = true };
    job_run(&second);
    ck_assert_int_eq(second.updates, 8); /* from 12 */
    job_same_runs(straight.dir, first.dir);
    job third = { .dir = first.dir, .resume = true }; /* resuming a finished run gives the same */
    job_run(&third);
    ck_assert_int_eq(third.updates, 0);
    job_same_runs(straight.dir, first.dir);
}
END_TEST

START_TEST(without_a_checkpoint_it_begins_anew)
{
    char folder[TEST_PATH];
    test_folder(folder);
    job straight = { .dir = job_path(folder, "straight") },
        first = { .dir = job_path(folder, "resumed") };
    first.stop_at = 2;
    first.wanted = DT_ERR_INTERRUPTED;
    job_run(&straight);
    job_run(&first);
    ck_assert_int_eq(test_shell(NULL, "rm -r %s/checkpoints", first.dir), 0);
    job second = { .dir = first.dir, .resume = true };
    job_run(&second);
    ck_assert_int_eq(second.updates, 20);
    job_same_runs(straight.dir, first.dir);
}
END_TEST

START_TEST(more_epochs_may_follow)
{
    char folder[TEST_PATH];
    test_folder(folder);
    job first = { .dir = job_path(folder, "run") };
    job second = { .dir = first.dir, .overrides = { "train.epochs=5" }, .resume = true };
    job third = { .dir = first.dir,
                  .overrides = { "train.epochs=2" },
                  .resume = true,
                  .wanted = DT_ERR_CONFIG,
                  .words = "has done 25 already" };
    job_run(&first);
    job_run(&second);
    ck_assert_int_eq(second.updates, 5);
    char *recipe = test_read_file(job_path(first.dir, "recipe.yaml"), NULL);
    ck_assert_ptr_nonnull(strstr(recipe, "  epochs: 5 "));
    free(recipe);
    job_run(&third);
    recipe =
        test_read_file(job_path(first.dir, "recipe.yaml"), NULL); /* refused: nothing was written */
    ck_assert_ptr_nonnull(strstr(recipe, "  epochs: 5 "));
    free(recipe);
}
END_TEST

/* A share of the updates: QAT begins where it began before, whatever `train.epochs` are now. */
START_TEST(a_share_in_float_stays_what_it_was)
{
    static const int64_t after[] = { 5, 12 };
    static const char *const epochs[] = { "train.epochs=8", "train.epochs=3" };
    char folder[TEST_PATH];
    test_folder(folder);
    for (int i = 0; i < 4; i++) {
        char name[8];
        snprintf(name, sizeof name, "%d", i);
        job first = { .dir = job_path(folder, name),
                      .overrides = { "~qat.start_step", "qat.start_share=0.4" },
                      .stop_at = after[i / 2],
                      .wanted = DT_ERR_INTERRUPTED };
        job second = first;
        second.overrides[2] = epochs[i % 2];
        second.resume = true;
        second.stop_at = 0;
        second.wanted = DT_OK;
        job_run(&first);
        job_run(&second);
        ck_assert_int_eq(second.summary.steps, i % 2 == 0 ? 40 : 15);
        ck_assert_int_eq(second.summary.start_step, 8);
    }
}
END_TEST

/* ---- checkpoints that no run has written ---------------------------------------------------- */

typedef struct forgery {
    const char *name; /* of a tensor */
    int64_t at;       /* which of its words changes */
    uint64_t to;
    const char *words;
} forgery;

#define NOT_A_NUMBER 0x7ff8000000000000
#define STEP_OF_HEAD "detent.optim.step.head.weight"

/* Counters: stage step prepared lines since limited skipped baseline_steps. */
static const forgery forgeries[] = {
    { "detent.counts", 0, 0, "'stage'" },
    { "detent.counts", 0, 7, "'stage'" },
    { "detent.counts", 0, UINT64_MAX, "'stage'" },
    { "detent.counts", 0, INT64_MAX, "'stage'" },
    { "detent.counts", 1, UINT64_MAX, "'step'" },
    { "detent.counts", 1, 11, "'step'" },
    { "detent.counts", 1, INT64_MAX, "'step'" },
    { "detent.counts", 2, 0, "'prepared'" },
    { "detent.counts", 2, 2, "'prepared'" },
    { "detent.counts", 3, UINT64_MAX, "'lines'" },
    { "detent.counts", 4, 13, "'since'" },
    { "detent.counts", 5, 13, "'limited'" },
    { "detent.counts", 6, 13, "'skipped'" },
    { "detent.counts", 7, UINT64_MAX, "'baseline_steps'" },
    { "detent.counts", 7, 19, "the float baseline is over and had 19" },
    { "detent.counts", 23, 13, "'start'" },
    { "detent.values", 0, NOT_A_NUMBER, "'loss_sum'" },
    { "detent.values", 1, NOT_A_NUMBER, "'norm_sum'" },
    { "detent.data", 0, 0, "'step'" },
    { "detent.data", 0, UINT64_MAX, "epoch -1" },
    { "detent.data", 0, INT64_MAX, "of epoch 9223372036854775807" },
    { "detent.data", 1, 4, "'step'" },
    { "detent.data", 1, 99, "batch 99" },
    { STEP_OF_HEAD, 0, UINT64_MAX, "-1 updates of head.weight" },
    { STEP_OF_HEAD, 0, 13, "13 updates of head.weight, of 12" },
};

/* A copy with one word changed, its hash right. */
static void forge(dt_ctx *ctx, const char *path, const forgery *f)
{
    dt_file *file = NULL;
    dt_writer *w = NULL;
    const char *key, *value;
    uint64_t words[64];
    TEST_OK(ctx, dt_file_open(ctx, path, &file));
    TEST_OK(ctx, dt_writer_create(ctx, &w));
    for (int64_t i = 0; dt_file_meta_at(file, i, &key, &value); i++) {
        if (strcmp(key, "detent.version") == 0 || strcmp(key, "detent.xxh3") == 0) continue;
        TEST_OK(ctx, dt_writer_meta(w, key, value));
    }
    for (int64_t i = 0; i < dt_file_count(file); i++) {
        dt_file_entry e = *dt_file_at(file, i);
        if (strcmp(e.name, f->name) == 0) {
            ck_assert(e.bytes <= sizeof words && f->at < (int64_t)e.bytes / 8);
            memcpy(words, e.data, e.bytes);
            words[f->at] = f->to;
            e.data = words;
        }
        TEST_OK(ctx, dt_writer_add_bytes(w, &e));
    }
    TEST_OK(ctx, dt_writer_write(w, path));
    dt_writer_free(w);
    dt_file_close(file);
}

START_TEST(forged_checkpoints_are_refused)
{
    char folder[TEST_PATH];
    size_t bytes;
    test_folder(folder);
    job first = { .dir = job_path(folder, "run"), .stop_at = 12, .wanted = DT_ERR_INTERRUPTED };
    job_run(&first);
    const char *path = job_path(first.dir, "checkpoints/step-0000000012.safetensors");
    char *good = test_read_file(path, &bytes);
    char *before = test_read_file(job_path(first.dir, "metrics.jsonl"), NULL);
    for (int i = 0; i < DT__COUNT_OF(forgeries); i++) {
        const forgery *f = &forgeries[i];
        test_write_file(path, good, bytes);
        dt_ctx *ctx = sample_context(1);
        forge(ctx, path, f);
        dt_ctx_free(ctx);
        const bool of_recipe = strstr(f->words, "baseline is over") != NULL;
        job second = { .dir = first.dir,
                       .resume = true,
                       .words = f->words,
                       .wanted = of_recipe ? DT_ERR_CONFIG : DT_ERR_FORMAT };
        job_run(&second);
        char *after = test_read_file(job_path(first.dir, "metrics.jsonl"), NULL);
        ck_assert_str_eq(before, after);
        free(after);
    }
    free(good);
    free(before);
}
END_TEST

START_TEST(a_checkpoint_of_another_run_is_refused)
{
    char folder[TEST_PATH];
    test_folder(folder);
    job first = { .dir = job_path(folder, "one"), .stop_at = 9, .wanted = DT_ERR_INTERRUPTED };
    job other = { .dir = job_path(folder, "two"),
                  .stop_at = 12,
                  .wanted = DT_ERR_INTERRUPTED,
                  .overrides = { "run.seed=99" } };
    job_run(&first);
    job_run(&other);
    ck_assert_int_eq(test_shell(NULL,
                                "cp %s/checkpoints/step-0000000012.safetensors %s/checkpoints",
                                other.dir, first.dir),
                     0);
    job second = { .dir = first.dir,
                   .resume = true,
                   .wanted = DT_ERR_FORMAT,
                   .words = "a checkpoint of another run: 'run.seed' of its recipe differs" };
    job_run(&second);
}
END_TEST

Suite *test_run_resume_suite(void)
{
    Suite *suite = suite_create("run_resume");
    TCase *all = tcase_create("run_resume");
    tcase_set_timeout(all, 300);
    tcase_add_loop_test(all, an_interrupted_run_resumes_bit_for_bit, 0,
                        DT__COUNT_OF(interruptions));
    tcase_add_test(all, a_damaged_checkpoint_falls_back);
    tcase_add_test(all, without_a_checkpoint_it_begins_anew);
    tcase_add_test(all, more_epochs_may_follow);
    tcase_add_test(all, a_share_in_float_stays_what_it_was);
    tcase_add_test(all, forged_checkpoints_are_refused);
    tcase_add_test(all, a_checkpoint_of_another_run_is_refused);
    suite_add_tcase(suite, all);
    return suite;
}

/* Averages of weights, spikes of the loss, checkpoints by minutes. */
#include "run_jobs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- averages -------------------------------------------------------------------------------- */

/* An element of a tensor of a file, or NaN. */
static double element(dt_ctx *ctx, const char *path, const char *name, int64_t i)
{
    dt_file *file = NULL;
    dt_tensor *x;
    TEST_OK(ctx, dt_file_open(ctx, path, &file));
    TEST_OK(ctx, dt_file_load(file, name, DT_F32, &x));
    const double value = (double)((const float *)dt_data(x))[i];
    dt_tensor_free(x);
    dt_file_close(file);
    return value;
}

static double weight_at(dt_ctx *ctx, const job *j, int step)
{
    char name[64];
    snprintf(name, sizeof name, "checkpoints/step-%010d.safetensors", step);
    return element(ctx, job_path(j->dir, name), "head.weight", 7);
}

/* The averages of checkpoints' weights, computed here. */
START_TEST(averages_are_those_of_the_weights)
{
    char folder[TEST_PATH];
    test_folder(folder);
#define EACH "~qat", "train.checkpoint.every_steps=1", "train.checkpoint.keep=0"
    job ema = { .dir = job_path(folder, "ema"),
                .overrides = { EACH, "train.average={name: ema, decay: 0.5}" } };
    job ends = { .dir = job_path(folder, "ends"),
                 .overrides = { EACH, "train.average={name: epochs, last: 3}" } };
    job none = { .dir = job_path(folder, "none"), .overrides = { "~qat" } };
    job_run(&ema);
    job_run(&ends);
    job_run(&none);
    dt_ctx *ctx = sample_context(1);
    double mean = weight_at(ctx, &ema, 1);
    for (int n = 1; n < 20; n++) {
        const double early = (1.0 + n) / (10 + n), d = early < 0.5 ? early : 0.5;
        mean = d * mean + (1 - d) * weight_at(ctx, &ema, n + 1);
    }
    const char *name = "float.safetensors";
    TEST_NEAR(element(ctx, job_path(ema.dir, name), "head.weight", 7), mean, 1e-7, 1e-5);
    mean = (weight_at(ctx, &ends, 10) + weight_at(ctx, &ends, 15) + weight_at(ctx, &ends, 20)) / 3;
    TEST_NEAR(element(ctx, job_path(ends.dir, name), "head.weight", 7), mean, 1e-7, 1e-5);
    /* training itself is the same, its results are not */
    ck_assert_double_eq(weight_at(ctx, &ends, 20),
                        element(ctx, job_path(none.dir, name), "head.weight", 7));
    ck_assert_double_eq(ema.losses[19], none.losses[19]);
    ck_assert_double_ne(ema.summary.result[DT_RUN_FLOAT].metrics.loss,
                        none.summary.result[DT_RUN_FLOAT].metrics.loss);
    dt_ctx_free(ctx);
}
END_TEST

/* The converted model comes from the averages; evaluations on the way leave no trace. */
START_TEST(averages_are_evaluated_and_converted)
{
    char folder[TEST_PATH];
    test_folder(folder);
#define HELD "data.validation=0.2", "model.norm=batch"
    job plain = { .dir = job_path(folder, "plain"),
                  .overrides = { HELD, "train.evaluate.every_steps=2" } };
    job mean = { .dir = job_path(folder, "mean"),
                 .overrides = { HELD, "train.evaluate.every_steps=2",
                                "train.average={name: ema}" } };
    job ends = { .dir = job_path(folder, "best"),
                 .overrides = { HELD, "train.evaluate.every_steps=2", "train.finish_with=best",
                                "train.average={name: epochs, last: 1}" } };
    job_run(&plain);
    job_run(&mean);
    job_run(&ends);
    ck_assert_int_eq(plain.updates, mean.updates);
    for (int i = 0; i < plain.updates; i++) ck_assert_double_eq(plain.losses[i], mean.losses[i]);
    ck_assert(mean.summary.same_bits_as_qat && ends.summary.same_bits_as_qat);
    ck_assert_double_ne(mean.summary.result[DT_RUN_CONVERTED].metrics.loss,
                        plain.summary.result[DT_RUN_CONVERTED].metrics.loss);
    ck_assert(isfinite(ends.summary.result[DT_RUN_CONVERTED].metrics.loss));
}
END_TEST

/* ---- spikes, minutes ------------------------------------------------------------------------- */

/* Which losses are spikes, by the definition in train.h. */
static int spikes_in(const double *loss, int n, double deviations, int window)
{
    double mean = 0, variance = 0;
    int spikes = 0;
    for (int i = 0; i < n; i++) {
        const double s = sqrt(variance), least = fabs(mean) / 100;
        const double most = mean + deviations * (s > least ? s : least);
        const bool spike = i >= window && loss[i] > most;
        const double x = spike ? most : loss[i], w = i < window ? 1.0 / (i + 1) : 1.0 / window;
        variance = (1 - w) * variance + (1 - w) * w * (x - mean) * (x - mean);
        mean = (1 - w) * mean + w * x;
        spikes += spike;
    }
    return spikes;
}

START_TEST(spikes_are_found_and_answered)
{
    char folder[TEST_PATH];
    test_folder(folder);
#define SPIKED(more) "train.spikes={deviations: 1, window: 3, policy: " more "}"
    job lower = { .dir = job_path(folder, "lower"),
                  .overrides = { "~qat", SPIKED("lower, factor: 0.5") } };
    job skip = { .dir = job_path(folder, "skip"), .overrides = { "~qat", SPIKED("skip") } };
    job stop = { .dir = job_path(folder, "stop"),
                 .overrides = { "~qat", SPIKED("stop") },
                 .wanted = DT_ERR_NUMERIC,
                 .words = "is a spike, and 'train.spikes.policy' is stop" };
    job_run(&lower);
    job_run(&skip);
    job_run(&stop);
    const int n = spikes_in(lower.losses, 20, 1, 3);
    ck_assert_int_gt(n, 0);
    char words[64], *metrics = job_metrics(lower.dir);
    snprintf(words, sizeof words, "\"spikes\": %d, \"step\": 20", n);
    ck_assert_msg(strstr(metrics, words) != NULL, "%s: %s", words, metrics);
    free(metrics);
    const dt_schedule s = { .name = DT_COSINE, .warmup_steps = 3, .total_steps = 20 };
    TEST_NEAR(lower.rates[19], dt_schedule_rate(&s, 3e-3, 19) * pow(0.5, n), 0, 1e-12);
    ck_assert_int_eq(skip.summary.skipped, spikes_in(skip.losses, 20, 1, 3));
    ck_assert_int_eq(lower.summary.skipped, 0);
    ck_assert_int_eq(spikes_in(stop.losses, (int)stop.updates, 1, 3), 0);
    job further = { .dir = stop.dir, .overrides = { "~qat", SPIKED("ignore") }, .resume = true };
    further.overrides[1] = "train.spikes={policy: ignore}";
    job_run(&further);
    ck_assert_int_gt(further.updates, 0);
}
END_TEST

/* Every update takes longer than this share of a minute. */
START_TEST(checkpoints_by_minutes)
{
    char folder[TEST_PATH], checkpoints[TEST_PATH];
    test_folder(folder);
    job j = { .dir = job_path(folder, "run"),
              .overrides = { "~qat", "train.checkpoint={every_minutes: 1e-12, keep: 0}" } };
    job_run(&j);
    test_join(checkpoints, j.dir, "checkpoints");
    ck_assert_int_eq(sample_entries(checkpoints), 20);
}
END_TEST

Suite *test_run_averages_suite(void)
{
    Suite *suite = suite_create("run_averages");
    TCase *all = tcase_create("run_averages");
    tcase_set_timeout(all, 300);
    tcase_add_test(all, averages_are_those_of_the_weights);
    tcase_add_test(all, averages_are_evaluated_and_converted);
    tcase_add_test(all, spikes_are_found_and_answered);
    tcase_add_test(all, checkpoints_by_minutes);
    suite_add_tcase(suite, all);
    return suite;
}

/* Runs that evaluate on the way: the best evaluation, early stopping, plateaus. */
#include "run_jobs.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- the best evaluation -------------------------------------------------------------------- */

/* 120 images: 4 updates an epoch, 16 in all. Nothing is better by 100, so that the first evaluation
 * of a phase stays the best. */
#define BEST_KEYS                                                                                  \
    "data.validation=0.2", "train.schedule={name: constant}", "train.evaluate.every_steps=2",      \
        "train.finish_with=best", "train.checkpoint.keep=1"
#define NEVER_BETTER "train.early_stopping={patience: 99, least_improvement: 100}"
#define ONCE_IS_ENOUGH "train.early_stopping={patience: 2, least_improvement: 100}"

static const char best[] = "checkpoints/best.safetensors";

/* Better evaluations before the weights were quantized do not count: the best one is that of step
 * 10. */
START_TEST(a_run_ends_with_the_best_of_its_last_phase)
{
    char folder[TEST_PATH];
    test_folder(folder);
    job j = { .dir = job_path(folder, "run"), .overrides = { BEST_KEYS, NEVER_BETTER } };
    job ten = { .dir = job_path(folder, "ten"),
                .overrides = { BEST_KEYS, "train.finish_with=last", "train.steps=10" } };
    job_run(&j);
    job_run(&ten);
    ck_assert_int_eq(j.summary.steps, 16);
    ck_assert_int_eq(j.summary.best_step, 10);
    ck_assert(j.summary.ends_with_best && !j.summary.stopped_early && j.summary.same_bits_as_qat);
    ck_assert(!ten.summary.ends_with_best);
    job_same_files(j.dir, ten.dir, "model.safetensors");
    ck_assert_double_eq(j.summary.result[DT_RUN_QAT].metrics.loss,
                        ten.summary.result[DT_RUN_QAT].metrics.loss);
    ck_assert(test_file_exists(job_path(j.dir, best)));
    ck_assert_int_eq(sample_entries(job_path(j.dir, "checkpoints")), 2); /* it, and the newest */
    ck_assert_int_eq(job_metric_words(j.dir, "validation_loss"), 8);
    json_t *root = json_load_file(job_path(j.dir, "summary.json"), 0, NULL);
    ck_assert_double_eq(job_number(root, "training", "best_step"), 10);
    json_decref(root);
}
END_TEST

START_TEST(without_qat_the_float_phase_is_the_last)
{
    char folder[TEST_PATH];
    test_folder(folder);
    job j = { .dir = job_path(folder, "run"), .overrides = { BEST_KEYS, NEVER_BETTER, "~qat" } };
    job two = { .dir = job_path(folder, "two"),
                .overrides = { BEST_KEYS, "train.finish_with=last", "train.steps=2", "~qat" } };
    job both = { .dir = job_path(folder, "both"),
                 .overrides = { BEST_KEYS, NEVER_BETTER, "train.float_baseline=true" } };
    job_run(&j);
    job_run(&two);
    job_run(&both);
    ck_assert_int_eq(j.summary.best_step, 2);
    job_same_files(j.dir, two.dir, "float.safetensors");
    const double loss = two.summary.result[DT_RUN_FLOAT].metrics.loss;
    ck_assert_double_eq(j.summary.result[DT_RUN_FLOAT].metrics.loss, loss);
    ck_assert_double_eq(both.summary.result[DT_RUN_FLOAT].metrics.loss, loss);
    ck_assert_int_eq(both.summary.best_step, 10);
    ck_assert(test_file_exists(job_path(both.dir, "checkpoints/baseline/best.safetensors")));
}
END_TEST

START_TEST(training_ends_early)
{
    char folder[TEST_PATH];
    test_folder(folder);
    job j = { .dir = job_path(folder, "run"), .overrides = { BEST_KEYS, ONCE_IS_ENOUGH } };
    job again = { .dir = j.dir, .overrides = { BEST_KEYS, ONCE_IS_ENOUGH }, .resume = true };
    job_run(&j);
    ck_assert_int_eq(j.updates, 14); /* 10 was the best, 12 and 14 were not better */
    ck_assert_int_eq(j.summary.steps, 14);
    ck_assert_int_eq(j.summary.best_step, 10);
    ck_assert(j.summary.stopped_early && j.summary.ends_with_best);
    ck_assert_int_eq(job_metric_words(j.dir, "\"step\": 14"), 2);
    job_run(&again);
    ck_assert_int_eq(again.updates, 0);
    ck_assert(again.summary.stopped_early && again.summary.best_step == 10);
    ck_assert_double_eq(again.summary.result[DT_RUN_CONVERTED].metrics.loss,
                        j.summary.result[DT_RUN_CONVERTED].metrics.loss);
}
END_TEST

/* A run that is stopped after each of `stops` updates and resumed is `whole`, apart from `file`. */
static void resume_each(const job *whole, const int64_t *stops, int count, const char *file)
{
    char cut[TEST_PATH];
    snprintf(cut, sizeof cut, "%s-cut", whole->dir);
    for (int i = 0; i < count; i++) {
        job first = *whole, second = *whole;
        first.dir = second.dir = job_path(cut, (const char[]){ (char)('a' + i), '\0' });
        first.updates = second.updates = 0;
        first.stop_at = stops[i];
        first.wanted = DT_ERR_INTERRUPTED;
        second.resume = true;
        job_run(&first);
        job_run(&second);
        job_same_files(whole->dir, first.dir, "model.safetensors");
        if (file != NULL) job_same_checkpoints(whole->dir, first.dir, file);
        ck_assert_int_eq(second.summary.best_step, whole->summary.best_step);
        char *x = job_metrics(whole->dir), *y = job_metrics(first.dir);
        ck_assert_str_eq(x, y);
        free(x);
        free(y);
    }
}

START_TEST(the_best_survives_an_interruption)
{
    static const int64_t stops[] = { 1, 3, 9, 10, 11, 13 };
    char folder[TEST_PATH];
    test_folder(folder);
    job whole = { .dir = job_path(folder, "whole"), .overrides = { BEST_KEYS, ONCE_IS_ENOUGH } };
    job_run(&whole);
    ck_assert_int_eq(whole.summary.best_step, 10);
    resume_each(&whole, stops, DT__COUNT_OF(stops), best);
}
END_TEST

/* Evaluations that are never better reduce the rate every second time; its state goes on in the
 * resumed run, in float and on the grid. */
START_TEST(a_plateau_survives_an_interruption)
{
    static const char plateau[] = "train.schedule={name: plateau, gamma: 0.5, patience: 2, "
                                  "least_improvement: 100, cooldown: 1}";
    static const int64_t stops[] = { 3, 5, 8, 9, 13, 15 };
    char folder[TEST_PATH];
    test_folder(folder);
    job whole = { .dir = job_path(folder, "whole"),
                  .overrides = { plateau, "train.optimizer.lr=0.0078125", "data.validation=0.2",
                                 "train.evaluate.every_steps=1" } };
    job_run(&whole);
    resume_each(&whole, stops, DT__COUNT_OF(stops), NULL);
    ck_assert_int_gt(job_metric_words(whole.dir, "\"lr\": 0.0078125,"), 0);
    ck_assert_int_gt(job_metric_words(whole.dir, "\"lr\": 0.00390625,"), 0);
    ck_assert_int_gt(job_metric_words(whole.dir, "\"lr\": 0.001953125,"), 0);
}
END_TEST

/* best.safetensors may be of another step than the checkpoint's best evaluation, if the run was
 * killed after writing it. */
START_TEST(a_best_of_another_step_is_refused)
{
    char folder[TEST_PATH];
    test_folder(folder);
    job j = { .dir = job_path(folder, "run"), .overrides = { BEST_KEYS, NEVER_BETTER } };
    job_run(&j);
    ck_assert_int_eq(
        test_shell(NULL, "cd '%s/checkpoints' && cp step-*.safetensors best.safetensors", j.dir),
        0);
    job again = { .dir = j.dir,
                  .overrides = { BEST_KEYS, NEVER_BETTER },
                  .resume = true,
                  .wanted = DT_ERR_FORMAT,
                  .words = "of step 16, but the best evaluation of this run was at step 10" };
    job_run(&again);
}
END_TEST

/* The same shapes and the same step do not suffice. */
START_TEST(a_best_of_another_run_is_refused)
{
    char folder[TEST_PATH];
    test_folder(folder);
    job j = { .dir = job_path(folder, "run"), .overrides = { BEST_KEYS, NEVER_BETTER } };
    job other = { .dir = job_path(folder, "other"),
                  .overrides = { BEST_KEYS, NEVER_BETTER, "train.optimizer.lr=0.01" } };
    job_run(&j);
    job_run(&other);
    ck_assert_int_eq(test_shell(NULL, "cp '%s/%s' '%s/%s'", other.dir, best, j.dir, best), 0);
    job again = { .dir = j.dir,
                  .overrides = { BEST_KEYS, NEVER_BETTER },
                  .resume = true,
                  .wanted = DT_ERR_FORMAT,
                  .words = "best.safetensors: a checkpoint of another run" };
    job_run(&again);
}
END_TEST

Suite *test_run_best_suite(void)
{
    Suite *suite = suite_create("run_best");
    TCase *all = tcase_create("run_best");
    tcase_set_timeout(all, 300);
    tcase_add_test(all, a_run_ends_with_the_best_of_its_last_phase);
    tcase_add_test(all, without_qat_the_float_phase_is_the_last);
    tcase_add_test(all, training_ends_early);
    tcase_add_test(all, the_best_survives_an_interruption);
    tcase_add_test(all, a_plateau_survives_an_interruption);
    tcase_add_test(all, a_best_of_another_step_is_refused);
    tcase_add_test(all, a_best_of_another_run_is_refused);
    suite_add_tcase(suite, all);
    return suite;
}

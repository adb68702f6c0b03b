/* Runs of convolutional families, one for each kind of targets: their metrics, resuming bit for
 * bit, weights of uneven batches, and refused recipes. */
#include "sample.h"

#include <detent/io.h>
#include <detent/train.h>

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define END                                                                                        \
    "train: {epochs: 2, batch_size: 16, optimizer: {name: adamw, lr: 3e-3}, "                      \
    "checkpoint: {every_steps: 2}}\n"
#define UNET                                                                                       \
    "run: {dir: unset, seed: 3}\n"                                                                 \
    "model: {family: unet, image: [1, 28, 28], widths: [4, 6], norm: none, "

static const struct {
    const char *recipe, *metrics[4]; /* in the order of the summary */
} tasks[] = {
    [DT_TARGET_CLASS] = { "run: {dir: unset, seed: 3}\n"
                          "model:\n"
                          "  family: cnn\n"
                          "  image: [1, 28, 28]\n"
                          "  blocks:\n"
                          "    - {out: 4, stride: 2, norm: none}\n"
                          "    - {out: 6, norm: none, activation: silu, pool: max}\n"
                          "  head: average\n"
                          "  outputs: 10\n"
                          "data: {format: digits, train_count: 40, test_count: 20}\n" END,
                          { "accuracy", "top5", "macro_f1", "loss" } },
    [DT_TARGET_IMAGE] = { UNET "outputs: 1}\n"
                               "data: {format: digits, task: denoising, train_count: 40, "
                               "test_count: 20}\n" END,
                          { "psnr_mean_of_images", "psnr_of_mean_error", "mse" } },
    [DT_TARGET_MASK] = { UNET "outputs: 11}\n"
                              "data: {format: digits, task: segmentation, train_count: 40, "
                              "test_count: 20}\n" END,
                         { "dice", "pixel_accuracy", "loss" } },
};

#define TASKS ((int)(sizeof tasks / sizeof tasks[0]))

static const char folding[] = "run: {dir: unset, seed: 3}\n"
                              "model:\n"
                              "  family: cnn\n"
                              "  image: [1, 28, 28]\n"
                              "  blocks:\n"
                              "    - {out: 8, stride: 2, norm: batch}\n"
                              "    - {out: 8, norm: batch, pool: max}\n"
                              "  head: average\n"
                              "  outputs: 10\n"
                              "data: {format: digits, train_count: 40, test_count: 20}\n"
                              "qat: {start_step: 1, freeze_norm_step: 3}\n" END;

typedef struct job {
    const char *recipe; /* NULL: the task's */
    const char *dir, *overrides[4];
    bool resume;
    int64_t stop_at, updates; /* updates before it is asked to stop; 0: never */
    dt_status wanted;
    char message[512];
    dt_run_summary summary;
} job;

static bool stop(void *user)
{
    job *j = user;
    return j->stop_at > 0 && j->updates++ >= j->stop_at;
}

static void run(job *j, int task)
{
    char dir[TEST_PATH + 16];
    const char *overrides[8] = { dir };
    int n = 1;
    snprintf(dir, sizeof dir, "run.dir=%s", j->dir);
    for (int i = 0; i < 4 && j->overrides[i] != NULL; i++) overrides[n++] = j->overrides[i];
    const char *text = j->recipe != NULL ? j->recipe : tasks[task].recipe;
    const dt_recipe_source source = { .path = "task.yaml",
                                      .text = text,
                                      .bytes = strlen(text),
                                      .overrides = overrides,
                                      .n_overrides = n };
    const dt_run_control control = { .resume = j->resume, .stop = stop, .user = j };
    test_memory memory = { 0 };
    dt_ctx_options options = dt_ctx_defaults();
    options.threads = 2;
    options.allocator = test_allocator(&memory);
    dt_ctx *ctx;
    dt_recipe *recipe = NULL;
    ck_assert_int_eq(dt_ctx_create(&ctx, &options), DT_OK);
    dt_status s = dt_recipe_read(ctx, &source, &recipe);
    if (s == DT_OK) s = dt_run(ctx, recipe, &control, &j->summary);
    snprintf(j->message, sizeof j->message, "%s", dt_error(ctx));
    ck_assert_msg(s == j->wanted, "%s: %s", dt_status_name(s), j->message);
    dt_recipe_free(recipe);
    dt_ctx_free(ctx);
    ck_assert_int_eq(memory.live, 0);
}

static const char *in(char path[TEST_PATH], const char *folder, const char *name)
{
    test_join(path, folder, name);
    return path;
}

static double loss_of(const job *j) { return j->summary.result[DT_RUN_FLOAT].metrics.loss; }

/* ---- metrics -------------------------------------------------------------------------------- */

static int metrics_of(int task)
{
    int n = 0;
    while (n < 4 && tasks[task].metrics[n] != NULL) n++;
    return n;
}

START_TEST(a_task_has_its_metrics)
{
    char folder[TEST_PATH], dir[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    job j = { .dir = in(dir, folder, "run"), .overrides = { "data.validation=0.2" } };
    run(&j, _i);
    const dt_metrics *m = &j.summary.result[DT_RUN_FLOAT].metrics;
    ck_assert_int_eq(m->n, metrics_of(_i));
    json_t *root = json_load_file(in(path, dir, "summary.json"), 0, NULL);
    const json_t *row = json_object_get(root, "float");
    for (int i = 0; i < m->n; i++) {
        const char *name = tasks[_i].metrics[i];
        ck_assert_str_eq(m->metric[i]->name, name);
        ck_assert_double_eq(json_real_value(json_object_get(row, name)), m->value[i]);
    }
    json_decref(root);
    char *lines = test_read_file(in(path, dir, "metrics.jsonl"), NULL);
    for (int i = 0; i < m->n; i++) {
        snprintf(path, sizeof path, "\"validation_%s\": ", tasks[_i].metrics[i]);
        ck_assert_ptr_nonnull(strstr(lines, path));
    }
    free(lines);
}
END_TEST

/* The lines of metrics.jsonl with samples, of which there must be `wanted`, each with examples 0, 4
 * and 8 of the 12 of validation. */
static char *samples_in(const char *dir, int64_t wanted)
{
    char path[TEST_PATH];
    char *lines = test_read_file(in(path, dir, "metrics.jsonl"), NULL), *to = lines;
    int64_t found = 0;
    for (char *line = lines, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = 0;
        if (strstr(line, "\"samples\": ") == NULL) continue;
        json_t *root = json_loads(line, 0, NULL);
        const json_t *shown = json_object_get(json_object_get(root, "samples"), "shown");
        ck_assert_uint_eq(json_array_size(shown), 3);
        for (size_t i = 0; i < 3; i++) {
            const json_t *index = json_object_get(json_array_get(shown, i), "index");
            ck_assert_int_eq(json_integer_value(index), (json_int_t)(4 * i));
        }
        json_decref(root);
        found++;
        const size_t n = strlen(line);
        memmove(to, line, n);
        to += n;
    }
    *to = 0;
    ck_assert_int_eq(found, wanted);
    return lines;
}

START_TEST(an_interrupted_run_resumes_bit_for_bit)
{
    char folder[TEST_PATH], straight[TEST_PATH], cut[TEST_PATH], path[TEST_PATH];
    size_t n, m;
    test_folder(folder);
    job whole = { .dir = in(straight, folder, "straight") };
    job first = { .dir = in(cut, folder, "cut"), .stop_at = 3, .wanted = DT_ERR_INTERRUPTED };
    job second = { .dir = cut, .resume = true };
    run(&whole, _i);
    run(&first, _i);
    run(&second, _i);
    char *x = test_read_file(in(path, straight, "float.safetensors"), &n);
    char *y = test_read_file(in(path, cut, "float.safetensors"), &m);
    ck_assert(n == m && memcmp(x, y, n) == 0);
    ck_assert_double_eq(loss_of(&whole), loss_of(&second));
    free(x);
    free(y);
}
END_TEST

/* Samples of evaluations do not affect the model, continue when a run resumes, and are in order:
 * the same examples each time. */
START_TEST(samples_change_nothing_and_resume)
{
    char folder[TEST_PATH], straight[TEST_PATH], cut[TEST_PATH], none[TEST_PATH], path[TEST_PATH];
    size_t n, m;
    test_folder(folder);
#define SAMPLES                                                                                    \
    "data.validation=0.3", "train.evaluate={every_steps: 1, samples: 3}", "qat.start_step=2"
    job off = { .dir = in(none, folder, "off"),
                .overrides = { "data.validation=0.3", "train.evaluate.every_steps=1",
                               "qat.start_step=2" } };
    job on = { .dir = in(straight, folder, "on"), .overrides = { SAMPLES } };
    job first = { .dir = in(cut, folder, "cut"),
                  .overrides = { SAMPLES },
                  .stop_at = 3,
                  .wanted = DT_ERR_INTERRUPTED };
    job second = { .dir = cut, .overrides = { SAMPLES }, .resume = true };
    run(&off, _i);
    run(&on, _i);
    run(&first, _i);
    run(&second, _i);
    char *x = test_read_file(in(path, none, "model.safetensors"), &n);
    char *y = test_read_file(in(path, straight, "model.safetensors"), &m);
    ck_assert(n == m && memcmp(x, y, n) == 0);
    free(x);
    free(y);
    x = samples_in(straight, on.summary.steps);
    y = samples_in(cut, on.summary.steps);
    ck_assert_str_eq(x, y);
    free(x);
    free(y);
    x = test_read_file(in(path, straight, "report.html"), NULL);
    ck_assert_ptr_nonnull(strstr(x, "<section id=\"samples\">"));
    free(x);
}
END_TEST

/* No evaluation improves by 1000, so the first one stays the best. */
START_TEST(a_run_can_end_with_its_best_evaluation)
{
    char folder[TEST_PATH], kept[TEST_PATH], cut[TEST_PATH], path[TEST_PATH];
    size_t n, m;
    test_folder(folder);
    job best = { .dir = in(kept, folder, "best"),
                 .overrides = { "data.validation=0.2", "train.evaluate.every_steps=1",
                                "train.early_stopping={patience: 2, least_improvement: 1000}",
                                "train.finish_with=best" } };
    job one = { .dir = in(cut, folder, "one"),
                .overrides = { "data.validation=0.2", "train.steps=1" } };
    run(&best, _i);
    run(&one, _i);
    ck_assert(best.summary.best_step == 1 && best.summary.steps == 3);
    char *x = test_read_file(in(path, kept, "float.safetensors"), &n);
    char *y = test_read_file(in(path, cut, "float.safetensors"), &m);
    ck_assert(n == m && memcmp(x, y, n) == 0);
    ck_assert_double_eq(loss_of(&best), loss_of(&one));
    free(x);
    free(y);
}
END_TEST

/* Before, at and after the step at which statistics of folded norms are frozen. */
START_TEST(folded_norms_resume)
{
    char folder[TEST_PATH], straight[TEST_PATH], cut[TEST_PATH], path[TEST_PATH];
    size_t n, m;
    test_folder(folder);
    job whole = { .recipe = folding, .dir = in(straight, folder, "straight") };
    job first = { .recipe = folding,
                  .dir = in(cut, folder, "cut"),
                  .stop_at = 2 + _i,
                  .wanted = DT_ERR_INTERRUPTED };
    job second = { .recipe = folding, .dir = cut, .resume = true };
    run(&whole, 0);
    run(&first, 0);
    run(&second, 0);
    ck_assert(whole.summary.same_bits_as_qat && second.summary.same_bits_as_qat);
    ck_assert_int_eq(whole.summary.result[DT_RUN_PTQ].bytes,
                     whole.summary.result[DT_RUN_CONVERTED].bytes);
    char *x = test_read_file(in(path, straight, "model.safetensors"), &n);
    char *y = test_read_file(in(path, cut, "model.safetensors"), &m);
    ck_assert(n == m && memcmp(x, y, n) == 0);
    free(x);
    free(y);
}
END_TEST

/* 40 images in batches of 16: the last one is shorter. */
START_TEST(accumulated_halves_equal_the_whole_batch)
{
    char folder[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    job whole = { .dir = in(path, folder, "whole") };
    run(&whole, _i);
    job parts = { .dir = in(path, folder, "parts"),
                  .overrides = { "train.batch_size=4", "train.accumulate=4" } };
    run(&parts, _i);
    TEST_NEAR(loss_of(&parts), loss_of(&whole), 0, 1e-4);
}
END_TEST

/* A model file has the family and all its options. */
START_TEST(a_saved_model_gives_the_same_metrics)
{
    char folder[TEST_PATH], dir[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    job j = { .dir = in(dir, folder, "run") };
    run(&j, _i);
    dt_ctx *ctx = sample_context(2);
    dt_dataset *d;
    dt_module *m;
    dt_metrics metrics;
    TEST_OK(ctx, dt_model_load(ctx, in(path, dir, "float.safetensors"), &m, NULL));
    TEST_OK(ctx, dt_digits_create(ctx, 20, ~(uint64_t)0, (dt_target)_i, &d));
    if (_i == DT_TARGET_IMAGE) TEST_OK(ctx, dt_dataset_denoise(d, 0.25));
    TEST_OK(ctx, dt_evaluate(m, d, NULL, &metrics, NULL));
    ck_assert_double_eq(metrics.loss, loss_of(&j));
    dt_dataset_free(d);
    dt_module_free(m);
    dt_ctx_free(ctx);
}
END_TEST

/* Test i: a task and a preset; one of so many tasks for each preset. */
static const test_draws task_steps = { .usual = 1, .sanitized = TASKS };

START_TEST(the_converted_model_has_the_same_bits)
{
    static const char *const presets[] = { "int8-dynamic-int4-weight", "int8-static-int8-weight",
                                           "int4-int4" };
    char folder[TEST_PATH], dir[TEST_PATH], preset[64];
    if ((_i + _i / 3) % test_count(task_steps) != 0) return;
    test_folder(folder);
    snprintf(preset, sizeof preset, "qat.preset=%s", presets[_i % 3]);
    job j = { .dir = in(dir, folder, "run"), .overrides = { preset, "qat.start_step=2" } };
    run(&j, _i / 3);
    ck_assert(j.summary.same_bits_as_qat);
    const dt_run_result *r = j.summary.result;
    for (int i = 0; i < DT_CONTENDERS; i++) ck_assert(r[i].given && isfinite(r[i].metrics.loss));
    ck_assert_double_eq(r[DT_RUN_QAT].metrics.loss, r[DT_RUN_CONVERTED].metrics.loss);
    ck_assert_double_ne(r[DT_RUN_FLOAT].metrics.loss, r[DT_RUN_PTQ].metrics.loss);
}
END_TEST

/* ---- inputs that are refused ---------------------------------------------------------------- */

static const struct {
    int task;
    const char *overrides[4], *words;
} bad[] = {
    { DT_TARGET_CLASS,
      { "model.image=[1, 32, 32]" },
      "'model.image' is [1,32,32], but the images are [1,28,28]" },
    { DT_TARGET_CLASS, { "model.outputs=9" }, "'model.outputs' is 9, but the labels have 10" },
    { DT_TARGET_CLASS,
      { "data.task=denoising" },
      "the model gives 10 for an image, but the targets are images: it must give [1,28,28]" },
    { DT_TARGET_CLASS, { "model.blocks.0.kernel=40" }, "a window of 40 pixels does not fit" },
    { DT_TARGET_IMAGE,
      { "model.outputs=2" },
      "the model gives [2,28,28] for an image, but the targets are images: it must give "
      "[1,28,28]" },
    { DT_TARGET_IMAGE, { "train.label_smoothing=0.1" }, "is for labels" },
    { DT_TARGET_IMAGE, { "data.task=classification" }, "the targets are labels: it must give 10" },
    { DT_TARGET_MASK, { "train.evaluate.samples=2" }, "requires data to evaluate on" },
    { DT_TARGET_MASK, { "model.outputs=10" }, "is 10, but the masks have 11 classes, 0 to 10" },
    { DT_TARGET_MASK, { "model.widths=[4, 4, 4, 4]" }, "7 pixels are halved to 3 at level 3" },
};

START_TEST(recipes_that_do_not_fit_are_refused)
{
    char folder[TEST_PATH], dir[TEST_PATH];
    test_folder(folder);
    job j = { .dir = in(dir, folder, "run"), .wanted = DT_ERR_CONFIG };
    memcpy(j.overrides, bad[_i].overrides, sizeof j.overrides);
    run(&j, bad[_i].task);
    ck_assert_msg(strstr(j.message, bad[_i].words) != NULL, "%s", j.message);
    ck_assert(!test_file_exists(dir));
}
END_TEST

Suite *test_task_runs_suite(void)
{
    Suite *s = suite_create("task_runs");
    TCase *c = tcase_create("tasks");
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, a_task_has_its_metrics, 0, TASKS);
    tcase_add_loop_test(c, an_interrupted_run_resumes_bit_for_bit, 0, TASKS);
    tcase_add_loop_test(c, samples_change_nothing_and_resume, 0, TASKS);
    tcase_add_loop_test(c, a_run_can_end_with_its_best_evaluation, 0, TASKS);
    tcase_add_loop_test(c, folded_norms_resume, 0, 3);
    tcase_add_loop_test(c, accumulated_halves_equal_the_whole_batch, 0, TASKS);
    tcase_add_loop_test(c, a_saved_model_gives_the_same_metrics, 0, TASKS);
    tcase_add_loop_test(c, the_converted_model_has_the_same_bits, 0, 3 * TASKS);
    tcase_add_loop_test(c, recipes_that_do_not_fit_are_refused, 0,
                        (int)(sizeof bad / sizeof bad[0]));
    suite_add_tcase(s, c);
    return s;
}

/* Runs on arrays: regression, several labels, anomalies, class weights, balanced sampling. Their
 * metrics, resuming bit for bit, gradient accumulation, and refused recipes. */
#include "sample.h"

#include <detent/io.h>
#include <detent/experimental/train.h>

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define TABLE(outputs, task)                                                                       \
    "run: {dir: unset, seed: 3}\n"                                                                 \
    "model: {family: mlp, sizes: [12, 16, " outputs "]}\n"                                         \
    "data: {format: table, task: " task ", standardize: true, train_count: 200, test_count: 60}\n"
#define TRAIN                                                                                      \
    "train: {epochs: 2, batch_size: 16, optimizer: {name: adamw, lr: 3e-3}, "                      \
    "checkpoint: {every_steps: 5}"
#define LAYERS(outputs)                                                                            \
    "run: {dir: unset, seed: 3}\n"                                                                 \
    "model: {family: layers, input: [12], layers: [{linear: a, out: 16, activation: relu}, "       \
    "{linear: b, out: " outputs "}, "                                                              \
    "{affine: unit, shape: [" outputs "], trained: false, of_targets: true}]}\n"
#define QAT "}\nqat: {start_step: 8}\n"

static const struct {
    const char *recipe, *metrics[4]; /* in the order of the summary */
} runs[] = {
    { TABLE("2", "regression") TRAIN QAT, { "r2", "mae", "rmse", "mse" } },
    { TABLE("2", "regression") TRAIN ", loss: mae" QAT, { "r2", "mae", "rmse", "mse" } },
    { TABLE("2", "regression") TRAIN ", loss: huber, huber_delta: 0.5" QAT,
      { "r2", "mae", "rmse", "mse" } },
    { TABLE("3", "multi_label") TRAIN QAT, { "macro_f1", "average_precision", "loss" } },
    { TABLE("3", "multi_label") TRAIN ", class_weights: [1, 2, 0.5]" QAT,
      { "macro_f1", "average_precision", "loss" } },
    { TABLE("4", "classification") TRAIN ", class_weights: balanced" QAT,
      { "accuracy", "macro_f1", "loss" } },
    { TABLE("4", "classification") TRAIN ", sampler: balanced, class_weights: [1, 2, 3, 0]" QAT,
      { "accuracy", "macro_f1", "loss" } },
    { "run: {dir: unset, seed: 3}\n"
      "model: {family: mlp, sizes: [768, 8, 768]}\n"
      "data: {format: sensors, task: anomaly, standardize: true, train_count: 200, "
      "test_count: 60}\n" TRAIN QAT,
      { "auc", "mse" } },
    { "run: {dir: unset, seed: 3}\n"
      "model: {family: mlp, sizes: [70, 8, 12]}\n"
      "data: {format: sounds, features: {kind: mfcc, frame_ms: 200, step_ms: 133, bins: 20}, "
      "standardize: true, train_count: 200, test_count: 60}\n" TRAIN QAT,
      { "accuracy", "top5", "macro_f1", "loss" } },
    { TABLE("6", "regression") TRAIN ", loss: quantile" QAT,
      { "pinball", "coverage", "crossings", "loss" } },
    { TABLE("4", "classification") TRAIN ", loss: focal, class_weights: balanced" QAT,
      { "accuracy", "macro_f1", "loss" } },
    { LAYERS("2") "data: {format: table, task: regression, standardize: true, train_count: 200, "
                  "test_count: 60}\n" TRAIN QAT,
      { "r2", "mae", "rmse", "mse" } },
};

#define RUNS ((int)(sizeof runs / sizeof runs[0]))

typedef struct job {
    const char *recipe, *dir, *overrides[4];
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

static void run(job *j)
{
    char dir[TEST_PATH + 16];
    const char *overrides[8] = { dir };
    int n = 1;
    snprintf(dir, sizeof dir, "run.dir=%s", j->dir);
    for (int i = 0; i < 4 && j->overrides[i] != NULL; i++) overrides[n++] = j->overrides[i];
    const dt_recipe_source source = { .path = "array.yaml",
                                      .text = j->recipe,
                                      .bytes = strlen(j->recipe),
                                      .overrides = overrides,
                                      .n_overrides = n };
    const dt_run_control control = { .resume = j->resume, .stop = stop, .user = j };
    test_memory memory = { 0 };
    dt_ctx_options options = dt_ctx_defaults();
    options.threads = j->resume ? 1 : 2;
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

/* ---- every task ------------------------------------------------------------------------------ */

static void same_files(const char *a, const char *b, const char *name)
{
    char path[TEST_PATH];
    size_t n, m;
    char *one = test_read_file(in(path, a, name), &n), *two = test_read_file(in(path, b, name), &m);
    ck_assert_msg(n == m && memcmp(one, two, n) == 0, "%s differs", name);
    free(one);
    free(two);
}

/* An interrupted run ends as an uninterrupted one does, on another number of threads. */
START_TEST(metrics_and_resuming)
{
    char folder[TEST_PATH], whole[TEST_PATH], parts[TEST_PATH];
    test_folder(folder);
    job j = { .recipe = runs[_i].recipe, .dir = in(whole, folder, "whole") };
    run(&j);
    ck_assert(j.summary.same_bits_as_qat);
    for (int c = 0; c < DT_CONTENDERS; c++) {
        const dt_metrics *m = &j.summary.result[c].metrics;
        for (int i = 0; i < 4 && runs[_i].metrics[i] != NULL; i++) {
            ck_assert(j.summary.result[c].given && i < m->n);
            ck_assert_str_eq(m->metric[i]->name, runs[_i].metrics[i]);
            ck_assert(isfinite(m->value[i]));
        }
        ck_assert(m->n == 4 || runs[_i].metrics[m->n] == NULL);
    }
    job first = { .recipe = runs[_i].recipe,
                  .dir = in(parts, folder, "parts"),
                  .stop_at = 7,
                  .wanted = DT_ERR_INTERRUPTED };
    run(&first);
    job second = { .recipe = runs[_i].recipe, .dir = parts, .resume = true };
    run(&second);
    same_files(whole, parts, "model.safetensors");
    same_files(whole, parts, "float.safetensors");
    const double loss = j.summary.result[DT_RUN_QAT].metrics.loss;
    ck_assert_double_eq(second.summary.result[DT_RUN_QAT].metrics.loss, loss);
}
END_TEST

/* confusion.json adds up to the accuracy of the converted model. */
START_TEST(confusion)
{
    char folder[TEST_PATH], dir[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    job j = { .recipe = runs[5].recipe, .dir = in(dir, folder, "run") };
    run(&j);
    json_t *root = json_load_file(in(path, dir, "confusion.json"), 0, NULL);
    ck_assert_str_eq(json_string_value(json_object_get(root, "evaluated_on")), "test");
    ck_assert_str_eq(json_string_value(json_array_get(json_object_get(root, "classes"), 3)),
                     "good");
    const json_t *matrix = json_object_get(root, "matrix");
    json_int_t all = 0, right = 0;
    for (size_t i = 0; i < 4; i++) {
        for (size_t k = 0; k < 4; k++) {
            const json_int_t n = json_integer_value(json_array_get(json_array_get(matrix, i), k));
            all += n;
            right += i == k ? n : 0;
        }
    }
    ck_assert_int_eq(all, 60);
    TEST_NEAR((double)right / 60,
              dt_metric_value(&j.summary.result[DT_RUN_CONVERTED].metrics, "accuracy"), 0, 1e-12);
    json_decref(root);
    char again[TEST_PATH];
    job numbers = { .recipe = runs[0].recipe, .dir = in(again, folder, "numbers") };
    run(&numbers);
    ck_assert(!test_file_exists(in(path, again, "confusion.json")));
    job unreported = { .recipe = runs[5].recipe,
                       .dir = in(again, folder, "unreported"),
                       .overrides = { "run.report=false" } };
    run(&unreported);
    ck_assert(!test_file_exists(in(path, again, "confusion.json")));
}
END_TEST

/* ---- weights --------------------------------------------------------------------------------- */

static double loss_of(const job *j) { return j->summary.result[DT_RUN_FLOAT].metrics.loss; }

/* Weights that are all equal change nothing but roundings; others do. */
START_TEST(weights_are_relative)
{
    static const char *const weights[] = { "none", "[2, 2, 2, 2]", "[1, 1, 1, 9]" };
    char folder[TEST_PATH], dir[TEST_PATH], words[64];
    double loss[3];
    test_folder(folder);
    for (int i = 0; i < 3; i++) {
        snprintf(words, sizeof words, "train.class_weights=%s", weights[i]);
        job j = { .recipe = runs[5].recipe,
                  .dir = in(dir, folder, weights[i]),
                  .overrides = { words, "~qat" } };
        run(&j);
        loss[i] = loss_of(&j);
    }
    TEST_NEAR(loss[1], loss[0], 0, 1e-4);
    ck_assert(fabs(loss[2] - loss[0]) > 1e-3 * loss[0]);
}
END_TEST

/* An update of two batches of 8 equals one of 16, also where labels have different weights. */
START_TEST(accumulation)
{
    char folder[TEST_PATH], dir[TEST_PATH];
    double loss[2];
    test_folder(folder);
    for (int i = 0; i < 2; i++) {
        job j = { .recipe = runs[_i].recipe,
                  .dir = in(dir, folder, i == 0 ? "a" : "b"),
                  .overrides = { i == 0 ? "train.batch_size=16" : "train.batch_size=8",
                                 i == 0 ? "train.accumulate=1" : "train.accumulate=2", "~qat" } };
        run(&j);
        loss[i] = loss_of(&j);
    }
    TEST_NEAR(loss[0], loss[1], 0, 1e-4);
}
END_TEST

/* ---- layers of the targets' unit ------------------------------------------------------------- */

/* Mean and deviation of target c of the recipe's training data, in two passes. */
static void measure(dt_dataset *train, int c, double *mean, double *deviation)
{
    const int64_t n = dt_dataset_count(train);
    dt_loader_options options = dt_loader_defaults();
    options.batch_size = n;
    dt_loader *loader;
    dt_tensor *x, *t;
    ck_assert_int_eq(dt_loader_create(train, &options, &loader), DT_OK);
    ck_assert_int_eq(dt_loader_next(loader, &x, &t), DT_OK);
    long double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) sum += (long double)((const float *)dt_data(t))[2 * i + c];
    *mean = (double)(sum / (long double)n);
    for (int64_t i = 0; i < n; i++) {
        const long double e = (long double)((const float *)dt_data(t))[2 * i + c] - sum / n;
        squares += e * e;
    }
    *deviation = sqrt((double)(squares / (long double)n));
    dt_loader_free(loader);
}

START_TEST(unit_of_targets)
{
    char folder[TEST_PATH], dir[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    job j = { .recipe = runs[11].recipe, .dir = in(dir, folder, "run") };
    run(&j);
    dt_ctx *ctx = sample_context(1);
    const char *const overrides[] = { "run.dir=none" };
    const dt_recipe_source source = { .path = "array.yaml",
                                      .text = runs[11].recipe,
                                      .bytes = strlen(runs[11].recipe),
                                      .overrides = overrides,
                                      .n_overrides = 1 };
    dt_recipe *recipe;
    dt_dataset *part[3] = { NULL };
    dt_module *model;
    TEST_OK(ctx, dt_recipe_read(ctx, &source, &recipe));
    TEST_OK(ctx, dt_recipe_open_data(recipe, NULL, &part[0], &part[1], &part[2]));
    TEST_OK(ctx, dt_model_load(ctx, in(path, dir, "model.safetensors"), &model, NULL));
    for (int c = 0; c < 2; c++) {
        double mean, deviation;
        measure(part[0], c, &mean, &deviation);
        const float *scale = dt_data(dt_param(model, "unit.weight"));
        const float *bias = dt_data(dt_param(model, "unit.bias"));
        TEST_NEAR(bias[c], mean, 1e-6, 1e-6);
        TEST_NEAR(scale[c], deviation, 1e-6, 1e-6);
    }
    for (int i = 0; i < 3; i++) dt_dataset_free(part[i]);
    dt_module_free(model);
    dt_recipe_free(recipe);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- what is refused ------------------------------------------------------------------------- */

static const struct {
    int run;
    const char *overrides[3], *words;
} bad[] = {
    { 5, { "train.class_weights=[1, 2]" }, "'train.class_weights' has 2 weights for 4 classes" },
    { 0, { "train.class_weights=balanced" }, "belongs to classification and multi_label" },
    { 0, { "train.sampler=balanced" }, "'train.sampler' belongs to classification" },
    { 5, { "train.loss=mae" }, "'train.loss' belongs to regression" },
    { 0, { "train.huber_delta=2" }, "'train.huber_delta' belongs to huber" },
    { 2, { "train.huber_delta=0" }, "'train.huber_delta'" },
    { 5, { "train.class_weights=[0, 0, 0, 0]" }, "'train.class_weights' has weights of 0 alone" },
    { 5, { "train.class_weights=equal" }, "'train.class_weights'" },
    { 5, { "train.class_weights=[1, 1, 1, -1]" }, "'train.class_weights" },
    { 0, { "model.sizes=[12, 16, 3]" }, "the targets are numbers: it must give 2" },
    { 3, { "model.sizes=[12, 16, 4]" }, "the targets are bits: it must give 3" },
    { 5, { "model.sizes=[11, 16, 4]" }, "but the arrays are 12" },
    { 7, { "model.sizes=[768, 8, 767]" }, "the targets are the examples themselves" },
    { 7,
      { "data.task=regression" },
      "'data.task' regression needs 'data.format' tensors or table" },
    { 0, { "train.label_smoothing=0.1" }, "is for labels" },
    { 8, { "data.features.coefficients=30" }, "data.features.coefficients is 30" },
    { 11, { "data.task=classification" }, "of targets, which requires data.task: regression" },
    { 11, { "model.layers.2.shape=[1]" }, "its shape has 1 elements, but the data have 2 targets" },
    { 11, { "model.layers.2.trained=true" }, "requires a scale and a bias that are not trained" },
    { 11,
      { "train.loss=quantile" },
      "its shape has 2 elements, but the data have 2 targets, each with all of train.quantiles" },
    { 0, { "train.loss=focal" }, "'train.loss' belongs to classification, segmentation and" },
    { 5, { "train.loss=quantile" }, "'train.loss' belongs to regression" },
    { 5, { "train.focal_gamma=2" }, "'train.focal_gamma' belongs to focal" },
    { 10, { "train.focal_gamma=-1" }, "'train.focal_gamma'" },
    { 10, { "train.label_smoothing=0.1" }, "'train.label_smoothing' and loss focal exclude" },
    { 0, { "train.quantiles=[0.5]" }, "'train.quantiles' belongs to quantile" },
    { 9, { "train.quantiles=[0.5, 0.5, 0.9]" }, "must ascend: 0.5 is not above 0.5" },
    { 9, { "train.quantiles=[0.5, 1]" }, "'train.quantiles" },
    { 9, { "train.quantiles=[]" }, "'train.quantiles'" },
    { 9, { "train.quantiles=[0.2, 0.8]" }, "the targets are numbers: it must give 4" },
    { 9, { "train.distill={weight: 0.5}" }, "'train.distill' and loss quantile exclude" },
    { 0, { "data.features={kind: mfcc}" }, "'data.features' belongs to sounds and tensors" },
};

START_TEST(refused)
{
    char folder[TEST_PATH], dir[TEST_PATH];
    test_folder(folder);
    job j = { .recipe = runs[bad[_i].run].recipe,
              .dir = in(dir, folder, "run"),
              .wanted = DT_ERR_CONFIG };
    for (int i = 0; i < 3; i++) j.overrides[i] = bad[_i].overrides[i];
    run(&j);
    ck_assert_msg(strstr(j.message, bad[_i].words) != NULL, "%s", j.message);
    ck_assert(!test_file_exists(dir));
}
END_TEST

/* Errors that only the data show are all found, and nothing is written. */
START_TEST(all_errors_at_once)
{
    static const char *const words[] = {
        "array.yaml:2:38: error: the model gives 3",
        "'train.label_smoothing' is for labels",
        "'train.evaluate.every_steps' requires data to evaluate on",
        "command line: error: 'qat.rules.0.match': 'tail' matches no module",
    };
    enum { WORDS = sizeof words / sizeof words[0] };
    static const char text[] = "run: {dir: unset}\nmodel: {family: mlp, sizes: [12, 16, 3]}\n"
                               "data: {format: table, task: regression, train_count: 40}\n"
                               "train: {label_smoothing: 0.1, evaluate: {every_steps: 2}}\n"
                               "qat: {preset: int8-dynamic-int4-weight}\n";
    const char *const overrides[] = { "qat.rules=[{match: tail, skip: true}]" };
    const dt_recipe_source source = { .path = "array.yaml",
                                      .text = text,
                                      .bytes = strlen(text),
                                      .overrides = overrides,
                                      .n_overrides = 1 };
    const dt_run_control control = { .check_only = true };
    dt_ctx *ctx = sample_context(1);
    dt_recipe *recipe;
    TEST_OK(ctx, dt_recipe_read(ctx, &source, &recipe));
    TEST_FAILS(ctx, DT_ERR_CONFIG, "(and 3 more)", dt_run(ctx, recipe, &control, NULL));
    ck_assert_int_eq(dt_recipe_error_count(recipe), WORDS);
    for (int i = 0; i < WORDS; i++) {
        bool found = false;
        for (int k = 0; k < WORDS; k++) {
            found |= strstr(dt_recipe_error_at(recipe, k), words[i]) != NULL;
        }
        ck_assert_msg(found, "no error says %s: %s ...", words[i], dt_recipe_error_at(recipe, i));
    }
    dt_recipe_free(recipe);
    dt_ctx_free(ctx);
    ck_assert(!test_file_exists("unset"));
}
END_TEST

Suite *test_array_runs_suite(void)
{
    Suite *s = suite_create("array_runs");
    TCase *c = tcase_create("runs");
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, metrics_and_resuming, 0, RUNS);
    tcase_add_test(c, confusion);
    tcase_add_test(c, weights_are_relative);
    tcase_add_loop_test(c, accumulation, 3, 7);
    tcase_add_test(c, unit_of_targets);
    tcase_add_loop_test(c, refused, 0, (int)(sizeof bad / sizeof bad[0]));
    tcase_add_test(c, all_errors_at_once);
    suite_add_tcase(s, c);
    return s;
}

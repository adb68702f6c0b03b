/* Tasks of arrays: metrics against slow computations by their definitions, the confusion matrix,
 * balanced sampling. */
#include "sample.h"
#include "testing.h"

#include "nn/module.h"
#include "train/task/task.h"

#include <detent/experimental/ops.h>
#include <math.h>
#include <stdlib.h>

static dt_ctx *ctx;

static void open_ctx(void) { ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK); }

static void close_ctx(void)
{
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}

enum { EXAMPLES = 61, OUTPUTS = 3 };

/* Numbers in -1 ... 1 with ties: steps of 1/8. */
static float some(int i, int salt) { return (float)((i * 7919 + salt * 104729) % 17 - 8) / 8; }

/* ---- a model that answers from a table: x[0] is the example's index -------------------------- */

static float answers[EXAMPLES][OUTPUTS];

static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    (void)n_in;
    (void)n_out;
    const int64_t n = dt_dim(in[0], 0), dims[] = { n, OUTPUTS };
    const float *x = dt_data(in[0]);
    dt_tensor *y;
    TEST_OK(ctx, dt_tensor_create(dt_module_ctx(m), DT_F32, 2, dims, &y));
    float *to = dt_data_mut(y);
    for (int64_t i = 0; i < n * OUTPUTS; i++) to[i] = answers[(int)x[i / OUTPUTS]][i % OUTPUTS];
    out[0] = dt_add(t, y, y);
    out[0] = dt_sub(t, out[0], y);
    dt_tensor_free(y);
}

static const dt_module_type table = { .name = "table", .forward = forward };

static dt_dataset *dataset(dt_target target, dt_array_dtype dtype, const void *y)
{
    static float x[EXAMPLES];
    dt_dataset *d;
    for (int i = 0; i < EXAMPLES; i++) x[i] = (float)i;
    const dt_arrays arrays = { .count = EXAMPLES,
                               .rank = 1,
                               .dims = { 1 },
                               .axis = -1,
                               .x = x,
                               .target = target,
                               .y_dtype = dtype,
                               .y = y,
                               .outputs = OUTPUTS };
    TEST_OK(ctx, dt_dataset_from_arrays(ctx, &arrays, &d));
    return d;
}

/* Metrics, which must not depend on the batch size. */
static dt_metrics evaluate(const dt_dataset *d, dt_tensor **y)
{
    static const int64_t sizes[] = { 1, 8, 100 };
    dt_module *m;
    dt_metrics now, first = { 0 };
    TEST_OK(ctx, dt_module_create(ctx, &table, 0, &m));
    for (int i = 0; i < 3; i++) {
        const dt_evaluation options = { .batch_size = sizes[i] };
        TEST_OK(ctx, dt_evaluate(m, d, &options, &now, i == 2 ? y : NULL));
        if (i == 0) first = now;
        ck_assert_int_eq(now.n, first.n);
        ck_assert_mem_eq(now.value, first.value, sizeof now.value[0] * (size_t)now.n);
    }
    ck_assert_double_eq(now.loss, now.value[now.n - 1]);
    dt_module_free(m);
    return now;
}

/* ---- regression ------------------------------------------------------------------------------ */

START_TEST(regression)
{
    static float target[EXAMPLES][OUTPUTS];
    double squares = 0, absolute = 0, r2 = 0;
    open_ctx();
    for (int i = 0; i < EXAMPLES; i++) {
        for (int k = 0; k < OUTPUTS; k++) {
            target[i][k] = k == 1 ? 1000 + some(i, k) : k == 2 && _i > 0 ? 3 : some(i, k);
            answers[i][k] = target[i][k] + (k == 2 && _i == 2 ? 0 : some(i, k + 9) / 4);
        }
    }
    for (int k = 0; k < OUTPUTS; k++) {
        double mean = 0, errors = 0, spread = 0;
        for (int i = 0; i < EXAMPLES; i++) mean += (double)target[i][k] / EXAMPLES;
        for (int i = 0; i < EXAMPLES; i++) {
            const double e = (double)answers[i][k] - (double)target[i][k];
            errors += e * e;
            absolute += fabs(e);
            spread += pow((double)target[i][k] - mean, 2);
        }
        squares += errors;
        const bool constant = k == 2 && _i > 0;
        r2 += (constant ? (_i == 2 ? 1 : 0) : 1 - errors / spread) / OUTPUTS;
    }
    dt_dataset *d = dataset(DT_TARGET_VALUES, DT_ARRAY_F32, target);
    const dt_metrics m = evaluate(d, NULL);
    ck_assert_int_eq(m.n, 4);
    TEST_NEAR(dt_metric_value(&m, "r2"), r2, 0, 1e-9);
    TEST_NEAR(dt_metric_value(&m, "mae"), absolute / (EXAMPLES * OUTPUTS), 0, 1e-12);
    TEST_NEAR(dt_metric_value(&m, "rmse"), sqrt(squares / (EXAMPLES * OUTPUTS)), 0, 1e-12);
    TEST_NEAR(m.loss, squares / (EXAMPLES * OUTPUTS), 0, 1e-12);
    dt_dataset_free(d);
    close_ctx();
}
END_TEST

/* ---- several labels -------------------------------------------------------------------------- */

/* The mean over distinct recalls: for each score as the threshold, precision times what recall it
 * adds. */
static double slow_precision(const uint8_t (*bits)[OUTPUTS], int k)
{
    double all = 0, sum = 0;
    for (int i = 0; i < EXAMPLES; i++) all += bits[i][k];
    for (int i = 0; i < EXAMPLES; i++) {
        double found = 0, right = 0;
        for (int j = 0; j < EXAMPLES; j++) {
            found += answers[j][k] >= answers[i][k];
            right += answers[j][k] >= answers[i][k] && bits[j][k];
        }
        sum += bits[i][k] * right / found; /* each positive adds 1 / all of recall */
    }
    return sum / all;
}

START_TEST(several_labels)
{
    static uint8_t bits[EXAMPLES][OUTPUTS];
    double loss = 0, f1 = 0, precision = 0;
    open_ctx();
    for (int i = 0; i < EXAMPLES; i++) {
        for (int k = 0; k < OUTPUTS; k++) {
            answers[i][k] = k == 2 ? -1 : some(i, k);
            bits[i][k] = k < 2 && some(i, k) + some(i, k + 5) > 0.25F;
        }
    }
    for (int k = 0; k < OUTPUTS; k++) {
        double right = 0, wrong = 0, missed = 0;
        for (int i = 0; i < EXAMPLES; i++) {
            const double p = 1 / (1 + exp(-(double)answers[i][k]));
            loss -= log(bits[i][k] ? p : 1 - p);
            right += p > 0.5 && bits[i][k];
            wrong += p > 0.5 && !bits[i][k];
            missed += !(p > 0.5) && bits[i][k];
        }
        if (k < 2) f1 += 2 * right / (2 * right + wrong + missed) / 2;
        if (k < 2) precision += slow_precision((const uint8_t(*)[OUTPUTS])bits, k) / 2;
    }
    dt_dataset *d = dataset(DT_TARGET_BITS, DT_ARRAY_U8, bits);
    const dt_metrics m = evaluate(d, NULL);
    ck_assert_int_eq(m.n, 3);
    ck_assert(f1 > 0.2 && f1 < 0.95 && precision > 0.2 && precision < 0.95);
    TEST_NEAR(dt_metric_value(&m, "macro_f1"), f1, 0, 1e-12);
    TEST_NEAR(dt_metric_value(&m, "average_precision"), precision, 0, 1e-12);
    TEST_NEAR(m.loss, loss / (EXAMPLES * OUTPUTS), 0, 1e-9);
    dt_dataset_free(d);
    close_ctx();
}
END_TEST

/* ---- classes --------------------------------------------------------------------------------- */

static double probability(const float *y, int k)
{
    double sum = 0;
    for (int j = 0; j < OUTPUTS; j++) sum += exp((double)y[j] - (double)y[k]);
    return 1 / sum;
}

/* Scores of classes by their definitions: precision at the score of each positive; every bin over
 * all examples. */
static void check_class_scores(const dt_dataset *d, const dt_tensor *outputs)
{
    const float *y = dt_data(outputs);
    double recall = 0, area = 0, calibration = 0;
    dt_class_scores found;
    TEST_OK(ctx, dt_class_scores_of(d, outputs, &found));
    const double *each = dt_data(found.each);
    for (int k = 0; k < OUTPUTS; k++) {
        double labelled = 0, right = 0, chosen = 0, own = 0;
        for (int i = 0; i < EXAMPLES; i++) {
            bool best = true;
            for (int j = 0; j < OUTPUTS; j++) best &= y[i * OUTPUTS + j] <= y[i * OUTPUTS + k];
            chosen += best;
            if (dt_dataset_label(d, i) != k) continue;
            labelled++;
            right += best;
            double above = 0, positives = 0;
            for (int j = 0; j < EXAMPLES; j++) {
                if (probability(y + j * OUTPUTS, k) < probability(y + i * OUTPUTS, k)) continue;
                above++;
                positives += dt_dataset_label(d, j) == k;
            }
            own += positives / above;
        }
        recall += right / labelled / OUTPUTS;
        area += own / labelled / OUTPUTS;
        const double want[] = { labelled, right / chosen, right / labelled,
                                2 * right / (labelled + chosen), own / labelled };
        for (int j = 0; j < 5; j++) TEST_NEAR(each[5 * k + j], want[j], 0, 1e-12);
    }
    for (int b = 0; b < 15; b++) {
        double right = 0, sure = 0;
        for (int i = 0; i < EXAMPLES; i++) {
            int best = 0;
            for (int k = 1; k < OUTPUTS; k++) {
                if (y[i * OUTPUTS + k] > y[i * OUTPUTS + best]) best = k;
            }
            const double p = probability(y + i * OUTPUTS, best);
            if (p <= b / 15.0 || p > (b + 1) / 15.0) continue;
            right += dt_dataset_label(d, i) == best;
            sure += p;
        }
        calibration += fabs(right - sure) / EXAMPLES;
    }
    TEST_NEAR(found.balanced_accuracy, recall, 0, 1e-12);
    TEST_NEAR(found.average_precision, area, 0, 1e-12);
    TEST_NEAR(found.calibration_error, calibration, 0, 1e-12);
    dt_tensor_free(found.each);
}

START_TEST(classes)
{
    static int32_t labels[EXAMPLES];
    int64_t matrix[OUTPUTS][OUTPUTS] = { { 0 } };
    double f1 = 0, right = 0;
    open_ctx();
    for (int i = 0; i < EXAMPLES; i++) {
        int best = 0;
        for (int k = 0; k < OUTPUTS; k++) answers[i][k] = some(i, k);
        for (int k = 1; k < OUTPUTS; k++) best = answers[i][k] > answers[i][best] ? k : best;
        labels[i] = i % 5 < 3 ? best : i % OUTPUTS;
        matrix[labels[i]][best]++;
        right += labels[i] == best;
    }
    for (int k = 0; k < OUTPUTS; k++) {
        int64_t wanted = 0, found = 0;
        for (int j = 0; j < OUTPUTS; j++) {
            wanted += matrix[k][j];
            found += matrix[j][k];
        }
        const double precision = (double)matrix[k][k] / (double)found;
        const double recall = (double)matrix[k][k] / (double)wanted;
        f1 += 2 / (1 / precision + 1 / recall) / OUTPUTS;
    }
    dt_dataset *d = dataset(DT_TARGET_CLASS, DT_ARRAY_I32, labels);
    dt_tensor *y, *counts;
    const dt_metrics m = evaluate(d, &y);
    ck_assert_int_eq(m.n, 3); /* no top 5 of three classes */
    TEST_NEAR(dt_metric_value(&m, "macro_f1"), f1, 0, 1e-12);
    TEST_NEAR(dt_metric_value(&m, "accuracy"), right / EXAMPLES, 0, 1e-12);
    TEST_OK(ctx, dt_confusion(d, y, &counts));
    ck_assert_int_eq(dt_count(counts), OUTPUTS * OUTPUTS);
    ck_assert_mem_eq(dt_data(counts), matrix, sizeof matrix);
    dt_tensor_free(counts);
    check_class_scores(d, y);
    const int64_t dims[] = { EXAMPLES, OUTPUTS - 1 };
    dt_tensor *narrow;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, dims, &narrow));
    TEST_FAILS(ctx, DT_ERR_SHAPE, "f32[61, classes]", dt_confusion(d, narrow, &counts));
    ck_assert_ptr_null(counts);
    dt_dataset *images = sample_counted(ctx, 4, 2, 2, 2);
    dt_tensor *four;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, (const int64_t[]){ 4, 2 }, &four));
    TEST_OK(ctx, dt_fill(four, 0));
    TEST_OK(ctx, dt_confusion(images, four, &counts));
    dt_tensor_free(counts);
    const dt_reals zero = { 1, { 0 } }, one = { 1, { 1 } };
    TEST_OK(ctx, dt_dataset_normalize(images, &zero, &one));
    TEST_OK(ctx, dt_dataset_denoise(images, 0));
    TEST_FAILS(ctx, DT_ERR_ARG, "not labels", dt_confusion(images, four, &counts));
    dt_class_scores scores;
    TEST_FAILS(ctx, DT_ERR_ARG, "not labels", dt_class_scores_of(images, four, &scores));
    ck_assert_ptr_null(scores.each);
    dt_dataset_free(images);
    dt_tensor_free(four);
    dt_tensor_free(narrow);
    dt_tensor_free(y);
    dt_dataset_free(d);
    close_ctx();
}
END_TEST

/* ---- anomalies ------------------------------------------------------------------------------- */

/* y = x^2 of [N, 2, 3], flattened. */
static void square(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                   int n_out)
{
    (void)m;
    (void)n_in;
    (void)n_out;
    out[0] = dt_flatten(t, dt_square(t, in[0]), 1, -1);
}

static const dt_module_type squares = { .name = "squares", .forward = square };

START_TEST(anomalies)
{
    static float x[EXAMPLES][6];
    static uint8_t labels[EXAMPLES];
    double error[EXAMPLES], normal = 0, pairs = 0, above = 0, loss = 0;
    open_ctx();
    for (int i = 0; i < EXAMPLES; i++) {
        labels[i] = i % 3 == 0;
        error[i] = 0;
        for (int k = 0; k < 6; k++) {
            x[i][k] = i % 7 == 0 ? 0.5F : some(i, k) + (labels[i] ? 0.125F : 0);
            error[i] += pow(pow((double)x[i][k], 2) - (double)x[i][k], 2) / 6;
        }
        normal += !labels[i];
        loss += labels[i] ? 0 : error[i];
    }
    for (int i = 0; i < EXAMPLES * EXAMPLES; i++) {
        const double a = error[i / EXAMPLES], b = error[i % EXAMPLES];
        if (!labels[i / EXAMPLES] || labels[i % EXAMPLES]) continue;
        pairs++;
        above += a > b ? 1 : a == b ? 0.5 : 0;
    }
    const dt_arrays arrays = { .count = EXAMPLES,
                               .rank = 2,
                               .dims = { 2, 3 },
                               .axis = -1,
                               .x = x,
                               .y_dtype = DT_ARRAY_U8,
                               .y = labels,
                               .outputs = 2 };
    dt_dataset *d;
    dt_module *m;
    TEST_OK(ctx, dt_dataset_from_arrays(ctx, &arrays, &d));
    TEST_OK(ctx, dt_dataset_anomaly(d));
    ck_assert_int_eq(dt_dataset_label(d, 3), 1);
    ck_assert_int_eq(dt_dataset_outputs(d), 0);
    TEST_OK(ctx, dt_module_create(ctx, &squares, 0, &m));
    dt_metrics metrics;
    dt_tensor *y;
    TEST_OK(ctx, dt_evaluate(m, d, NULL, &metrics, &y));
    ck_assert_int_eq(dt_rank(y), 3);
    dt_tensor_free(y);
    TEST_NEAR(dt_metric_value(&metrics, "auc"), above / pairs, 0, 1e-12);
    TEST_NEAR(metrics.loss, loss / normal, 0, 1e-6);
    const dt_loader_options in_order = { .batch_size = 10 };
    dt_loader *l;
    TEST_OK(ctx, dt_loader_create(d, &in_order, &l));
    ck_assert_int_eq(dt_loader_labels(l, 1), 6 * 6); /* 0, 3, 6, 9 are anomalous */
    dt_loader_free(l);
    dt_module_free(m);
    dt_dataset_free(d);
    labels[4] = 2;
    dt_arrays three = arrays;
    three.outputs = 0;
    TEST_OK(ctx, dt_dataset_from_arrays(ctx, &three, &d));
    TEST_FAILS(ctx, DT_ERR_ARG, "example 4 (counted from 0) is 2", dt_dataset_anomaly(d));
    dt_dataset_free(d);
    d = sample_counted(ctx, 4, 2, 2, 2);
    TEST_FAILS(ctx, DT_ERR_ARG, "images: expected arrays", dt_dataset_anomaly(d));
    dt_dataset_free(d);
    close_ctx();
}
END_TEST

/* Without both kinds of examples there is no pair. */
START_TEST(no_area)
{
    dt__scored s[3] = { { 1, 0, true }, { 2, 0, true }, { NAN, 0, true } };
    dt__rank(s, 3);
    ck_assert(s[0].score == 2 && isnan(s[2].score));
    ck_assert(isnan(dt__area_under_roc(s, 3)) && isnan(dt__area_under_roc(s, 0)));
    ck_assert_double_eq(dt__average_precision(s, 3), 1);
    for (int i = 0; i < 3; i++) s[i].positive = false;
    ck_assert(isnan(dt__area_under_roc(s, 3)) && isnan(dt__average_precision(s, 3)));
}
END_TEST

/* ---- balanced sampling ----------------------------------------------------------------------- */

/* Labels 0 (2 examples), 2 (9) and 3 (50); none has 1. */
static dt_dataset *uneven(void)
{
    static float x[EXAMPLES];
    static int32_t labels[EXAMPLES];
    for (int i = 0; i < EXAMPLES; i++) {
        x[i] = (float)i;
        labels[i] = i % 30 == 7 && i < 60 ? 0 : i % 6 == 2 && i < 54 ? 2 : 3;
    }
    const dt_arrays arrays = { .count = EXAMPLES,
                               .rank = 1,
                               .dims = { 1 },
                               .axis = -1,
                               .x = x,
                               .y_dtype = DT_ARRAY_I32,
                               .y = labels };
    dt_dataset *d;
    TEST_OK(ctx, dt_dataset_from_arrays(ctx, &arrays, &d));
    return d;
}

/* The examples of an epoch, in order. */
static void epoch(dt_loader *l, int64_t number, int seen[EXAMPLES])
{
    int n = 0;
    TEST_OK(ctx, dt_loader_seek(l, (dt_position){ number, 0 }));
    for (int64_t i = 0; i < dt_loader_batches(l); i++) {
        dt_tensor *x, *target;
        TEST_OK(ctx, dt_loader_next(l, &x, &target));
        for (int64_t k = 0; k < dt_dim(x, 0); k++) seen[n++] = (int)((const float *)dt_data(x))[k];
    }
    ck_assert_int_eq(n, EXAMPLES);
}

START_TEST(balanced)
{
    open_ctx();
    dt_dataset *d = uneven();
    dt_loader_options options = { .batch_size = 8, .shuffle = true, .balanced = true, .seed = 5 };
    dt_loader *l, *other;
    TEST_OK(ctx, dt_loader_create(d, &options, &l));
    TEST_OK(ctx, dt_loader_create(d, &options, &other));
    for (int e = 0; e < 6; e++) {
        int seen[EXAMPLES], again[EXAMPLES], of[4] = { 0 }, times[EXAMPLES] = { 0 };
        epoch(l, e, seen);
        epoch(other, 5 - e, again);
        epoch(other, e, again);
        ck_assert_mem_eq(seen, again, sizeof seen);
        for (int i = 0; i < EXAMPLES; i++) {
            of[dt_dataset_label(d, seen[i])]++;
            times[seen[i]]++;
        }
        ck_assert(of[1] == 0 && of[0] + of[2] + of[3] == EXAMPLES);
        for (int c = 0; c < 4; c++) ck_assert(c == 1 || of[c] == 20 || of[c] == 21);
        for (int i = 0; i < EXAMPLES; i++) {
            const int label = dt_dataset_label(d, i);
            if (label == 0) ck_assert(times[i] == 10 || times[i] == 11);
            if (label == 2) ck_assert(times[i] == 2 || times[i] == 3);
            if (label == 3) ck_assert(times[i] <= 1);
        }
        int next[EXAMPLES];
        epoch(l, e + 1, next);
        ck_assert_mem_ne(seen, next, sizeof seen);
    }
    dt_loader_free(l);
    dt_loader_free(other);
    options.shuffle = false;
    TEST_FAILS(ctx, DT_ERR_ARG, "balanced", dt_loader_create(d, &options, &l));
    dt_dataset_free(d);
    static float numbers[EXAMPLES][OUTPUTS];
    d = dataset(DT_TARGET_VALUES, DT_ARRAY_F32, numbers);
    options.shuffle = true;
    TEST_FAILS(ctx, DT_ERR_ARG, "one class each", dt_loader_create(d, &options, &l));
    dt_dataset_free(d);
    close_ctx();
}
END_TEST

Suite *test_task_arrays_suite(void)
{
    Suite *s = suite_create("task_arrays");
    TCase *c = tcase_create("metrics");
    tcase_add_loop_test(c, regression, 0, 3);
    tcase_add_test(c, several_labels);
    tcase_add_test(c, classes);
    tcase_add_test(c, anomalies);
    tcase_add_test(c, no_area);
    tcase_add_test(c, balanced);
    suite_add_tcase(s, c);
    return s;
}

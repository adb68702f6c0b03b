/* Tasks: metrics against reference values and closed forms, and that they do not depend on how
 * examples are batched. */
#include "testing.h"

#include "nn/module.h"
#include "train/task/task.h"

#include <detent/io.h>
#include <detent/experimental/ops.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static dt_ctx *ctx;

static void open_ctx(void) { ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK); }

static void close_ctx(void)
{
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}

static const float *floats(const dt_tensor *x) { return dt_data(x); }

/* ---- reference values ------------------------------------------------------------------------ */

static bool open_golden(const char *name, dt_file **file)
{
    char path[TEST_PATH];
    if (!test_golden(path, name)) return false;
    TEST_OK(ctx, dt_file_open(ctx, path, file));
    return true;
}

static dt_tensor *load(dt_file *file, const char *name, dt_dtype dtype)
{
    dt_tensor *x;
    TEST_OK(ctx, dt_file_load(file, name, dtype, &x));
    return x;
}

/* "c0.in.x" of case c0. */
static dt_tensor *part(dt_file *file, const char *c, const char *name, dt_dtype dtype)
{
    char path[64];
    snprintf(path, sizeof path, "%s.%s", c, name);
    return load(file, path, dtype);
}

static double number(dt_file *file, const char *c, const char *name)
{
    dt_tensor *x = part(file, c, name, DT_F64);
    const double value = dt_item(x);
    dt_tensor_free(x);
    return value;
}

static dt_metrics measured(dt__tally *s, dt_tensor *y, dt_tensor *target)
{
    dt_metrics m = { 0 };
    TEST_OK(ctx, dt__tally_batch(s, y, target));
    dt__tally_metrics(s, &m);
    dt__tally_close(s);
    dt_tensor_free(y);
    dt_tensor_free(target);
    return m;
}

/* Runs `check` on every case of a file. */
static void each_case(const char *name, void (*check)(dt_file *file, const char *c))
{
    dt_file *file;
    test_names cases;
    open_ctx();
    if (open_golden(name, &file)) {
        test_list(dt_file_meta(file, "cases"), &cases);
        ck_assert_int_gt(cases.n, 0);
        for (int i = 0; i < cases.n; i++) check(file, cases.name[i]);
        dt_file_close(file);
    }
    close_ctx();
}

/* Elements of a tensor behind its first dimension. */
static int64_t places_of(const dt_tensor *x) { return dt_count(x) / dt_dim(x, 0); }

static void check_psnr(dt_file *file, const char *c)
{
    dt_tensor *x = part(file, c, "in.x", DT_F32);
    const int64_t images = dt_dim(x, 0);
    const double of_mean = number(file, c, "out.of_mean_error");
    dt__tally s = { .ctx = ctx, .task = &dt__task_images, .places = places_of(x) };
    const dt_metrics m = measured(&s, x, part(file, c, "in.target", DT_F32));
    ck_assert_int_eq(m.examples, images);
    TEST_NEAR(dt_metric_value(&m, "psnr_mean_of_images"), number(file, c, "out.mean_of_images"), 0,
              1e-12);
    TEST_NEAR(dt_metric_value(&m, "psnr_of_mean_error"), of_mean, 0, 1e-12);
    TEST_NEAR(dt_metric_value(&m, "mse"), pow(10, -of_mean / 10), 0, 1e-12);
    ck_assert_double_eq(m.loss, dt_metric_value(&m, "mse"));
    ck_assert_msg(isnan(dt_metric_value(&m, "accuracy")), "no such metric");
}

START_TEST(psnr) { each_case("ops/psnr.safetensors", check_psnr); }
END_TEST

static void check_top(dt_file *file, const char *c)
{
    char key[16];
    snprintf(key, sizeof key, "%s.k", c);
    const int64_t k = strtoll(dt_file_meta(file, key), NULL, 10);
    ck_assert_msg(k == 1 || k == 5, "%s: there is no metric of the best %lld", c, (long long)k);
    dt__tally s = { .ctx = ctx, .task = &dt__task_classes, .places = 1, .least_classes = 6 };
    const dt_metrics m =
        measured(&s, part(file, c, "in.x", DT_F32), part(file, c, "in.labels", DT_I32));
    TEST_NEAR(dt_metric_value(&m, k == 1 ? "accuracy" : "top5"), number(file, c, "out.share"), 0,
              1e-15);
}

START_TEST(top_classes) { each_case("ops/topk_accuracy.safetensors", check_top); }
END_TEST

/* Outputs [images, classes, ...] that are largest at the predicted class. */
static dt_tensor *one_hot(const dt_tensor *predicted, int64_t classes)
{
    const int64_t places = places_of(predicted);
    int64_t dims[DT_MAX_RANK] = { dt_dim(predicted, 0), classes };
    for (int i = 1; i < dt_rank(predicted); i++) dims[i + 1] = dt_dim(predicted, i);
    dt_tensor *y;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, dt_rank(predicted) + 1, dims, &y));
    float *to = dt_data_mut(y);
    const int32_t *from = dt_data(predicted);
    for (int64_t i = 0; i < dt_count(predicted); i++) {
        to[(i / places * classes + from[i]) * places + i % places] = 1;
    }
    return y;
}

static void check_regions(dt_file *file, const char *c)
{
    char key[16];
    snprintf(key, sizeof key, "%s.classes", c);
    const int64_t classes = strtoll(dt_file_meta(file, key), NULL, 10);
    dt_tensor *predicted = part(file, c, "in.predicted", DT_I32);
    dt_tensor *target = part(file, c, "in.target", DT_I32);
    const int64_t n = dt_count(predicted);
    const int32_t *is = dt_data(predicted), *wanted = dt_data(target);
    double right = 0;
    for (int64_t i = 0; i < n; i++) right += is[i] == wanted[i];
    dt__tally s = { .ctx = ctx,
                    .task = &dt__task_masks,
                    .places = places_of(predicted),
                    .least_classes = classes };
    const dt_metrics m = measured(&s, one_hot(predicted, classes), target);
    TEST_NEAR(dt_metric_value(&m, "dice"), number(file, c, "out.mean"), 0, 1e-14);
    TEST_NEAR(dt_metric_value(&m, "pixel_accuracy"), right / (double)n, 0, 1e-15);
    const double wrong = log(exp(1.0) + (double)classes - 1); /* the loss of a place */
    TEST_NEAR(m.loss, wrong - right / (double)n, 0, 1e-6);
    dt_tensor_free(predicted);
}

START_TEST(regions) { each_case("ops/dice.safetensors", check_regions); }
END_TEST

/* Outputs that are NaN count as wrong. */
START_TEST(not_a_number)
{
    open_ctx();
    dt_tensor *y, *labels;
    const int64_t dims[] = { 3, 7 }, n = 3;
    float values[21] = { [7] = 1, [8] = 2, [14] = 3 };
    const int32_t wanted[] = { 0, 0, 0 };
    for (int i = 0; i < 7; i++) values[i] = NAN;
    values[16] = NAN; /* a rival of the third label, which has the largest number */
    TEST_OK(ctx, dt_tensor_from(ctx, DT_F32, 2, dims, values, &y));
    TEST_OK(ctx, dt_tensor_from(ctx, DT_I32, 1, &n, wanted, &labels));
    dt__tally s = { .ctx = ctx, .task = &dt__task_classes, .places = 1, .least_classes = 7 };
    const dt_metrics m = measured(&s, y, labels);
    ck_assert_double_eq(dt_metric_value(&m, "accuracy"), 0);
    TEST_NEAR(dt_metric_value(&m, "top5"), 2 / 3.0, 0, 1e-15);
    close_ctx();
}
END_TEST

/* ---- datasets -------------------------------------------------------------------------------- */

/* [N, 1, H, W] as it is, as three classes x, 1 - x and x^2, or as their means. */
static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    const dt_target target = *(const dt_target *)dt_module_state(m);
    (void)n_in;
    (void)n_out;
    dt_tensor *all[3] = { in[0], dt_neg(t, in[0]), dt_square(t, in[0]) };
    if (target == DT_TARGET_IMAGE) out[0] = dt_square(t, in[0]);
    else out[0] = dt_concat(t, all, 3, 1);
    if (target != DT_TARGET_CLASS) return;
    const dt_reduce_options over = { .dims = { 2, { 2, 3 } } };
    out[0] = dt_mean(t, out[0], &over);
}

static const dt_module_type type = { .name = "same", .forward = forward };

#define IMAGES 23

static dt_dataset *dataset(dt_target target)
{
    static uint8_t pixels[IMAGES * 6], targets[IMAGES * 6];
    for (int i = 0; i < IMAGES * 6; i++) {
        pixels[i] = (uint8_t)(i * 37 % 256);
        targets[i] = (uint8_t)(target == DT_TARGET_IMAGE ? i * 91 % 256 : i * i % 3);
    }
    const dt_images images = { .count = IMAGES,
                               .channels = 1,
                               .height = 2,
                               .width = 3,
                               .target = target,
                               .classes = 3,
                               .pixels = pixels,
                               .targets = targets };
    dt_dataset *d;
    TEST_OK(ctx, dt_dataset_create(ctx, &images, &d));
    return d;
}

START_TEST(metrics_do_not_depend_on_batches)
{
    const dt_target target = (dt_target)_i;
    const int metrics[] = { [DT_TARGET_CLASS] = 3, [DT_TARGET_IMAGE] = 3, [DT_TARGET_MASK] = 3 };
    const int64_t sizes[] = { 1, 7, 64 };
    open_ctx();
    dt_module *m;
    TEST_OK(ctx, dt_module_create(ctx, &type, sizeof(dt_target), &m));
    *(dt_target *)dt_module_state(m) = target;
    dt_dataset *d = dataset(target);
    dt_metrics first = { 0 };
    dt_tensor *outputs = NULL;
    for (int i = 0; i < 3; i++) {
        dt_evaluation options = dt_evaluation_defaults();
        options.batch_size = sizes[i];
        dt_metrics now;
        dt_tensor *y;
        TEST_OK(ctx, dt_evaluate(m, d, &options, &now, &y));
        ck_assert_int_eq(now.n, metrics[target]);
        ck_assert_int_eq(now.examples, IMAGES);
        ck_assert_int_eq(dt_dim(y, 0), IMAGES);
        ck_assert_int_eq(dt_rank(y), target == DT_TARGET_CLASS ? 2 : 4);
        if (i == 0) {
            first = now;
            outputs = y;
            continue;
        }
        ck_assert_mem_eq(now.value, first.value, sizeof now.value[0] * (size_t)now.n);
        ck_assert_mem_eq(floats(y), floats(outputs), (size_t)dt_count(y) * sizeof(float));
        dt_tensor_free(y);
    }
    ck_assert_double_eq(first.loss, first.value[first.n - 1]);
    dt_tensor_free(outputs);
    dt_dataset_free(d);
    dt_module_free(m);
    close_ctx();
}
END_TEST

/* Outputs of one task for the targets of another, and too few classes. */
START_TEST(outputs_must_fit)
{
    static const struct {
        dt_target has, wanted;
        const char *words;
    } bad[] = {
        { DT_TARGET_CLASS, DT_TARGET_IMAGE, "f32[16,3]; the targets require f32[16,1,2,3]" },
        { DT_TARGET_IMAGE, DT_TARGET_MASK, "f32[16,1,2,3]; the targets require f32[16,3,2,3]" },
        { DT_TARGET_MASK, DT_TARGET_IMAGE, "f32[16,3,2,3]; the targets require f32[16,1,2,3]" },
        { DT_TARGET_MASK, DT_TARGET_CLASS, "the targets require f32[16,3]" },
    };
    open_ctx();
    dt_module *m;
    dt_metrics metrics;
    TEST_OK(ctx, dt_module_create(ctx, &type, sizeof(dt_target), &m));
    *(dt_target *)dt_module_state(m) = bad[_i].has;
    dt_dataset *d = dataset(bad[_i].wanted);
    const dt_evaluation options = { .batch_size = 16 };
    TEST_FAILS(ctx, DT_ERR_SHAPE, bad[_i].words, dt_evaluate(m, d, &options, &metrics, NULL));
    dt_dataset_free(d);
    dt_module_free(m);
    close_ctx();
}
END_TEST

Suite *test_task_suite(void)
{
    Suite *s = suite_create("task");
    TCase *c = tcase_create("metrics");
    tcase_add_test(c, psnr);
    tcase_add_test(c, top_classes);
    tcase_add_test(c, regions);
    tcase_add_test(c, not_a_number);
    suite_add_tcase(s, c);
    c = tcase_create("datasets");
    tcase_add_loop_test(c, metrics_do_not_depend_on_batches, DT_TARGET_CLASS, DT_TARGET_MASK + 1);
    tcase_add_loop_test(c, outputs_must_fit, 0, 4);
    suite_add_tcase(s, c);
    return s;
}

/* Datasets of arrays: shapes, dtypes, targets, batches, standardizing. */
#include "sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const float square_x[12] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 };
static const int32_t three_labels[3] = { 2, 0, 7 };

/* Three examples [2, 2] with labels. */
static dt_arrays squares(void)
{
    return (dt_arrays){ .count = 3,
                        .rank = 2,
                        .dims = { 2, 2 },
                        .axis = -1,
                        .x = square_x,
                        .target = DT_TARGET_CLASS,
                        .y_dtype = DT_ARRAY_I32,
                        .y = three_labels };
}

static const dt_loader_options in_order = { .batch_size = 2 };

START_TEST(shapes)
{
    static const char *const names[] = { "a", "b", "c", "d", "e", "f", "g", "h" };
    dt_ctx *ctx = sample_context(1);
    dt_arrays a = squares();
    a.names = names;
    a.outputs = 8;
    dt_dataset *d;
    int64_t dims[DT_MAX_RANK - 1];
    TEST_OK(ctx, dt_dataset_from_arrays(ctx, &a, &d));
    ck_assert_int_eq(dt_dataset_count(d), 3);
    ck_assert_int_eq(dt_dataset_classes(d), 8);
    ck_assert_int_eq(dt_dataset_outputs(d), 8);
    ck_assert_int_eq(dt_dataset_channels(d), 0);
    ck_assert_int_eq(dt_dataset_array_channels(d), 2);
    ck_assert_int_eq(dt_dataset_input_shape(d, dims), 2);
    ck_assert(dims[0] == 2 && dims[1] == 2);
    ck_assert_str_eq(dt_dataset_class_name(d, 7), "h");
    ck_assert_ptr_null(dt_dataset_class_name(d, 8));
    ck_assert_ptr_null(dt_dataset_class_name(d, -1));
    ck_assert_int_eq(dt_dataset_label(d, 2), 7);
    ck_assert_int_eq(dt_dataset_label(d, 3), -1);
    ck_assert_ptr_null(dt_dataset_image(d, 0));
    dt_dataset_free(d);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(shapes_of_images_and_tokens)
{
    dt_ctx *ctx = sample_context(1);
    int64_t dims[DT_MAX_RANK - 1];
    dt_dataset *images = sample_counted(ctx, 10, 2, 3, 4), *text;
    ck_assert_int_eq(dt_dataset_input_shape(images, dims), 3);
    ck_assert(dims[0] == 1 && dims[1] == 2 && dims[2] == 3);
    ck_assert_int_eq(dt_dataset_outputs(images), 4);
    ck_assert_int_eq(dt_dataset_array_channels(images), 0);
    ck_assert_ptr_null(dt_dataset_class_name(images, 0));
    const double mean = 0, deviation = 1;
    const double *a, *b;
    TEST_FAILS(ctx, DT_ERR_ARG, "not arrays", dt_dataset_standardize(images, 1, &mean, &deviation));
    ck_assert(!dt_dataset_standard(images, &a, &b));
    static const int32_t ids[] = { 0, 1, 2, 3, 4, 5 };
    TEST_OK(ctx, dt_text_create(ctx, ids, 6, 6, 2, &text));
    ck_assert_int_eq(dt_dataset_input_shape(text, dims), 1);
    ck_assert_int_eq(dims[0], 2);
    ck_assert_int_eq(dt_dataset_outputs(text), 6);
    dt_dataset_free(images);
    dt_dataset_free(text);
    dt_ctx_free(ctx);
}
END_TEST

/* The loader's batches are the arrays, whether they are copied or borrowed. */
START_TEST(batches)
{
    dt_ctx *ctx = sample_context(2);
    dt_arrays a = squares();
    float mine[12];
    memcpy(mine, square_x, sizeof mine);
    a.x = mine;
    a.borrow = _i == 1;
    dt_dataset *d;
    dt_loader *l;
    dt_tensor *x, *target;
    TEST_OK(ctx, dt_dataset_from_arrays(ctx, &a, &d));
    if (_i == 0) memset(mine, 0, sizeof mine);
    TEST_OK(ctx, dt_loader_create(d, &in_order, &l));
    TEST_OK(ctx, dt_loader_next(l, &x, &target));
    ck_assert(dt_rank(x) == 3 && dt_dim(x, 0) == 2 && dt_dim(x, 1) == 2 && dt_dim(x, 2) == 2);
    ck_assert(dt_rank(target) == 1 && dt_dtype_of(target) == DT_I32);
    ck_assert_int_eq(memcmp(dt_data(x), square_x, 8 * sizeof(float)), 0);
    ck_assert_int_eq(memcmp(dt_data(target), three_labels, 2 * sizeof(int32_t)), 0);
    TEST_OK(ctx, dt_loader_next(l, &x, &target));
    ck_assert_int_eq(dt_dim(x, 0), 1);
    ck_assert_int_eq(memcmp(dt_data(x), square_x + 8, 4 * sizeof(float)), 0);
    ck_assert_int_eq(*(const int32_t *)dt_data(target), 7);
    dt_loader_free(l);
    dt_dataset_free(d);
    dt_ctx_free(ctx);
}
END_TEST

/* Every dtype gives the numbers -1 (0 where unsigned), 0, 1, 100. */
START_TEST(dtypes)
{
    static const float f32[] = { -1, 0, 1, 100 };
    static const double f64[] = { -1, 0, 1, 100 };
    static const uint16_t f16[] = { 0xbc00, 0, 0x3c00, 0x5640 };
    static const uint8_t u8[] = { 0, 0, 1, 100 };
    static const int8_t i8[] = { -1, 0, 1, 100 };
    static const uint16_t u16[] = { 0, 0, 1, 100 };
    static const int16_t i16[] = { -1, 0, 1, 100 };
    static const int32_t i32[] = { -1, 0, 1, 100 };
    static const int64_t i64[] = { -1, 0, 1, 100 };
    static const void *const all[] = { f32, f64, f16, u8, i8, u16, i16, i32, i64 };
    dt_ctx *ctx = sample_context(1);
    for (int k = 0; k < DT__COUNT_OF(all); k++) {
        const dt_arrays a = { .count = 4,
                              .rank = 1,
                              .dims = { 1 },
                              .x_dtype = (dt_array_dtype)k,
                              .x = all[k],
                              .target = DT_TARGET_VALUES,
                              .y_dtype = (dt_array_dtype)k,
                              .y = all[k],
                              .outputs = 1 };
        dt_dataset *d;
        dt_loader *l;
        dt_tensor *x, *target;
        TEST_OK(ctx, dt_dataset_from_arrays(ctx, &a, &d));
        ck_assert_int_eq(dt_dataset_classes(d), 0);
        TEST_OK(ctx, dt_loader_create(d, &(dt_loader_options){ .batch_size = 4 }, &l));
        TEST_OK(ctx, dt_loader_next(l, &x, &target));
        ck_assert(dt_rank(target) == 2 && dt_dim(target, 1) == 1);
        ck_assert(dt_dtype_of(target) == DT_F32);
        const float *v = dt_data(x);
        const bool is_unsigned = k == DT_ARRAY_U8 || k == DT_ARRAY_U16;
        ck_assert(v[0] == (is_unsigned ? 0 : -1) && v[1] == 0 && v[2] == 1 && v[3] == 100);
        ck_assert_int_eq(memcmp(v, dt_data(target), 4 * sizeof *v), 0);
        dt_loader_free(l);
        dt_dataset_free(d);
    }
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(bits)
{
    static const uint8_t y[6] = { 0, 1, 1, 1, 0, 0 };
    dt_ctx *ctx = sample_context(1);
    dt_arrays a = squares();
    a.target = DT_TARGET_BITS;
    a.y = y;
    a.y_dtype = DT_ARRAY_U8;
    a.outputs = 2;
    dt_dataset *d, *last;
    dt_loader *l;
    dt_tensor *x, *target;
    TEST_OK(ctx, dt_dataset_from_arrays(ctx, &a, &d));
    ck_assert_int_eq(dt_dataset_label(d, 0), -1);
    TEST_OK(ctx, dt_dataset_split(d, 1, &last));
    dt_dataset_free(d);
    TEST_OK(ctx, dt_loader_create(last, &in_order, &l));
    ck_assert_int_eq(dt_loader_labels(l, 1), 2);
    TEST_OK(ctx, dt_loader_next(l, &x, &target));
    const float *bit = dt_data(target);
    ck_assert(bit[0] == 0 && bit[1] == 0 && *(const float *)dt_data(x) == 8);
    dt_loader_free(l);
    dt_dataset_free(last);
    dt_ctx_free(ctx);
}
END_TEST

/* More classes than a byte holds, and any order of epochs. */
START_TEST(many_classes)
{
    enum { COUNT = 1000 };
    static int16_t x[COUNT];
    static int64_t y[COUNT];
    for (int i = 0; i < COUNT; i++) x[i] = (int16_t)(y[i] = i);
    dt_ctx *ctx = sample_context(2);
    const dt_arrays a = { .count = COUNT,
                          .rank = 1,
                          .dims = { 1 },
                          .x_dtype = DT_ARRAY_I16,
                          .x = x,
                          .target = DT_TARGET_CLASS,
                          .y_dtype = DT_ARRAY_I64,
                          .y = y };
    dt_dataset *d;
    dt_loader *l;
    dt_tensor *t, *target;
    TEST_OK(ctx, dt_dataset_from_arrays(ctx, &a, &d));
    ck_assert_int_eq(dt_dataset_classes(d), COUNT);
    TEST_OK(ctx,
            dt_loader_create(d, &(dt_loader_options){ .batch_size = 64, .shuffle = true }, &l));
    bool seen[COUNT] = { false };
    for (int b = 0; b < 16; b++) {
        TEST_OK(ctx, dt_loader_next(l, &t, &target));
        for (int64_t i = 0; i < dt_dim(t, 0); i++) {
            const int32_t label = ((const int32_t *)dt_data(target))[i];
            TEST_EACH((float)label == ((const float *)dt_data(t))[i] && !seen[label], "%d", label);
            seen[label] = true;
        }
    }
    dt_loader_free(l);
    dt_dataset_free(d);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(refused)
{
    static const float nan_x[12] = { 0, 0, 0, 0, 0, 0, NAN, 0, 0, INFINITY, 0, 0 };
    static const double large[12] = { 0, 1e39 };
    static const float half_bits[3] = { 0, 1, 0.5F };
    static const struct {
        dt_status status;
        const char *text;
    } wanted[] = {
        { DT_ERR_ARG, "-1 examples" },
        { DT_ERR_ARG, "wanted" },
        { DT_ERR_ARG, "rank 0" },
        { DT_ERR_ARG, "rank 8" },
        { DT_ERR_ARG, "[2,0]" },
        { DT_ERR_ARG, "axis 2" },
        { DT_ERR_ARG, "axis -3" },
        { DT_ERR_ARG, "dtypes 9 and" },
        { DT_ERR_ARG, "labels f32" },
        { DT_ERR_ARG, "-1 classes" },
        { DT_ERR_FORMAT, "row 2 (counted from 0) is the label 7; 0 to 6" },
        { DT_ERR_ARG, "kind 2" },
        { DT_ERR_ARG, "0 numbers" },
        { DT_ERR_FORMAT, "row 1, column 2 (counted from 0) is nan" },
        { DT_ERR_FORMAT, "row 0, column 1 " },
        { DT_ERR_FORMAT, "row 2, column 0 (counted from 0) is 0.5; 0 or 1" },
        { DT_ERR_FORMAT, "row 2, column 0 (counted from 0) is nan; finite" },
    };
    dt_arrays c[DT__COUNT_OF(wanted)];
    for (int i = 0; i < DT__COUNT_OF(wanted); i++) c[i] = squares();
    c[0].count = -1;
    c[1].count = INT64_MAX;
    c[2].rank = 0;
    c[3].rank = DT_MAX_RANK;
    c[4].dims[1] = 0;
    c[5].axis = 2;
    c[6].axis = -3;
    c[7].x_dtype = (dt_array_dtype)9;
    c[8].y_dtype = DT_ARRAY_F32;
    c[9].outputs = -1;
    c[10].outputs = 7;
    c[11].target = DT_TARGET_MASK;
    c[12].target = DT_TARGET_VALUES;
    c[13].x = nan_x;
    c[14].x = large;
    c[14].x_dtype = DT_ARRAY_F64;
    c[15].target = DT_TARGET_BITS;
    c[15].y = half_bits;
    c[15].outputs = 1;
    c[16].target = DT_TARGET_VALUES;
    c[16].y = nan_x;
    c[16].outputs = 3;
    c[15].y_dtype = c[16].y_dtype = DT_ARRAY_F32;
    dt_ctx *ctx = sample_context(2);
    for (int i = 0; i < DT__COUNT_OF(wanted); i++) {
        dt_dataset *d;
        TEST_FAILS(ctx, wanted[i].status, wanted[i].text, dt_dataset_from_arrays(ctx, &c[i], &d));
        ck_assert_ptr_null(d);
    }
    dt_arrays a = squares();
    dt_dataset *d;
    dt_loader *l;
    TEST_OK(ctx, dt_dataset_from_arrays(ctx, &a, &d));
    const double mean[2] = { 0, NAN }, deviation[2] = { 1, 0 };
    TEST_FAILS(ctx, DT_ERR_ARG, "3 numbers", dt_dataset_standardize(d, 3, mean, deviation));
    TEST_FAILS(ctx, DT_ERR_ARG, "mean of channel 1", dt_dataset_standardize(d, 2, mean, deviation));
    TEST_FAILS(ctx, DT_ERR_ARG, "deviation of channel 1: 0",
               dt_dataset_standardize(d, 2, deviation, deviation));
    TEST_FAILS(ctx, DT_ERR_ARG, "not images", dt_dataset_denoise(d, 0.5));
    const dt_loader_options moved = { .batch_size = 1, .augment.flip = true };
    TEST_FAILS(ctx, DT_ERR_ARG, "not for arrays", dt_loader_create(d, &moved, &l));
    dt_dataset_free(d);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- standardizing ------------------------------------------------------------------------ */

enum { EXAMPLES = 700, HEIGHT = 5, WIDTH = 7 };

static float *random_numbers(int64_t n)
{
    float *x = malloc((size_t)n * sizeof *x);
    uint32_t word[4];
    for (int64_t i = 0; i < n; i++) {
        dt__philox(5, (uint64_t)i, word);
        x[i] = 1000 + dt__unit_f32(word[0]) * (float)(1 + i % 11);
    }
    return x;
}

/* Means and deviations by the definition, in long double. */
static void by_definition(const float *x, int axis, double mean[WIDTH], double deviation[WIDTH])
{
    const int channels = axis == 0 ? HEIGHT : WIDTH, n = EXAMPLES * HEIGHT * WIDTH;
    for (int c = 0; c < channels; c++) {
        long double sum = 0, squares = 0;
        for (int pass = 0; pass < 2; pass++) {
            for (int i = 0; i < n; i++) {
                if ((axis == 0 ? i / WIDTH % HEIGHT : i % WIDTH) != c) continue;
                const long double difference = (long double)x[i] - (long double)mean[c];
                if (pass == 0) sum += (long double)x[i];
                else squares += difference * difference;
            }
            mean[c] = (double)(sum * channels / n);
        }
        deviation[c] = sqrt((double)(squares * channels / n));
    }
}

START_TEST(measured)
{
    float *x = random_numbers(EXAMPLES * HEIGHT * WIDTH);
    double mean[3][WIDTH], deviation[3][WIDTH];
    by_definition(x, _i, mean[0], deviation[0]);
    const int channels = _i == 0 ? HEIGHT : WIDTH;
    for (int threads = 1; threads <= 2; threads++) {
        dt_ctx *ctx = sample_context(threads);
        const dt_arrays a = { .count = EXAMPLES,
                              .rank = 2,
                              .dims = { HEIGHT, WIDTH },
                              .axis = _i,
                              .x = x,
                              .target = DT_TARGET_VALUES,
                              .y = x,
                              .outputs = 1 };
        dt_dataset *d;
        TEST_OK(ctx, dt_dataset_from_arrays(ctx, &a, &d));
        TEST_OK(ctx, dt_dataset_measure(d, mean[threads], deviation[threads]));
        for (int c = 0; c < channels; c++) {
            TEST_NEAR(mean[threads][c], mean[0][c], 0, 1e-14);
            TEST_NEAR(deviation[threads][c], deviation[0][c], 0, 1e-9);
        }
        TEST_OK(ctx, dt_dataset_standardize(d, channels, mean[0], deviation[0]));
        dt_loader *l;
        dt_tensor *y, *target;
        TEST_OK(ctx, dt_loader_create(d, &(dt_loader_options){ .batch_size = EXAMPLES }, &l));
        TEST_OK(ctx, dt_loader_next(l, &y, &target));
        const float *v = dt_data(y);
        for (int i = 0; i < EXAMPLES * HEIGHT * WIDTH; i++) {
            const int c = _i == 0 ? i / WIDTH % HEIGHT : i % WIDTH;
            const float wanted = (x[i] - (float)mean[0][c]) / (float)deviation[0][c];
            TEST_EACH(v[i] == wanted, "number %d is %g, not %g", i, (double)v[i], (double)wanted);
        }
        dt_loader_free(l);
        dt_dataset_free(d);
        dt_ctx_free(ctx);
    }
    const size_t bytes = (size_t)channels * sizeof(double);
    ck_assert_int_eq(memcmp(mean[1], mean[2], bytes), 0);
    ck_assert_int_eq(memcmp(deviation[1], deviation[2], bytes), 0);
    free(x);
}
END_TEST

static void keep_line(void *user, const char *line) { snprintf(user, 200, "%s", line); }

/* A constant channel gets the deviation 1, exactly. */
START_TEST(constant)
{
    char said[200] = "";
    dt_ctx_options o = dt_ctx_defaults();
    o.log = keep_line;
    o.log_user = said;
    dt_ctx *ctx;
    TEST_OK(NULL, dt_ctx_create(&ctx, &o));
    float x[2 * 40000];
    for (int i = 0; i < 40000; i++) {
        x[2 * i] = (float)i;
        x[2 * i + 1] = 0.1F;
    }
    const dt_arrays a = { .count = 40000,
                          .rank = 1,
                          .dims = { 2 },
                          .axis = -1,
                          .x = x,
                          .target = DT_TARGET_VALUES,
                          .y = x,
                          .outputs = 1 };
    double mean[2], deviation[2];
    const double *kept_mean, *kept_deviation;
    dt_dataset *d, *last;
    TEST_OK(ctx, dt_dataset_from_arrays(ctx, &a, &d));
    TEST_OK(ctx, dt_dataset_measure(d, mean, deviation));
    ck_assert(mean[1] == (double)0.1F && deviation[1] == 1);
    TEST_NEAR(mean[0], 19999.5, 0, 1e-15);
    TEST_NEAR(deviation[0], sqrt((40000.0 * 40000.0 - 1) / 12), 0, 1e-12);
    ck_assert_str_eq(said, "data: channel 1 is constant; its deviation is taken as 1");
    ck_assert(!dt_dataset_standard(d, &kept_mean, &kept_deviation));
    TEST_OK(ctx, dt_dataset_standardize(d, 2, mean, deviation));
    TEST_OK(ctx, dt_dataset_split(d, 10, &last));
    ck_assert(dt_dataset_standard(last, &kept_mean, &kept_deviation));
    ck_assert_int_eq(memcmp(kept_mean, mean, sizeof mean), 0);
    ck_assert_int_eq(memcmp(kept_deviation, deviation, sizeof deviation), 0);
    const double one = 1;
    TEST_OK(ctx, dt_dataset_standardize(d, 1, &one, &one));
    ck_assert(dt_dataset_standard(d, &kept_mean, &kept_deviation) && kept_mean[1] == 1);
    dt_dataset_free(d);
    ck_assert(dt_dataset_standard(last, &kept_mean, &kept_deviation));
    ck_assert_int_eq(memcmp(kept_deviation, deviation, sizeof deviation), 0);
    TEST_OK(ctx, dt_dataset_split(last, 10, &d));
    TEST_FAILS(ctx, DT_ERR_ARG, "no examples", dt_dataset_measure(last, mean, deviation));
    dt_dataset_free(d);
    dt_dataset_free(last);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- augmentation ------------------------------------------------------------------------- */

enum { SIGNALS = 40, MOMENTS = 16, CHANNELS = 2 };

/* Signals with the values 1 ... 32 in each, in batches of `size` of epoch `epoch`. */
static void augmented(int threads, dt_augment_options a, int64_t size, int64_t epoch,
                      float out[SIGNALS][MOMENTS * CHANNELS])
{
    static float x[SIGNALS][MOMENTS * CHANNELS];
    for (int i = 0; i < SIGNALS * MOMENTS * CHANNELS; i++) {
        x[i / (MOMENTS * CHANNELS)][i % (MOMENTS * CHANNELS)] =
            (float)(i % (MOMENTS * CHANNELS) + 1);
    }
    dt_ctx *ctx = sample_context(threads);
    const dt_arrays arrays = { .count = SIGNALS,
                               .rank = 2,
                               .dims = { MOMENTS, CHANNELS },
                               .x = x,
                               .target = DT_TARGET_VALUES,
                               .y = x,
                               .outputs = 1 };
    const dt_loader_options o = { .batch_size = size, .seed = 7, .augment = a };
    dt_dataset *d;
    dt_loader *l;
    dt_tensor *t, *target;
    TEST_OK(ctx, dt_dataset_from_arrays(ctx, &arrays, &d));
    TEST_OK(ctx, dt_loader_create(d, &o, &l));
    TEST_OK(ctx, dt_loader_seek(l, (dt_position){ epoch, 0 }));
    for (int64_t i = 0; i < SIGNALS; i += dt_dim(t, 0)) {
        TEST_OK(ctx, dt_loader_next(l, &t, &target));
        memcpy(out[i], dt_data(t), (size_t)dt_count(t) * sizeof(float));
    }
    dt_loader_free(l);
    dt_dataset_free(d);
    dt_ctx_free(ctx);
}

/* Changes depend on seed, epoch and position alone, not on batches or threads. */
START_TEST(augmentation_is_fixed)
{
    static float a[SIGNALS][MOMENTS * CHANNELS], b[SIGNALS][MOMENTS * CHANNELS];
    const dt_augment_options all = { .shift = 3, .scale = 0.2, .jitter = 0.1, .time_mask = 4 };
    augmented(1, all, 40, 1, a);
    augmented(2, all, 7, 1, b);
    ck_assert_int_eq(memcmp(a, b, sizeof a), 0);
    augmented(1, all, 40, 2, b);
    ck_assert_int_ne(memcmp(a, b, sizeof a), 0);
}
END_TEST

START_TEST(shifted)
{
    static float v[SIGNALS][MOMENTS * CHANNELS];
    const dt_augment_options o =
        _i == 0 ? (dt_augment_options){ .shift = 3 } : (dt_augment_options){ .crop = 3 };
    augmented(1, o, 8, 0, v);
    bool seen[7] = { false };
    for (int i = 0; i < SIGNALS; i++) {
        int by = -4, right = 0;
        for (int s = -3; s <= 3; s++) {
            right = 0;
            for (int k = 0; k < MOMENTS * CHANNELS; k++) {
                const int from = k - s * CHANNELS;
                const bool inside = from >= 0 && from < MOMENTS * CHANNELS;
                right += v[i][k] == (inside ? (float)(from + 1) : 0);
            }
            if (right == MOMENTS * CHANNELS) by = s;
        }
        TEST_EACH(by >= -3, "signal %d is not a shift", i);
        seen[by + 3] = true;
    }
    for (int s = 0; s < 7; s++) ck_assert(seen[s]);
}
END_TEST

START_TEST(scaled_and_masked)
{
    static float v[SIGNALS][MOMENTS * CHANNELS];
    augmented(1, (dt_augment_options){ .scale = 0.5 }, 8, 0, v);
    float least = 2, most = 0;
    for (int i = 0; i < SIGNALS; i++) {
        const float factor = v[i][0];
        least = fminf(least, factor);
        most = fmaxf(most, factor);
        for (int k = 0; k < MOMENTS * CHANNELS; k++) {
            TEST_EACH(v[i][k] == factor * (float)(k + 1), "signal %d, number %d", i, k);
        }
    }
    ck_assert(least >= 0.5F && least < 0.6F && most <= 1.5F && most > 1.4F);
    augmented(1, (dt_augment_options){ .time_mask = 4 }, 8, 0, v);
    int lengths[5] = { 0 };
    for (int i = 0; i < SIGNALS; i++) {
        int n = 0, last = -1;
        for (int t = 0; t < MOMENTS; t++) {
            const bool zero = v[i][2 * t] == 0;
            TEST_EACH(zero == (v[i][2 * t + 1] == 0), "channels differ");
            TEST_EACH(!zero || n == 0 || last == t - 1, "two masks");
            TEST_EACH(zero || v[i][2 * t] == (float)(2 * t + 1), "a value is lost");
            n += zero;
            if (zero) last = t;
        }
        ck_assert_int_le(n, 4);
        lengths[n]++;
    }
    for (int n = 0; n <= 4; n++) ck_assert_int_gt(lengths[n], 0);
}
END_TEST

START_TEST(jittered)
{
    static float v[SIGNALS][MOMENTS * CHANNELS];
    augmented(1, (dt_augment_options){ .jitter = 0.5 }, 8, 0, v);
    double sum = 0, squares = 0;
    for (int i = 0; i < SIGNALS * MOMENTS * CHANNELS; i++) {
        const int k = i % (MOMENTS * CHANNELS);
        const double z = (double)v[i / (MOMENTS * CHANNELS)][k] - (k + 1);
        sum += z;
        squares += z * z;
    }
    const int n = SIGNALS * MOMENTS * CHANNELS;
    ck_assert(fabs(sum / n) < 4 * 0.5 / sqrt(n));
    TEST_NEAR(sqrt(squares / n), 0.5, 0, 0.08);
}
END_TEST

START_TEST(bad_augmentation)
{
    static const struct {
        int rank;
        dt_augment_options a;
        const char *text;
    } cases[] = {
        { 2, { .shift = 2 }, "shift 2 of signals of 2 time steps: 0 to 1" },
        { 2, { .shift = -1 }, "shift -1" },
        { 2, { .crop = 1, .shift = 1 }, "the same movement" },
        { 2, { .time_mask = 2 }, "time_mask 2" },
        { 2, { .scale = 1 }, "scale 1" },
        { 2, { .jitter = -1 }, "jitter -1" },
        { 1, { .shift = 1 }, "not for arrays of 1 dimension" },
        { 3, { .time_mask = 1 }, "not for arrays of 3 dimensions" },
    };
    dt_ctx *ctx = sample_context(1);
    for (int i = 0; i < DT__COUNT_OF(cases); i++) {
        dt_arrays a = squares();
        a.rank = cases[i].rank;
        a.dims[2] = 1;
        dt_dataset *d;
        dt_loader *l;
        TEST_OK(ctx, dt_dataset_from_arrays(ctx, &a, &d));
        const dt_loader_options o = { .batch_size = 1, .augment = cases[i].a };
        TEST_FAILS(ctx, DT_ERR_ARG, cases[i].text, dt_loader_create(d, &o, &l));
        dt_dataset_free(d);
    }
    dt_dataset *images = sample_counted(ctx, 4, 2, 3, 4);
    const dt_loader_options o = { .batch_size = 1, .augment.jitter = 1 };
    dt_loader *l;
    TEST_FAILS(ctx, DT_ERR_ARG, "not for images", dt_loader_create(images, &o, &l));
    dt_dataset_free(images);
    dt_ctx_free(ctx);
}
END_TEST

static dt_status whole_life(dt_ctx *ctx, void *user)
{
    (void)user;
    static const char *const names[] = { "a", "b", "c", "d", "e", "f", "g", "h" };
    dt_arrays a = squares();
    a.names = names;
    a.outputs = 8;
    dt_dataset *d = NULL, *last = NULL;
    dt_loader *l = NULL;
    dt_tensor *x, *target;
    double mean[2], deviation[2];
    dt_status status = dt_dataset_from_arrays(ctx, &a, &d);
    if (status == DT_OK) status = dt_dataset_measure(d, mean, deviation);
    if (status == DT_OK) status = dt_dataset_standardize(d, 2, mean, deviation);
    if (status == DT_OK) status = dt_dataset_split(d, 1, &last);
    if (status == DT_OK) status = dt_loader_create(d, &in_order, &l);
    if (status == DT_OK) status = dt_loader_next(l, &x, &target);
    dt_loader_free(l);
    dt_dataset_free(last);
    dt_dataset_free(d);
    return status;
}

START_TEST(every_allocation) { ck_assert_int_gt(test_every_allocation(whole_life, NULL), 15); }
END_TEST

Suite *test_arrays_suite(void)
{
    TCase *cases = tcase_create("arrays");
    tcase_add_test(cases, shapes);
    tcase_add_test(cases, shapes_of_images_and_tokens);
    tcase_add_loop_test(cases, batches, 0, 2);
    tcase_add_test(cases, dtypes);
    tcase_add_test(cases, bits);
    tcase_add_test(cases, many_classes);
    tcase_add_test(cases, refused);
    tcase_add_loop_test(cases, measured, 0, 2);
    tcase_add_test(cases, constant);
    tcase_add_test(cases, augmentation_is_fixed);
    tcase_add_loop_test(cases, shifted, 0, 2);
    tcase_add_test(cases, scaled_and_masked);
    tcase_add_test(cases, jittered);
    tcase_add_test(cases, bad_augmentation);
    tcase_add_test(cases, every_allocation);
    Suite *suite = suite_create("arrays");
    suite_add_tcase(suite, cases);
    return suite;
}

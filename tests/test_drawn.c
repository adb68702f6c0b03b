/* Arrays that detent draws: the same bytes everywhere, targets that agree, features of signals. */
#include "sample.h"
#include "sha256.h"

#include "core/text/byte_order.h"
#include "data/arrays.h"
#include "data/drawn/dice.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef dt_status creator(dt_ctx *, const dt_drawn *, dt_dataset **);

static const struct {
    creator *create;
    dt_target target;
    int64_t outputs;  /* of dt_dataset_outputs */
    const char *name; /* of output 1 */
    const char *hash; /* of 20 examples of seed 7 and their targets */
} sets[] = {
    { dt_sounds_create, DT_TARGET_CLASS, 12, "tone",
      "2e2674d3c9436ce79ae36e9b241522e360df84722320e9dd56bd3902290958c6" },
    { dt_sensors_create, DT_TARGET_CLASS, 6, "walk",
      "2b7af9ab9048b9f4ff7b6b10ce39709b93e957159da9136de8742d9af5734af7" },
    { dt_sensors_create, DT_TARGET_ANOMALY, 0, "anomalous",
      "0a9bc9c0c27f9f3df91d6f69a7138f66125d6f8927dc848d9f7b41718172011f" },
    { dt_table_create, DT_TARGET_CLASS, 4, "dry",
      "e5fe20fa1ead128e6c1c078c66605cd0b39dd3ff5aa75ea8e9e77a68e0f7e29f" },
    { dt_table_create, DT_TARGET_VALUES, 2, "wear",
      "8e910cd44fb3ef40566d391b1f1d40ab1741f60185d011ed42401457648de234" },
    { dt_table_create, DT_TARGET_BITS, 3, "check_pump",
      "471e7d0872026b46bd56e509726231c9f43b3c664c9a4b55a84d09b4e6895881" },
};

#define SETS ((int)(sizeof sets / sizeof sets[0]))

static dt_dataset *drawn(dt_ctx *ctx, int set, int64_t count)
{
    const dt_drawn o = { count, 7, sets[set].target, true };
    dt_dataset *d;
    TEST_OK(ctx, sets[set].create(ctx, &o, &d));
    ck_assert_int_eq(dt_dataset_count(d), count);
    return d;
}

/* All examples as one batch. */
static dt_loader *load(dt_ctx *ctx, const dt_dataset *d, dt_tensor **x, dt_tensor **target)
{
    const dt_loader_options whole = { .batch_size = dt_dataset_count(d) };
    dt_loader *l;
    TEST_OK(ctx, dt_loader_create(d, &whole, &l));
    TEST_OK(ctx, dt_loader_next(l, x, target));
    return l;
}

/* Elements of four bytes, in the order of files. */
static void put(uint8_t *to, const dt_tensor *x)
{
    const uint8_t *from = dt_data(x);
    for (int64_t i = 0; i < dt_count(x); i++) dt__copy_little(to + 4 * i, from + 4 * i, 4);
}

/* A change of these bytes would change every figure that was measured with these data. */
START_TEST(bytes)
{
    char hash[65];
    for (int threads = 1; threads <= 3; threads += 2) {
        dt_ctx *ctx = sample_context(threads);
        dt_tensor *x, *y;
        dt_dataset *d = drawn(ctx, _i, 20);
        dt_loader *l = load(ctx, d, &x, &y);
        const size_t n = (size_t)dt_count(x) * 4, m = (size_t)dt_count(y) * 4;
        uint8_t *all = malloc(n + m);
        put(all, x);
        put(all + n, y);
        test_sha256(all, n + m, hash);
        free(all);
        ck_assert_msg(strcmp(hash, sets[_i].hash) == 0, "set %d: %s", _i, hash);
        dt_loader_free(l);
        dt_dataset_free(d);
        dt_ctx_free(ctx);
    }
}
END_TEST

/* A larger dataset begins with a smaller one; another seed draws others. */
START_TEST(examples_depend_on_their_index)
{
    dt_ctx *ctx = sample_context(2);
    dt_tensor *x[3], *y[3];
    dt_dataset *d[3] = { drawn(ctx, _i, 9), drawn(ctx, _i, 30) };
    const dt_drawn other = { 9, 8, sets[_i].target, true };
    TEST_OK(ctx, sets[_i].create(ctx, &other, &d[2]));
    dt_loader *l[3];
    for (int i = 0; i < 3; i++) l[i] = load(ctx, d[i], &x[i], &y[i]);
    ck_assert_mem_eq(dt_data(x[0]), dt_data(x[1]), (size_t)dt_count(x[0]) * 4);
    ck_assert_mem_eq(dt_data(y[0]), dt_data(y[1]), (size_t)dt_count(y[0]) * 4);
    ck_assert_mem_ne(dt_data(x[0]), dt_data(x[2]), (size_t)dt_count(x[0]) * 4);
    ck_assert_int_eq(dt_dataset_outputs(d[0]), sets[_i].outputs);
    ck_assert_str_eq(dt_dataset_class_name(d[0], 1), sets[_i].name);
    for (int i = 0; i < 3; i++) dt_loader_free(l[i]);
    for (int i = 0; i < 3; i++) dt_dataset_free(d[i]);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(classes_are_even)
{
    static const int labelled[] = { 0, 1, 2, 3 };
    const int set = labelled[_i];
    const int64_t classes = set == 2 ? 2 : sets[set].outputs, count = set == 0 ? 240 : 2000;
    dt_ctx *ctx = sample_context(2);
    dt_dataset *d = drawn(ctx, set, count);
    int64_t n[12] = { 0 };
    for (int64_t i = 0; i < count; i++) n[dt_dataset_label(d, i)]++;
    for (int64_t c = 0; c < classes; c++) {
        TEST_EACH(n[c] * classes * 2 > count && n[c] * classes < count * 2,
                  "set %d: %lld examples of class %lld", set, (long long)n[c], (long long)c);
    }
    dt_dataset_free(d);
    dt_ctx_free(ctx);
}
END_TEST

/* Rows of the table are the same for every target, so its targets can be compared. */
START_TEST(targets_of_the_table_agree)
{
    dt_ctx *ctx = sample_context(1);
    dt_tensor *x, *label, *value, *bit;
    dt_dataset *d[3] = { drawn(ctx, 3, 200), drawn(ctx, 4, 200), drawn(ctx, 5, 200) };
    dt_loader *l[3] = { load(ctx, d[0], &x, &label), load(ctx, d[1], &x, &value),
                        load(ctx, d[2], &x, &bit) };
    const int32_t *c = dt_data(label);
    const float *v = dt_data(value), *b = dt_data(bit);
    for (int i = 0; i < 200; i++) {
        ck_assert_int_eq(c[i], (int)b[3 * i] + 2 * (int)b[3 * i + 1]);
        const float a = v[2 * i]; /* 2 a + b */
        if (b[3 * i] == 1 && b[3 * i + 1] == 1) ck_assert(a > 0);
        if (b[3 * i] == 0 && b[3 * i + 1] == 0) ck_assert(a <= 0);
    }
    for (int i = 0; i < 3; i++) dt_loader_free(l[i]);
    for (int i = 0; i < 3; i++) dt_dataset_free(d[i]);
    dt_ctx_free(ctx);
}
END_TEST

/* Without anomalies all examples are normal ones. */
START_TEST(only_normal)
{
    dt_ctx *ctx = sample_context(1);
    const dt_drawn o = { 50, 3, DT_TARGET_ANOMALY, false };
    dt_dataset *d;
    TEST_OK(ctx, dt_sensors_create(ctx, &o, &d));
    for (int i = 0; i < 50; i++) ck_assert_int_eq(dt_dataset_label(d, i), 0);
    dt_dataset_free(d);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(sine)
{
    for (int i = -4000; i < 4000; i++) {
        const double t = i / 777.0;
        TEST_EACH(fabs(dt__sine(t) - sin(6.283185307179586 * t)) < 1e-9, "sine of %g turns", t);
        TEST_EACH(fabs(dt__cosine(t) - cos(6.283185307179586 * t)) < 1e-9, "cosine of %g", t);
    }
}
END_TEST

START_TEST(targets_are_checked)
{
    dt_ctx *ctx = sample_context(1);
    dt_dataset *d;
    creator *const creators[] = { dt_sounds_create, dt_sensors_create, dt_table_create };
    for (int i = 0; i < 3; i++) {
        const dt_drawn masks = { 4, 0, DT_TARGET_MASK, false },
                       none = { -1, 0, DT_TARGET_CLASS, false },
                       many = { INT64_MAX / 8, 0, DT_TARGET_CLASS, false };
        TEST_FAILS(ctx, DT_ERR_ARG, "expected", creators[i](ctx, &masks, &d));
        TEST_FAILS(ctx, DT_ERR_ARG, "at least 0", creators[i](ctx, &none, &d));
        TEST_FAILS(ctx, DT_ERR_ARG, "examples", creators[i](ctx, &many, &d));
        ck_assert_ptr_null(d);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* ---- features of a dataset ------------------------------------------------------------------- */

/* Two channels, one of them the other reversed in time; 70 examples are two chunks. */
START_TEST(features)
{
    enum { N = 70, LENGTH = 400 };
    static float x[N][LENGTH][2], one[LENGTH], want[64];
    static int32_t labels[N];
    dt_ctx *ctx = sample_context(2);
    for (int i = 0; i < N * LENGTH; i++) {
        x[i / LENGTH][i % LENGTH][0] = (float)(i * 7919 % 4001 - 2000) / 2000;
        x[i / LENGTH][LENGTH - 1 - i % LENGTH][1] = x[i / LENGTH][i % LENGTH][0];
        labels[i / LENGTH] = i / LENGTH % 5;
    }
    const dt_arrays arrays = { .count = N,
                               .rank = 2,
                               .dims = { LENGTH, 2 },
                               .axis = -1,
                               .x = x,
                               .y_dtype = DT_ARRAY_I32,
                               .y = labels };
    dt_features_options o = dt_features_defaults();
    o.kind = DT_FEATURES_MFCC;
    o.rate = 4000;
    o.bins = 12;
    dt_dataset *d, *last;
    dt_features *f;
    dt_tensor *got, *target;
    TEST_OK(ctx, dt_dataset_from_arrays(ctx, &arrays, &d));
    TEST_OK(ctx, dt_dataset_split(d, 3, &last));
    TEST_OK(ctx, dt_dataset_features(last, &o));
    TEST_OK(ctx, dt_dataset_features(d, &o));
    TEST_OK(ctx, dt_features_create(ctx, &o, &f));
    const int64_t frames = dt_features_frames(f, LENGTH), each = frames * 10;
    ck_assert_int_eq(frames, 4);
    dt_loader *l = load(ctx, last, &got, &target);
    ck_assert(dt_rank(got) == 4 && dt_dim(got, 1) == 2 && dt_dim(got, 2) == frames);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(((const int32_t *)dt_data(target))[i], labels[N - 3 + i]);
        for (int c = 0; c < 2; c++) {
            for (int k = 0; k < LENGTH; k++) one[k] = x[N - 3 + i][k][c];
            TEST_OK(ctx, dt_features_run(f, one, 1, LENGTH, want));
            ck_assert_mem_eq((const float *)dt_data(got) + (2 * i + c) * each, want,
                             (size_t)each * sizeof *want);
        }
    }
    dt_loader_free(l);
    l = load(ctx, d, &got, &target);
    for (int k = 0; k < LENGTH; k++) one[k] = x[66][k][1];
    TEST_OK(ctx, dt_features_run(f, one, 1, LENGTH, want));
    ck_assert_mem_eq((const float *)dt_data(got) + (2 * 66 + 1) * each, want, (size_t)each * 4);
    TEST_FAILS(ctx, DT_ERR_ARG, "signals", dt_dataset_features(d, &o)); /* of features */
    dt_loader_free(l);
    dt_features_free(f);
    dt_dataset_free(d);
    dt_dataset_free(last);
    TEST_OK(ctx, dt_dataset_from_arrays(ctx, &arrays, &d));
    o.frame_ms = 200;
    TEST_FAILS(ctx, DT_ERR_ARG, "400 samples are shorter", dt_dataset_features(d, &o));
    dt_dataset_free(d);
    d = sample_counted(ctx, 4, 2, 2, 2);
    TEST_FAILS(ctx, DT_ERR_ARG, "its images", dt_dataset_features(d, &o));
    dt_dataset_free(d);
    dt_ctx_free(ctx);
}
END_TEST

static dt_status draw_and_convert(dt_ctx *ctx, void *unused)
{
    const dt_drawn drawn = { 2, 0, DT_TARGET_CLASS, false };
    dt_features_options o = dt_features_defaults();
    dt_dataset *d = NULL;
    (void)unused;
    o.kind = DT_FEATURES_MFCC;
    o.rate = DT_SOUNDS_RATE;
    dt_status status = dt_sounds_create(ctx, &drawn, &d);
    if (status == DT_OK) status = dt_dataset_features(d, &o);
    dt_dataset_free(d);
    return status;
}

START_TEST(no_memory) { ck_assert_int_ge(test_every_allocation(draw_and_convert, NULL), 20); }
END_TEST

/* ---- as data of a recipe --------------------------------------------------------------------- */

START_TEST(opened)
{
    dt_ctx *ctx = sample_context(2);
    dt_dataset *train, *validation, *test;
    dt_data_options o = dt_data_defaults();
    int64_t dims[DT_MAX_RANK - 1];
    o.format = DT_DATA_SOUNDS;
    o.train_count = 10;
    o.test_count = 5;
    o.validation = 0.2;
    o.features.kind = DT_FEATURES_LOG_MEL;
    TEST_OK(ctx, dt_data_open(ctx, &o, &train, &validation, &test));
    ck_assert_int_eq(dt_dataset_count(train), 8);
    ck_assert_int_eq(dt_dataset_count(validation), 2);
    ck_assert_int_eq(dt_dataset_count(test), 5);
    ck_assert_int_eq(dt_dataset_input_shape(test, dims), 3);
    ck_assert(dims[0] == 1 && dims[1] == 49 && dims[2] == 40);
    dt_dataset_free(train);
    dt_dataset_free(validation);
    dt_dataset_free(test);
    o.features.bins = 200;
    TEST_FAILS(ctx, DT_ERR_CONFIG, "data.features.bins is 200",
               dt_data_open(ctx, &o, &train, &validation, &test));
    o.format = DT_DATA_SENSORS;
    o.features.kind = DT_FEATURES_NONE;
    o.task = DT_DATA_ANOMALY;
    TEST_OK(ctx, dt_data_open(ctx, &o, &train, &validation, &test));
    ck_assert_int_eq(dt_dataset_target(test), DT_TARGET_ANOMALY);
    dt_dataset_free(train);
    dt_dataset_free(validation);
    dt_dataset_free(test);
    o.task = DT_DATA_REGRESSION;
    TEST_FAILS(ctx, DT_ERR_CONFIG, "data.task", dt_data_open(ctx, &o, &train, &validation, &test));
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_drawn_suite(void)
{
    Suite *s = suite_create("drawn");
    TCase *c = tcase_create("drawn");
    tcase_add_loop_test(c, bytes, 0, SETS);
    tcase_add_loop_test(c, examples_depend_on_their_index, 0, SETS);
    tcase_add_loop_test(c, classes_are_even, 0, 4);
    tcase_add_test(c, targets_of_the_table_agree);
    tcase_add_test(c, only_normal);
    tcase_add_test(c, sine);
    tcase_add_test(c, targets_are_checked);
    tcase_add_test(c, features);
    tcase_add_test(c, no_memory);
    tcase_add_test(c, opened);
    suite_add_tcase(s, c);
    return s;
}

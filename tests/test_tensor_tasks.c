/* Format tensors with features of signals and with the task of anomalies. */
#include "array_files.h"
#include "sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static char folder[TEST_PATH];

static void write_file(const char *name, file_bytes f)
{
    char path[TEST_PATH];
    test_join(path, folder, name);
    test_write_file(path, f.v, f.n);
    file_free(&f);
}

static dt_data_options tensors(void)
{
    dt_data_options o = dt_data_defaults();
    test_folder(folder);
    o.format = DT_DATA_TENSORS;
    o.dir = folder;
    return o;
}

enum { RATE = 4000, LENGTH = 1000, FILES = 4 };

static int16_t wave(int file, int t) { return (int16_t)(2000 * sin(t * 0.1 * (file + 1))); }

/* Recordings of two windows each: the features of a window are those of its samples at the files'
 * rate, and a share of recordings is held back whole. */
START_TEST(features_of_recordings)
{
    static float signal[LENGTH], want[4096];
    char name[20];
    dt_ctx *ctx = sample_context(2);
    dt_data_options o = tensors();
    const uint8_t labels[FILES] = { 0, 1, 1, 0 };
    for (int i = 0; i < FILES; i++) {
        int16_t samples[2 * LENGTH];
        for (int t = 0; t < 2 * LENGTH; t++) samples[t] = wave(i, t);
        snprintf(name, sizeof name, "%d.wav", i);
        write_file(name, wav_file(1, RATE, samples, 2 * LENGTH));
    }
    write_file("y.npy", npy_file(1, "{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }",
                                 labels, FILES));
    o.train_tensors = (dt_tensor_files){ true, { 1, { "?.wav" } }, "y.npy" };
    o.window = (dt_window){ true, LENGTH, LENGTH, 0 };
    o.validation = 0.25;
    o.validation_order = DT_DATA_ORDER_TIME;
    o.split.by = DT_SPLIT_FILE;
    o.features.kind = DT_FEATURES_LOG_MEL;
    o.features.bins = 20;
    dt_dataset *train, *validation, *test;
    TEST_OK(ctx, dt_data_open(ctx, &o, &train, &validation, &test));
    ck_assert_int_eq(dt_dataset_count(train), 6);
    ck_assert_int_eq(dt_dataset_count(validation), 2);
    dt_features *f;
    dt_features_options own = o.features;
    own.rate = RATE;
    TEST_OK(ctx, dt_features_create(ctx, &own, &f));
    int64_t dims[DT_MAX_RANK - 1];
    ck_assert_int_eq(dt_dataset_input_shape(train, dims), 3);
    ck_assert(dims[0] == 1 && dims[1] == dt_features_frames(f, LENGTH) && dims[2] == 20);
    const dt_loader_options in_order = { .batch_size = 6 };
    dt_loader *l;
    dt_tensor *x, *y;
    TEST_OK(ctx, dt_loader_create(train, &in_order, &l));
    TEST_OK(ctx, dt_loader_next(l, &x, &y));
    for (int i = 0; i < 6; i++) {
        ck_assert_int_eq(((const int32_t *)dt_data(y))[i], labels[i / 2]);
        for (int t = 0; t < LENGTH; t++) {
            signal[t] = (float)wave(i / 2, i % 2 * LENGTH + t) / 32768;
        }
        TEST_OK(ctx, dt_features_run(f, signal, 1, LENGTH, want));
        const size_t n = (size_t)(dims[1] * dims[2]);
        ck_assert_mem_eq((const float *)dt_data(x) + (size_t)i * n, want, n * sizeof *want);
    }
    dt_loader_free(l);
    dt_features_free(f);
    dt_dataset_free(train);
    dt_dataset_free(validation);
    o.window.length = 100; /* shorter than a frame of 160 */
    TEST_FAILS(ctx, DT_ERR_CONFIG, "data.features: features: signals of 100 samples",
               dt_data_open(ctx, &o, &train, &validation, &test));
    dt_ctx_free(ctx);
}
END_TEST

/* A table whose labels mean normal and anomalous. */
START_TEST(anomalies_of_arrays)
{
    dt_ctx *ctx = sample_context(1);
    dt_data_options o = tensors();
    const float x[6] = { 1, 2, 3, 4, 5, 6 };
    uint8_t labels[3] = { 0, 1, 0 };
    write_file("x.npy", npy_file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }",
                                 x, sizeof x));
    const char *shape = "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }";
    write_file("y.npy", npy_file(1, shape, labels, 3));
    o.train_tensors = (dt_tensor_files){ true, { 1, { "x.npy" } }, "y.npy" };
    o.task = DT_DATA_ANOMALY;
    o.standardize = true;
    dt_dataset *train, *validation, *test;
    TEST_OK(ctx, dt_data_open(ctx, &o, &train, &validation, &test));
    ck_assert_int_eq(dt_dataset_target(train), DT_TARGET_ANOMALY);
    ck_assert_int_eq(dt_dataset_label(train, 1), 1);
    dt_dataset_free(train);
    labels[2] = 7;
    write_file("y.npy", npy_file(1, shape, labels, 3));
    TEST_FAILS(ctx, DT_ERR_CONFIG, "data.task: anomaly: data.train has the label '7'",
               dt_data_open(ctx, &o, &train, &validation, &test));
    ck_assert_ptr_null(train);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_tensor_tasks_suite(void)
{
    Suite *s = suite_create("tensor_tasks");
    TCase *c = tcase_create("tensors");
    tcase_add_test(c, features_of_recordings);
    tcase_add_test(c, anomalies_of_arrays);
    suite_add_tcase(s, c);
    return s;
}

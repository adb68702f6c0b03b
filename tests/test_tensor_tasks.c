/* Format tensors with features of signals and with the task of anomalies. */
#include "array_files.h"
#include "sample.h"

#include <detent/nn.h>
#include <detent/train.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static char folder[TEST_PATH];

static void write_file(const char *name, file_bytes f)
{
    char path[TEST_PATH];
    test_join(path, folder, name);
    test_write_file(path, f.v, f.n);
    file_free(&f);
}

static void write_text(const char *name, const char *text)
{
    file_bytes f = { NULL };
    file_text(&f, text);
    write_file(name, f);
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
    TEST_FAILS(ctx, DT_ERR_FORMAT, "label '7', which is neither 0 (normal) nor 1",
               dt_data_open(ctx, &o, &train, &validation, &test));
    ck_assert_ptr_null(train);
    o.normal = (dt_strings){ 2, { "1", "7.0" } }; /* then 0 is anomalous */
    TEST_OK(ctx, dt_data_open(ctx, &o, &train, &validation, &test));
    for (int i = 0; i < 3; i++) ck_assert_int_eq(dt_dataset_label(train, i), i == 0);
    dt_dataset_free(train);
    o.normal = (dt_strings){ 1, { "8" } };
    TEST_FAILS(ctx, DT_ERR_CONFIG, "data.normal: no example of data.train is normal",
               dt_data_open(ctx, &o, &train, &validation, &test));
    dt_ctx_free(ctx);
}
END_TEST

/* Labels of anomalies as words, and whether they are anomalous. */
static const struct {
    const char *word;
    bool anomalous;
} words[] = { { "normal", false },  { "Good", false },   { "0", false },        { "NORMAL", false },
              { "00", false },      { "anomaly", true }, { "broken", true },    { "goods", true },
              { "normally", true }, { "1", true },       { "not normal", true } };

#define WORDS DT__COUNT_OF(words)

/* Example i is word i of the data, whose value is its number. */
static void check_words(dt_ctx *ctx, dt_data_options *o, int first, int n)
{
    dt_dataset *d[3];
    dt_loader *l;
    dt_tensor *x, *y;
    TEST_OK(ctx, dt_data_open(ctx, o, &d[0], &d[1], &d[2]));
    for (int part = 0; part < 3; part += 2) {
        const dt_loader_options in_order = { .batch_size = n };
        ck_assert_int_eq(dt_dataset_target(d[part]), DT_TARGET_ANOMALY);
        TEST_OK(ctx, dt_loader_create(d[part], &in_order, &l));
        TEST_OK(ctx, dt_loader_next(l, &x, &y));
        for (int64_t i = 0; i < dt_dataset_count(d[part]); i++) {
            const int64_t width = dt_count(x) / dt_dataset_count(d[part]);
            const int w = (int)((const float *)dt_data(x))[i * width];
            ck_assert(w >= first && w < n);
            ck_assert_msg(((const int32_t *)dt_data(y))[i] == words[w].anomalous, "%s",
                          words[w].word);
        }
        dt_loader_free(l);
        dt_dataset_free(d[part]);
    }
}

/* Of a column of tables; those to test with have words that the training data have not. */
START_TEST(anomalies_in_columns)
{
    dt_ctx *ctx = sample_context(1);
    dt_data_options o = tensors();
    char train[300] = "a,kind\n", test[300] = "a,kind\n";
    for (int i = 0; i < WORDS; i++) {
        char *to = i % 2 == 0 ? train : test;
        const size_t used = strlen(to);
        snprintf(to + used, sizeof train - used, "%d,%s\n", i, words[i].word);
    }
    write_text("train.csv", train);
    write_text("test.csv", test);
    o.train_tensors = (dt_tensor_files){ true, { 1, { "train.csv" } }, NULL };
    o.test_tensors = (dt_tensor_files){ true, { 1, { "test.csv" } }, NULL };
    o.columns.target = (dt_strings){ 1, { "kind" } };
    o.task = DT_DATA_ANOMALY;
    check_words(ctx, &o, 0, WORDS);
    dt_ctx_free(ctx);
}
END_TEST

/* A missing label is neither normal nor anomalous, as it is written by other programs, or empty. */
START_TEST(missing_labels_are_refused)
{
    static const char *const missing[] = { "nan", "NaN", "-nan", "" };
    dt_ctx *ctx = sample_context(1);
    dt_data_options o = tensors();
    dt_dataset *d[3];
    char table[80];
    snprintf(table, sizeof table, "a,kind\n1,normal\n2,broken\n3,%s\n", missing[_i]);
    write_text("train.csv", table);
    o.train_tensors = (dt_tensor_files){ true, { 1, { "train.csv" } }, NULL };
    o.columns.target = (dt_strings){ 1, { "kind" } };
    o.task = DT_DATA_ANOMALY;
    for (int named = 0; named < 2; named++) {
        if (named == 1) o.normal = (dt_strings){ 1, { "normal" } };
        TEST_FAILS(ctx, DT_ERR_FORMAT, "line 4, column 2 ('kind')",
                   dt_data_open(ctx, &o, &d[0], &d[1], &d[2]));
    }
    dt_ctx_free(ctx);
}
END_TEST

/* Of folders of recordings (0), and of their names (1). */
START_TEST(anomalies_of_recordings)
{
    dt_ctx *ctx = sample_context(1);
    dt_data_options o = tensors();
    for (int i = 0; i < 2 * WORDS; i++) {
        char name[80], path[TEST_PATH];
        const int w = i % WORDS;
        const char *part = i < WORDS ? "train" : "test";
        const int16_t samples[2] = { (int16_t)w, 0 };
        if (i < WORDS && words[w].anomalous) continue; /* only normal ones are trained on */
        snprintf(name, sizeof name, _i == 0 ? "%s/%s" : "%s_%s_7.wav", part, words[w].word);
        test_join(path, folder, part);
        if (_i == 0) mkdir(path, 0777);
        test_join(path, folder, name);
        if (_i == 0) ck_assert_int_eq(mkdir(path, 0777), 0);
        snprintf(path, sizeof path, "%s%s", name, _i == 0 ? "/a.wav" : "");
        write_file(path, wav_file(1, RATE, samples, 2));
    }
    if (_i == 1) o.file_names = "{part}_{label}_{index}.wav";
    o.train = (dt_strings){ 1, { _i == 0 ? "train/*/*.wav" : "train_*.wav" } };
    o.test = (dt_strings){ 1, { _i == 0 ? "test/*/*.wav" : "test_*.wav" } };
    o.task = DT_DATA_ANOMALY;
    check_words(ctx, &o, 0, WORDS);
    dt_ctx_free(ctx);
}
END_TEST

/* The share of pairs of an anomalous and a normal recording that the means of errors tell apart. */
static double area_of(const double *mean, const bool *anomalous, int n)
{
    double above = 0, pairs = 0;
    for (int i = 0; i < n * n; i++) {
        const int a = i / n, b = i % n;
        if (!anomalous[a] || anomalous[b]) continue;
        pairs++;
        above += mean[a] > mean[b] ? 1 : mean[a] == mean[b] ? 0.5 : 0;
    }
    return above / pairs;
}

enum { N_TOLD = 14, STEP = 25, WINDOW = 50 };

/* Recordings of one to five windows, of which every third is anomalous. */
static void write_recordings(int windows[N_TOLD], bool anomalous[N_TOLD])
{
    dt__stream s = dt__stream_of(4, DT__FOR_USER);
    uint8_t labels[N_TOLD];
    for (int i = 0; i < N_TOLD; i++) {
        int16_t samples[WINDOW + 4 * STEP];
        char name[40];
        windows[i] = 1 + (int)dt__random_below(&s, 5);
        anomalous[i] = i % 3 == 0;
        labels[i] = anomalous[i];
        const int n = WINDOW + (windows[i] - 1) * STEP;
        for (int t = 0; t < n; t++) samples[t] = (int16_t)dt__random_below(&s, 9000);
        snprintf(name, sizeof name, "%02d.wav", i);
        write_file(name, wav_file(1, RATE, samples, n));
    }
    write_file("y.npy", npy_file(1, "{'descr': '|u1', 'fortran_order': False, 'shape': (14,), }",
                                 labels, N_TOLD));
}

/* They are scored by the mean error of their windows; _i == 1: of features. */
START_TEST(recordings_are_told_apart)
{
    enum { N = N_TOLD };
    dt_ctx *ctx = sample_context(2);
    dt_data_options o = tensors();
    int windows[N];
    bool anomalous[N];
    write_recordings(windows, anomalous);
    o.train_tensors = o.test_tensors = (dt_tensor_files){ true, { 1, { "*.wav" } }, "y.npy" };
    o.task = DT_DATA_ANOMALY;
    o.window = (dt_window){ true, WINDOW, STEP, 0 };
    if (_i == 1) o.features.kind = DT_FEATURES_LOG_MEL;
    o.features.frame_ms = 5;
    o.features.step_ms = 5;
    o.features.bins = 3;
    o.standardize = true;
    dt_dataset *train, *validation, *test;
    dt_module *m;
    dt_metrics metrics;
    dt_loader *l;
    dt_tensor *y, *x, *target;
    TEST_OK(ctx, dt_data_open(ctx, &o, &train, &validation, &test));
    TEST_OK(ctx, dt_dropout_create(ctx, 0.5, &m)); /* in evaluation y = x */
    const dt_evaluation how = { .batch_size = 4 };
    TEST_OK(ctx, dt_evaluate(m, test, &how, &metrics, NULL));
    ck_assert_double_eq(metrics.loss, 0);
    ck_assert_double_eq(dt_metric_value(&metrics, "recording_auc"), 0.5);
    dt_module_free(m);
    TEST_OK(ctx, dt_activation_create(ctx, "relu", &m)); /* errors are what is below the mean */
    TEST_OK(ctx, dt_evaluate(m, test, &how, &metrics, &y));
    const dt_loader_options all = { .batch_size = dt_dataset_count(test) };
    TEST_OK(ctx, dt_loader_create(test, &all, &l));
    TEST_OK(ctx, dt_loader_next(l, &x, &target));
    const int64_t each = dt_count(x) / dt_dataset_count(test);
    const float *of_y = dt_data(y), *of_x = dt_data(x);
    double mean[N] = { 0 };
    for (int i = 0; i < N; i++) {
        for (int64_t k = 0; k < windows[i] * each; k++, of_x++, of_y++) {
            const double e = (double)*of_y - (double)*of_x;
            mean[i] += e * e / (double)(windows[i] * each);
        }
    }
    TEST_NEAR(dt_metric_value(&metrics, "recording_auc"), area_of(mean, anomalous, N), 0, 1e-12);
    ck_assert(!isnan(dt_metric_value(&metrics, "auc")));
    dt_loader_free(l);
    dt_tensor_free(y);
    dt_module_free(m);
    dt_dataset_free(train);
    dt_dataset_free(test);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_tensor_tasks_suite(void)
{
    Suite *s = suite_create("tensor_tasks");
    TCase *c = tcase_create("tensors");
    tcase_add_test(c, features_of_recordings);
    tcase_add_test(c, anomalies_of_arrays);
    tcase_add_test(c, anomalies_in_columns);
    tcase_add_loop_test(c, missing_labels_are_refused, 0, 4);
    tcase_add_loop_test(c, anomalies_of_recordings, 0, 2);
    tcase_add_loop_test(c, recordings_are_told_apart, 0, 2);
    suite_add_tcase(s, c);
    return s;
}

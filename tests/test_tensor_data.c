/* Format tensors: parts of arrays, tables and recordings, as recipes name them. */
#include "array_files.h"
#include "data/dataset.h"
#include "core/text/json.h"
#include "sample.h"

#include <detent/experimental/io.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* ---- helpers ------------------------------------------------------------------------------ */

static char folder[TEST_PATH];

static void write_bytes(const char *name, file_bytes f)
{
    char path[TEST_PATH];
    if (folder[0] == 0) test_folder(folder);
    test_join(path, folder, name);
    char *slash = strrchr(path, '/');
    *slash = 0;
    mkdir(path, 0777);
    *slash = '/';
    test_write_file(path, f.v, f.n);
    file_free(&f);
}

static void write_text(const char *name, const char *text)
{
    file_bytes f = { NULL, 0 };
    file_text(&f, text);
    write_bytes(name, f);
}

/* An .npy of f4 or of another dtype; the numbers count from `first`. */
static void write_floats(const char *name, const char *shape, int count, float first)
{
    char header[200];
    float *v = malloc((size_t)count * sizeof *v);
    for (int i = 0; i < count; i++) v[i] = first + (float)i;
    snprintf(header, sizeof header, "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }",
             shape);
    write_bytes(name, npy_file(1, header, v, (size_t)count * sizeof *v));
    free(v);
}

static void write_labels(const char *name, const uint8_t *label, int count)
{
    char header[200];
    snprintf(header, sizeof header, "{'descr': '|u1', 'fortran_order': False, 'shape': (%d,), }",
             count);
    write_bytes(name, npy_file(1, header, label, (size_t)count));
}

static dt_data_options tensors(void)
{
    dt_data_options o = dt_data_defaults();
    if (folder[0] == 0) test_folder(folder);
    o.format = DT_DATA_TENSORS;
    o.dir = folder;
    return o;
}

static dt_tensor_files files_of(const char *x, const char *y)
{
    return (dt_tensor_files){ true, { 1, { x } }, y };
}

typedef struct opened {
    dt_dataset *part[3]; /* train, validation, test */
} opened;

static dt_status open_parts(dt_ctx *ctx, const dt_data_options *o, opened *d)
{
    return dt_data_open(ctx, o, &d->part[0], &d->part[1], &d->part[2]);
}

static void opened_free(opened *d)
{
    for (int i = 0; i < 3; i++) dt_dataset_free(d->part[i]);
}

/* All examples of a part, in order. */
typedef struct batch {
    dt_loader *l;
    dt_tensor *x, *target;
    const float *v;
    const int32_t *label;
} batch;

static batch read_all(dt_ctx *ctx, const dt_dataset *d)
{
    batch b;
    const dt_loader_options o = { .batch_size = dt_dataset_count(d) };
    TEST_OK(ctx, dt_loader_create(d, &o, &b.l));
    TEST_OK(ctx, dt_loader_next(b.l, &b.x, &b.target));
    b.v = dt_data(b.x);
    b.label = dt_data(b.target);
    return b;
}

static void assert_shape(const dt_dataset *d, int64_t count, int rank, const int64_t *dims)
{
    int64_t own[DT_MAX_RANK - 1];
    ck_assert_int_eq(dt_dataset_count(d), count);
    ck_assert_int_eq(dt_dataset_input_shape(d, own), rank);
    for (int i = 0; i < rank; i++) ck_assert_int_eq(own[i], dims[i]);
}

/* ---- arrays ------------------------------------------------------------------------------- */

/* Two files are joined; the validation share is at the end; the mean is of the rest alone. */
START_TEST(joined)
{
    static const uint8_t label[5] = { 0, 2, 1, 0, 1 };
    write_floats("j1.npy", "3, 2", 6, 0);
    write_floats("j2.npy", "2, 2", 4, 6);
    write_labels("jy.npy", label, 5);
    write_floats("jt.npy", "1, 2", 2, 100);
    write_labels("jty.npy", label, 1);
    dt_ctx *ctx = sample_context(2);
    dt_data_options o = tensors();
    o.train_tensors = files_of("j1.npy", "jy.npy");
    o.test_tensors = files_of("jt.npy", "jty.npy");
    o.validation = 0.4;
    o.validation_order = DT_DATA_ORDER_TIME;
    o.standardize = true;
    o.train_tensors.x = (dt_strings){ 2, { "j1.npy", "j2.npy" } };
    opened d;
    TEST_OK(ctx, open_parts(ctx, &o, &d));
    const int64_t dims[] = { 2 };
    assert_shape(d.part[0], 3, 1, dims);
    assert_shape(d.part[1], 2, 1, dims);
    assert_shape(d.part[2], 1, 1, dims);
    for (int i = 0; i < 3; i++) ck_assert_int_eq(dt_dataset_classes(d.part[i]), 3);
    const double deviation = sqrt(8.0 / 3);
    batch b = read_all(ctx, d.part[1]);
    ck_assert(b.label[0] == 0 && b.label[1] == 1);
    for (int i = 0; i < 4; i++) {
        TEST_NEAR(b.v[i], (6 + i - (i % 2 == 0 ? 2 : 3)) / deviation, 1e-6, 1e-6);
    }
    dt_loader_free(b.l);
    b = read_all(ctx, d.part[2]);
    TEST_NEAR(b.v[1], (101 - 3) / deviation, 1e-6, 1e-6);
    dt_loader_free(b.l);
    opened_free(&d);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(numbers_and_bits)
{
    static const uint8_t bit[6] = { 0, 1, 1, 1, 0, 0 };
    write_floats("nx.npy", "3, 1, 2, 2", 12, 0);
    write_floats("ny.npy", "3, 2", 6, 10);
    write_bytes("nb.npy",
                npy_file(2, "{'descr': '|b1', 'fortran_order': False, 'shape': (3, 2)}", bit, 6));
    dt_ctx *ctx = sample_context(1);
    dt_data_options o = tensors();
    opened d;
    for (int k = 0; k < 2; k++) {
        o.task = k == 0 ? DT_DATA_REGRESSION : DT_DATA_MULTI_LABEL;
        o.train_tensors = files_of("nx.npy", k == 0 ? "ny.npy" : "nb.npy");
        o.standard = (dt_standard){ true, { 1, { 1 } }, { 1, { 2 } }, DT_AXIS_AUTO };
        TEST_OK(ctx, open_parts(ctx, &o, &d));
        const int64_t dims[] = { 1, 2, 2 };
        assert_shape(d.part[0], 3, 3, dims);
        ck_assert(dt_dataset_target(d.part[0]) == (k == 0 ? DT_TARGET_VALUES : DT_TARGET_BITS));
        ck_assert_int_eq(dt_dataset_outputs(d.part[0]), 2);
        ck_assert_int_eq(dt_dataset_array_channels(d.part[0]), 1);
        batch b = read_all(ctx, d.part[0]);
        const float *y = dt_data(b.target);
        for (int i = 0; i < 6; i++) ck_assert(y[i] == (k == 0 ? (float)(10 + i) : (float)bit[i]));
        for (int i = 0; i < 12; i++) ck_assert(b.v[i] == (float)(i - 1) / 2);
        dt_loader_free(b.l);
        opened_free(&d);
    }
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(tables)
{
    write_text("t1.csv", "y,b,a\ndog,1,2\ncat,3,4\n");
    write_text("t2.csv", "a,y,b\n5,emu,6\n");
    write_text("t3.csv", "a,y,b\n7,cat,8\n");
    dt_ctx *ctx = sample_context(1);
    dt_data_options o = tensors();
    o.train_tensors = files_of("t1.csv", NULL);
    o.train_tensors.x = (dt_strings){ 2, { "t1.csv", "t2.csv" } };
    o.test_tensors = files_of("t3*", NULL);
    o.columns.target = (dt_strings){ 1, { "y" } };
    opened d;
    TEST_OK(ctx, open_parts(ctx, &o, &d));
    ck_assert_int_eq(dt_dataset_outputs(d.part[0]), 3);
    ck_assert_str_eq(dt_dataset_class_name(d.part[2], 0), "cat");
    ck_assert_str_eq(dt_dataset_class_name(d.part[0], 2), "emu");
    batch b = read_all(ctx, d.part[0]);
    static const float x[6] = { 1, 2, 3, 4, 6, 5 };
    ck_assert_int_eq(memcmp(b.v, x, sizeof x), 0);
    ck_assert(b.label[0] == 1 && b.label[1] == 0 && b.label[2] == 2);
    dt_loader_free(b.l);
    ck_assert_int_eq(dt_dataset_label(d.part[2], 0), 0);
    opened_free(&d);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- recordings --------------------------------------------------------------------------- */

/* Windows do not cross files; what does not fill one at the end is left out, a file that is
 * shorter is filled up. */
START_TEST(windows)
{
    static const uint8_t label[3] = { 1, 0, 2 };
    write_floats("w1.npy", "5, 2", 10, 0);
    write_floats("w2.npy", "2, 2", 4, 100);
    write_floats("w3.npy", "4, 2", 8, 200);
    write_labels("wy.npy", label, 3);
    dt_ctx *ctx = sample_context(1);
    dt_data_options o = tensors();
    o.train_tensors = files_of("w?.npy", "wy.npy");
    o.train_tensors.x.v[0] = "w[123].npy"; /* brackets are themselves */
    o.window = (dt_window){ true, 3, 1, 0 };
    opened d;
    TEST_FAILS(ctx, DT_ERR_IO, "w[123].npy", open_parts(ctx, &o, &d));
    o.train_tensors.x = (dt_strings){ 3, { "w1.npy", "w2*.npy", "w3.npy" } };
    TEST_OK(ctx, open_parts(ctx, &o, &d));
    const int64_t dims[] = { 3, 2 };
    assert_shape(d.part[0], 3 + 1 + 2, 2, dims);
    batch b = read_all(ctx, d.part[0]);
    static const int first[6] = { 0, 2, 4, 100, 200, 202 };
    static const int32_t wanted[6] = { 1, 1, 1, 0, 2, 2 };
    for (int i = 0; i < 36; i++) {
        const float number = i / 6 == 3 && i % 6 >= 4 ? 0 : (float)(first[i / 6] + i % 6);
        ck_assert_msg(b.v[i] == number, "%d: %g", i, (double)b.v[i]);
    }
    ck_assert_int_eq(memcmp(b.label, wanted, sizeof wanted), 0);
    dt_loader_free(b.l);
    opened_free(&d);
    /* a share of 0.2 is one window, or the whole last recording */
    o.validation = 0.2;
    TEST_OK(ctx, open_parts(ctx, &o, &d));
    ck_assert_int_eq(dt_dataset_count(d.part[1]), 1);
    opened_free(&d);
    o.split.by = DT_SPLIT_FILE;
    o.validation_order = DT_DATA_ORDER_TIME;
    TEST_OK(ctx, open_parts(ctx, &o, &d));
    ck_assert_int_eq(dt_dataset_count(d.part[1]), 2);
    ck_assert_int_eq(dt_dataset_label(d.part[1], 0), 2);
    opened_free(&d);
    o.validation = 0.9;
    TEST_FAILS(ctx, DT_ERR_CONFIG, "data.validation: 0.9 of 6 examples in 3 recordings is all",
               open_parts(ctx, &o, &d));
    dt_ctx_free(ctx);
}
END_TEST

/* What a model's file says of its data. */
static dt_model_data said_of(dt_ctx *ctx, const dt_dataset *d)
{
    dt__chars text = { .ctx = ctx };
    dt_model_data out;
    TEST_OK(ctx, dt_model_data_text(d, dt__collect, &text));
    ck_assert_ptr_nonnull(dt__chars_text(&text));
    TEST_OK(ctx, dt_model_data_parse(ctx, text.bytes, "model", &out));
    dt__release(ctx, text.bytes);
    return out;
}

/* A signal of a drawn length, frames and windows that are no multiples of each other: a model that
 * reads features cuts files where training did. */
START_TEST(models_cut_signals_as_training_did)
{
    static const uint8_t label[2] = { 0, 1 };
    char shape[40], path[TEST_PATH];
    dt_ctx *ctx = sample_context(1);
    for (int i = 0; i < 8; i++) {
        const int window = 200 + rand() % 400, samples = window / 2 + rand() % (3 * window);
        dt_data_options o = tensors();
        snprintf(shape, sizeof shape, "%d,", samples);
        write_floats("s1.npy", shape, samples, -0.5f * (float)samples);
        write_floats("s2.npy", "700,", 700, 0);
        write_labels("labels.npy", label, 2);
        test_join(path, folder, "s1.npy");
        o.train_tensors = files_of("s?.npy", "labels.npy");
        o.standardize = i % 2 != 0;
        o.window = (dt_window){ true, window, window, 0 };
        o.features = dt_features_defaults();
        o.features.kind = DT_FEATURES_LOG_MEL;
        o.features.rate = 8000;
        o.features.frame_ms = 8 + rand() % 12;
        o.features.step_ms = 3 + rand() % 7;
        o.features.bins = 4;
        opened d;
        dt_dataset *read;
        TEST_OK(ctx, open_parts(ctx, &o, &d));
        dt_model_data said = said_of(ctx, d.part[0]);
        TEST_OK(ctx, dt_model_data_open(ctx, &said, path, NULL, &read));
        const int64_t wanted = samples < window ? 1 : samples / window;
        ck_assert_int_eq(dt_dataset_count(read), wanted);
        batch one = read_all(ctx, d.part[0]), two = read_all(ctx, read);
        const size_t bytes = (size_t)dt_count(two.x) * sizeof(float);
        ck_assert_int_eq(memcmp(one.v, two.v, bytes), 0);
        dt_loader_free(one.l);
        dt_loader_free(two.l);
        dt_dataset_free(read);
        dt_model_data_free(ctx, &said);
        opened_free(&d);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* Settings of data.standardize: none, measured along a drawn dimension, or numbers. */
static void draw_scale(dt_data_options *o)
{
    o->standardize = false;
    o->standard = (dt_standard){ false, { 0 }, { 0 }, rand() % 2 ? DT_AXIS_LAST : DT_AXIS_FIRST };
    const int kind = rand() % 3;
    o->standard.given = kind > 0;
    if (kind < 2) return;
    o->standard.mean = (dt_reals){ 1, { rand() % 9 } };
    o->standard.deviation = (dt_reals){ 1, { 1 + rand() % 9 } };
}

/* Data that a recipe scales otherwise, or along another dimension of the same extent, become the
 * numbers that the model was trained on. */
START_TEST(models_read_numbers_as_in_training)
{
    dt_ctx *ctx = sample_context(1);
    uint8_t label[6] = { 0, 1, 0, 1, 0, 1 };
    write_labels("labels.npy", label, 6);
    for (int i = 0; i < 24; i++) {
        char shape[80];
        const int n = 2 + rand() % 4, rank = 2 + rand() % 2, count = rank == 3 ? n * n * n : n * n;
        dt_data_options o = tensors();
        opened own, other;
        snprintf(shape, sizeof shape, rank == 3 ? "6, %d, %d, %d" : "6, %d, %d", n, n, n);
        write_floats("s.npy", shape, 6 * count, (float)(rand() % 100));
        o.train_tensors = files_of("s.npy", "labels.npy");
        draw_scale(&o);
        TEST_OK(ctx, open_parts(ctx, &o, &own));
        draw_scale(&o);
        TEST_OK(ctx, open_parts(ctx, &o, &other));
        dt_model_data said = said_of(ctx, own.part[0]);
        TEST_OK(ctx, dt_model_data_standardize(&said, other.part[0]));
        batch one = read_all(ctx, own.part[0]), two = read_all(ctx, other.part[0]);
        ck_assert_int_eq(memcmp(one.v, two.v, (size_t)(6 * count) * sizeof(float)), 0);
        dt_loader_free(one.l);
        dt_loader_free(two.l);
        dt_model_data_free(ctx, &said);
        opened_free(&own);
        opened_free(&other);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* Images for a model of arrays: pixels from 0 to 1 are refused where the arrays had other units, or
 * other channels. */
START_TEST(pixels_have_the_units_of_arrays)
{
    dt_ctx *ctx = sample_context(1);
    uint8_t label[6] = { 0, 1, 0, 1, 0, 1 }, pixels[75] = { 0 };
    write_labels("labels.npy", label, 6);
    for (int i = 0; i < 12; i++) {
        char header[100];
        float v[6 * 75];
        const float unit = i % 2 == 0 ? 1 : (float)(3 + rand() % 250);
        dt_data_options o = tensors();
        opened d;
        dt_dataset *image;
        for (int k = 0; k < 6 * 75; k++) v[k] = unit * (float)(rand() % 256) / 255;
        snprintf(header, sizeof header,
                 "{'descr': '<f4', 'fortran_order': False, 'shape': (6, 3, 5, 5), }");
        write_bytes("s.npy", npy_file(1, header, v, sizeof v));
        o.train_tensors = files_of("s.npy", "labels.npy");
        o.standard = (dt_standard){ .given = true };
        if (i % 3 == 0) o.standard.axis = DT_AXIS_LAST;
        TEST_OK(ctx, open_parts(ctx, &o, &d));
        dt_model_data said = said_of(ctx, d.part[0]);
        const dt_images images = { 1, 3, 5, 5, DT_TARGET_CLASS, 1, pixels, label };
        TEST_OK(ctx, dt_dataset_create(ctx, &images, &image));
        const dt_status s = dt_model_data_standardize(&said, image);
        ck_assert_int_eq(s, unit > 1 || i % 3 == 0 ? DT_ERR_ARG : DT_OK);
        dt_dataset_free(image);
        dt_model_data_free(ctx, &said);
        opened_free(&d);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* Each row of a [recordings, time, channels] is a recording. */
START_TEST(recordings_in_one_array)
{
    static const uint8_t label[2] = { 1, 0 };
    write_floats("r.npy", "2, 4, 1", 8, 0);
    write_labels("ry.npy", label, 2);
    dt_ctx *ctx = sample_context(1);
    dt_data_options o = tensors();
    o.train_tensors = files_of("r.npy", "ry.npy");
    o.window = (dt_window){ true, 2, 0, 0 };
    opened d;
    TEST_OK(ctx, open_parts(ctx, &o, &d));
    const int64_t dims[] = { 2, 1 };
    assert_shape(d.part[0], 4, 2, dims);
    batch b = read_all(ctx, d.part[0]);
    for (int i = 0; i < 8; i++) ck_assert(b.v[i] == (float)i && b.label[i / 2] == (i < 4));
    dt_loader_free(b.l);
    opened_free(&d);
    dt_ctx_free(ctx);
}
END_TEST

/* Files in folders of their classes, mixed in proportion. */
START_TEST(folders)
{
    static const int16_t samples[4] = { 1, 2, 3, 4 };
    for (int i = 0; i < 6; i++) {
        char name[40];
        int16_t own[4];
        for (int k = 0; k < 4; k++) own[k] = (int16_t)(samples[k] + 10 * i);
        snprintf(name, sizeof name, "%s/%d.wav", i < 4 ? "yes" : "no", i);
        write_bytes(name, wav_file(1, 8000, own, 4));
    }
    write_bytes("maybe/1.wav", wav_file(1, 8000, samples, 4));
    write_bytes("fast/1.wav", wav_file(1, 16000, samples, 4));
    write_bytes("long/1.wav", wav_file(1, 8000, samples, 3));
    dt_ctx *ctx = sample_context(1);
    dt_data_options o = tensors();
    o.train = (dt_strings){ 2, { "yes/*.wav", "no/*.wav" } };
    opened d;
    TEST_OK(ctx, open_parts(ctx, &o, &d));
    const int64_t dims[] = { 4, 1 };
    assert_shape(d.part[0], 6, 2, dims);
    ck_assert_int_eq(dt_dataset_rate(d.part[0]), 8000);
    ck_assert_str_eq(dt_dataset_class_name(d.part[0], 0), "no");
    batch b = read_all(ctx, d.part[0]);
    static const int32_t wanted[6] = { 1, 0, 1, 1, 0, 1 };
    static const int order[6] = { 0, 4, 1, 2, 5, 3 };
    for (int i = 0; i < 6; i++) {
        ck_assert_int_eq(b.label[i], wanted[i]);
        ck_assert(b.v[4 * i + 1] == (float)(2 + 10 * order[i]));
    }
    dt_loader_free(b.l);
    opened_free(&d);
    o.test = (dt_strings){ 1, { "maybe/1.wav" } };
    TEST_FAILS(ctx, DT_ERR_FORMAT, "folder 'maybe' is not a class of the training data",
               open_parts(ctx, &o, &d));
    o.test.n = 0;
    const char *dir = o.dir;
    o.dir = NULL;
    o.train = (dt_strings){ 1, { "top.csv" } };
    TEST_FAILS(ctx, DT_ERR_FORMAT, "'top.csv': it is in no folder that is its class; a table is",
               open_parts(ctx, &o, &d));
    o.dir = dir;
    o.train = (dt_strings){ 2, { "yes/*.wav", "fast/*.wav" } };
    TEST_FAILS(ctx, DT_ERR_FORMAT, "as `sox IN -r 8000 -c 1 OUT` writes them",
               open_parts(ctx, &o, &d));
    o.train = (dt_strings){ 2, { "yes/*.wav", "long/*.wav" } };
    TEST_FAILS(ctx, DT_ERR_FORMAT, "or data.window, which cuts them", open_parts(ctx, &o, &d));
    o.train = (dt_strings){ 1, { "none/*.wav" } };
    TEST_FAILS(ctx, DT_ERR_CONFIG, "data.train: no file matches 'none/*.wav' in ",
               open_parts(ctx, &o, &d));
    dt_ctx_free(ctx);
}
END_TEST

/* ---- what is refused ---------------------------------------------------------------------- */

START_TEST(refused)
{
    static const uint8_t label[4] = { 0, 1, 2, 3 };
    static const float bad[4] = { 0, 1, NAN, 3 };
    write_floats("x.npy", "4, 2", 8, 0);
    write_floats("wide.npy", "4, 3", 12, 0);
    write_floats("none.npy", "0, 2", 0, 0);
    write_labels("y.npy", label, 4);
    write_labels("three.npy", label, 3);
    write_labels("two.npy", label, 2);
    write_bytes("nan.npy",
                npy_file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }", bad,
                         sizeof bad));
    write_text("t.csv", "a,b\n1,2\n3,4\n");
    dt_ctx *ctx = sample_context(1);
    enum { CASES = 18 };
    static const struct {
        dt_status status;
        const char *text;
    } wanted[CASES] = {
        { DT_ERR_CONFIG, "data.train has no targets: expected data.train.y" },
        { DT_ERR_FORMAT, "three.npy': 3 targets, but x has 4 examples" },
        { DT_ERR_FORMAT, "is the label '0.5', which is not an integer; data.task: regression" },
        { DT_ERR_FORMAT, "none.npy' holds no examples" },
        { DT_ERR_FORMAT, "nan.npy: row 1, column 0 (counted from 0) is nan" },
        { DT_ERR_FORMAT, "data.test has examples of [3], data.train of [2]" },
        { DT_ERR_FORMAT, "wide.npy' has f32[4,3], but examples of" },
        { DT_ERR_FORMAT, "is the label 3; expected 0 to 2" },
        { DT_ERR_CONFIG, "data.columns.target: 'c' is not a column" },
        { DT_ERR_CONFIG, "data.train has no targets: expected data.train.y, or data.columns" },
        { DT_ERR_CONFIG, "data.columns.target labels every row" },
        { DT_ERR_CONFIG, "data.train names no files" },
        { DT_ERR_CONFIG, "data.standardize.mean: 3 numbers for 2 channels" },
        { DT_ERR_CONFIG, "data.task" },
        { DT_ERR_CONFIG, "x.npy' is not a .csv" },
        { DT_ERR_CONFIG, "data.test is of .csv, but data.train is not" },
        { DT_ERR_CONFIG, "data.test has classes by folders, but data.train has none" },
        { DT_ERR_CONFIG, "data.train.y and data.columns.target both give targets" },
    };
    dt_data_options o[CASES];
    for (int i = 0; i < CASES; i++) {
        o[i] = tensors();
        o[i].train_tensors = files_of("x.npy", "y.npy");
    }
    o[0].train_tensors.y = NULL;
    o[1].train_tensors.y = "three.npy";
    write_floats("fy.npy", "4,", 4, 0.5F);
    o[2].train_tensors.y = "fy.npy";
    o[3].train_tensors.x.v[0] = "none.npy";
    o[4].train_tensors = files_of("nan.npy", "two.npy");
    o[5].test_tensors = files_of("wide.npy", "y.npy");
    o[6].train_tensors.x = (dt_strings){ 2, { "x.npy", "wide.npy" } };
    write_floats("x3.npy", "3, 2", 6, 0);
    o[7].train_tensors = files_of("x3.npy", "three.npy");
    o[7].test_tensors = files_of("x.npy", "y.npy");
    o[8].train_tensors = o[9].train_tensors = o[10].train_tensors = files_of("t.csv", NULL);
    o[8].columns.target = (dt_strings){ 1, { "c" } };
    o[10].columns.target = (dt_strings){ 1, { "b" } };
    o[10].window = (dt_window){ true, 1, 1, 0 };
    o[11].train_tensors = (dt_tensor_files){ 0 };
    o[12].standard = (dt_standard){ true, { 3, { 0 } }, { 3, { 1, 1, 1 } }, DT_AXIS_AUTO };
    o[13].task = DT_DATA_DENOISING;
    o[14].train_tensors.x = (dt_strings){ 2, { "t.csv", "x.npy" } };
    o[15].test_tensors = files_of("t.csv", NULL);
    o[15].columns.target = (dt_strings){ 1, { "b" } };
    o[16].test = (dt_strings){ 1, { "x.npy" } };
    o[17].train_tensors = files_of("t.csv", "y.npy");
    o[17].columns.target = (dt_strings){ 1, { "b" } };
    for (int i = 0; i < CASES; i++) {
        opened d;
        TEST_FAILS(ctx, wanted[i].status, wanted[i].text, open_parts(ctx, &o[i], &d));
        ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* Numbers that are not finite are named wherever they are: among those that are measured, held
 * back or tested with. */
START_TEST(numbers_that_are_not_finite)
{
    enum { ROWS = 12, COLUMNS = 3 };
    static const struct {
        int row, column;
        const char *text;
    } at[] = { { 0, 0, "row 0, column 0" },
               { 4, 2, "row 4, column 2" },
               { 11, 1, "row 11, column 1" } };
    static const uint8_t label[ROWS] = { 0, 1, 1 };
    static const float bad[] = { NAN, INFINITY, -INFINITY };
    const char *shape = "{'descr': '<f4', 'fortran_order': False, 'shape': (12, 3), }";
    dt_ctx *ctx = sample_context(2);
    write_labels("fl.npy", label, ROWS);
    write_floats("good.npy", "12, 3", ROWS * COLUMNS, 0);
    for (int i = 0; i < 9; i++) {
        float v[ROWS * COLUMNS];
        const int row = at[i % 3].row, column = at[i % 3].column;
        for (int k = 0; k < ROWS * COLUMNS; k++) v[k] = (float)k;
        v[row * COLUMNS + column] = bad[i / 3];
        write_bytes("bad.npy", npy_file(1, shape, v, sizeof v));
        for (int form = 0; form < 6; form++) {
            dt_data_options o = tensors();
            opened d;
            o.train_tensors = files_of(form == 4 ? "good.npy" : "bad.npy", "fl.npy");
            o.validation = 0.5;
            o.standardize = form != 1 && form != 2;
            if (form == 2) {
                o.standard = (dt_standard){ true, { 1, { 0 } }, { 1, { 1 } }, DT_AXIS_AUTO };
            }
            if (form >= 3) o.test_tensors = files_of("bad.npy", "fl.npy");
            if (form == 5) o.standard = (dt_standard){ .given = true, .axis = DT_AXIS_FIRST };
            TEST_FAILS(ctx, DT_ERR_FORMAT, at[i % 3].text, open_parts(ctx, &o, &d));
            ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
        }
    }
    dt_ctx_free(ctx);
}
END_TEST

static dt_status open_windows(dt_ctx *ctx, void *user)
{
    opened d = { { NULL, NULL, NULL } };
    const dt_status status = open_parts(ctx, user, &d);
    opened_free(&d);
    return status;
}

START_TEST(every_allocation)
{
    static const int16_t samples[4] = { 1, 2, 3, 4 };
    for (int i = 0; i < 4; i++) {
        char name[40];
        snprintf(name, sizeof name, "class%d/%d.wav", i / 2, i);
        write_bytes(name, wav_file(1, 8000, samples, 4));
    }
    write_text("e.csv", "a,b\n1,dog\n2,cat\n3,dog\n4,cat\n");
    dt_data_options o = tensors();
    if (_i == 0) {
        o.train = (dt_strings){ 1, { "class?/*.wav" } };
        o.window = (dt_window){ true, 2, 1, 0 };
    } else {
        o.train_tensors = files_of("e.csv", NULL);
        o.columns.target = (dt_strings){ 1, { "b" } };
    }
    o.validation = 0.5;
    o.standardize = true;
    ck_assert_int_gt(test_every_allocation(open_windows, &o), 20);
}
END_TEST

/* ---- runs --------------------------------------------------------------------------------- */

/* Trains on a table and on windows, and evaluates, by the program. */
START_TEST(recipes_run)
{
    file_bytes table = { NULL, 0 };
    file_text(&table, "label,a,b,c\n");
    for (int i = 0; i < 300; i++) {
        char line[80];
        uint32_t word[4];
        dt__philox(8, (uint64_t)i, word);
        snprintf(line, sizeof line, "%s,%u,%.3f,%u\n", i % 2 ? "odd" : "even", word[0] % 100,
                 1000.0 + (i % 2 ? 5 : -5) + word[1] % 100 / 50.0, word[2] % 9);
        file_text(&table, line);
    }
    write_bytes("run.csv", table);
    for (int i = 0; i < 8; i++) {
        char name[40];
        int16_t wave[400];
        for (int t = 0; t < 400; t++) wave[t] = (int16_t)(1000 * sin(t * (i % 2 ? 0.1 : 0.9) + i));
        snprintf(name, sizeof name, "%s/%d.wav", i % 2 ? "low" : "high", i);
        write_bytes(name, wav_file(1, 8000, wave, 400));
    }
    static const char *const data[2] = {
        "model: {family: mlp, sizes: [3, 8, 2]}\n"
        "data: {format: tensors, train: {x: run.csv}, validation: 0.2, standardize: true,\n"
        "       columns: {inputs: [a, b, c], target: label}, dir: %s}\n",
        "model: {family: mlp, sizes: [32, 16, 2]}\n"
        "data: {format: tensors, train: [\"high/*.wav\", \"low/*.wav\"], validation: 0.25,\n"
        "       split: recording,\n"
        "       window: {length: 32, stride: 16}, standardize: {axis: last}, dir: %s}\n",
    };
    char recipe[4000], path[TEST_PATH], text[2000], *said;
    snprintf(text, sizeof text, data[_i], folder);
    snprintf(recipe, sizeof recipe,
             "run: {dir: %s/out%d, seed: 1, threads: 1}\n%s"
             "train: {epochs: 20, batch_size: 16, optimizer: {lr: 0.01}}\n"
             "qat: {preset: int8-dynamic-int4-weight}\n",
             folder, _i, text);
    write_text("r.yaml", recipe);
    test_join(path, folder, "r.yaml");
    const char *program = DETENT_BINARY_DIR "/detent";
    ck_assert_msg(test_shell(&said, "%s train %s 2>&1", program, path) == 0, "%s", said);
    ck_assert_msg(strstr(said, "100.00 %") != NULL, "%s", said);
    free(said);
}
END_TEST

Suite *test_tensor_data_suite(void)
{
    Suite *suite = suite_create("tensor_data");
    TCase *cases = tcase_create("parts");
    tcase_set_timeout(cases, 60);
    tcase_add_test(cases, joined);
    tcase_add_test(cases, numbers_and_bits);
    tcase_add_test(cases, tables);
    tcase_add_test(cases, windows);
    tcase_add_test(cases, models_cut_signals_as_training_did);
    tcase_add_test(cases, models_read_numbers_as_in_training);
    tcase_add_test(cases, pixels_have_the_units_of_arrays);
    tcase_add_test(cases, recordings_in_one_array);
    tcase_add_test(cases, folders);
    tcase_add_test(cases, refused);
    tcase_add_test(cases, numbers_that_are_not_finite);
    tcase_add_loop_test(cases, every_allocation, 0, 2);
    tcase_add_loop_test(cases, recipes_run, 0, 2);
    suite_add_tcase(suite, cases);
    return suite;
}

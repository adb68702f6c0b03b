/* Format c: typed columns. NAME_row of an export gives the bits of dt_columns_encode and of a
 * loader that standardizes, for drawn columns; NAME_quantize those of a network of integers. */
#include "c_folder.h"
#include "drawn_columns.h"

#include "core/core.h"
#include "data/columns/columns.h"

#include <detent/data.h>
#include <detent/nn.h>
#include <detent/qat.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 60, CLASSES = 3 };

typedef int row_function(const void *fields, float *x);

static dt_module *mlp_of(dt_ctx *ctx, int64_t inputs)
{
    const dt_mlp_options options = { .sizes = { 2, { inputs, CLASSES } },
                                     .eps = 1e-5,
                                     .momentum = 0.1 };
    dt_module *m;
    TEST_OK(ctx, dt_mlp_create(ctx, &options, &m));
    return m;
}

static dt_status export_with(dt_module *m, int64_t inputs, const char *data, const char *path)
{
    dt_ctx *ctx = dt_module_ctx(m);
    const dt_model_info info = { .data = data };
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, (const int64_t[]){ 1, inputs }, &x));
    const c_subject o = { m, &x, 1, 1, "net" };
    const dt_status s = c_export(&o, &info, path);
    dt_tensor_free(x);
    return s;
}

static dt_status put_text(void *user, const char *bytes, size_t n)
{
    dt__put(user, bytes, n);
    return DT_OK;
}

/* detent.data of rows of these columns. */
static void put_data(const dt_columns *c, const double *mean, const double *deviation,
                     dt__chars *to)
{
    const int64_t width = dt_columns_width(c);
    dt__put_text(to, "{\"target\": \"classes\", \"input\": [");
    dt__put_integer(to, width);
    dt__put_text(to, "], \"axis\": 0");
    for (int k = 0; k < 2; k++) {
        dt__put_text(to, k == 0 ? ", \"mean\": [" : ", \"deviation\": [");
        for (int64_t i = 0; i < width; i++) {
            if (i > 0) dt__put_text(to, ",");
            dt__put_real(to, (k == 0 ? mean : deviation)[i]);
        }
        dt__put_text(to, "]");
    }
    dt__put_text(to, ", \"table\": ");
    TEST_OK(to->ctx, dt_columns_text(to->ctx, c, put_text, to));
    dt__put_text(to, "}");
    ck_assert_ptr_nonnull(dt__chars_text(to));
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* The struct of an export, as a compiler lays it out. */
static void set_fields(const dt_columns *c, const dt_field *row, unsigned char *to)
{
    size_t at = 0;
    for (int64_t i = 0; i < c->n; i++) {
        const dt_column *one = &c->column[i];
        const double v = row[i].number;
        const int code = isnan(v) ? -1 : (int)v;
        if (one->type == DT_COLUMN_IGNORE) continue;
        const bool real = one->type == DT_COLUMN_NUMBER || one->type == DT_COLUMN_TIME;
        const size_t size = real ? sizeof v : sizeof code;
        at = (at + size - 1) / size * size;
        memcpy(to + at, real ? (const void *)&v : (const void *)&code, size);
        at += size;
    }
}

/* The values that a loader gives for encoded rows. */
static void standardize(dt_ctx *ctx, int64_t width, const double *mean, const double *deviation,
                        float *x)
{
    const int32_t labels[ROWS] = { 0 };
    const dt_arrays arrays = { .count = ROWS,
                               .rank = 1,
                               .dims = { width },
                               .x_dtype = DT_ARRAY_F32,
                               .x = x,
                               .y_dtype = DT_ARRAY_I32,
                               .y = labels,
                               .target = DT_TARGET_CLASS };
    dt_loader_options order = dt_loader_defaults();
    dt_dataset *d;
    dt_loader *l;
    dt_tensor *got, *target;
    TEST_OK(ctx, dt_dataset_from_arrays(ctx, &arrays, &d));
    TEST_OK(ctx, dt_dataset_standardize(d, width, mean, deviation));
    order.batch_size = ROWS;
    order.shuffle = false;
    TEST_OK(ctx, dt_loader_create(d, &order, &l));
    TEST_OK(ctx, dt_loader_next(l, &got, &target));
    memcpy(x, dt_data(got), (size_t)(ROWS * width) * sizeof *x);
    dt_loader_free(l);
    dt_dataset_free(d);
}

static void compare_rows(dt_ctx *ctx, drawn_columns *d, const double *mean, const double *deviation,
                         const c_loaded *l)
{
    const int64_t width = dt_columns_width(&d->all);
    const size_t bytes = (size_t)width * sizeof(float);
    float *want = malloc(ROWS * bytes), *got = malloc(ROWS * bytes);
    row_function *row = (row_function *)c_function_of(l, "net_row");
    for (int r = 0; r < ROWS; r++) {
        dt_field field[DRAWN_COLUMNS];
        _Alignas(16) unsigned char fields[16 * DRAWN_COLUMNS];
        for (int i = 0; i < d->all.n; i++) field[i].number = draw_field(d, &d->column[i]);
        TEST_OK(ctx, dt_columns_encode(ctx, &d->all, field, want + r * width));
        set_fields(&d->all, field, fields);
        ck_assert_int_eq(row(fields, got + r * width), 0);
        /* one field that is missing, or out of range */
        const int i = drawn_below(d, (int)d->all.n);
        const dt_column *c = &d->column[i];
        if (c->type == DT_COLUMN_IGNORE) continue;
        const bool gone = c->missing == DT_MISSING_REFUSED && drawn_below(d, 2) == 0;
        float *other = malloc(bytes);
        field[i].number = gone ? (double)NAN
                          : c->type == DT_COLUMN_NUMBER || c->type == DT_COLUMN_TIME
                              ? (double)INFINITY
                              : 99;
        set_fields(&d->all, field, fields);
        ck_assert_int_eq(dt_columns_encode(ctx, &d->all, field, other), DT_ERR_FORMAT);
        ck_assert_int_eq(row(fields, other), i + 1);
        free(other);
    }
    standardize(ctx, width, mean, deviation, want);
    for (int64_t i = 0; i < ROWS * width; i++) {
        TEST_EACH(memcmp(&want[i], &got[i], sizeof *got) == 0, "row %d, number %d: %.9g, %.9g",
                  (int)(i / width), (int)(i % width), (double)want[i], (double)got[i]);
    }
    free(want);
    free(got);
}

static const char *const compilers[] = {
    "cc " C_STRICT " -O1",
    "cc -O3 -march=native -ffp-contract=fast",
    "g++ -x c++ -std=c++17 -pedantic -Wall -Wextra -Wconversion -Werror -O2",
    "clang " C_STRICT " -O2 -ffp-contract=fast",
};

START_TEST(rows_have_the_same_bits)
{
    const char *cc = compilers[_i % DT__COUNT_OF(compilers)];
    char path[TEST_PATH];
    drawn_columns d;
    double mean[256], deviation[256];
    dt_ctx *ctx;
    if (!test_has_compiler(cc)) return;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    draw_columns(&d, (uint64_t)_i + 1000);
    const int64_t width = dt_columns_width(&d.all);
    ck_assert_int_lt(width, 256);
    for (int i = 0; i < width; i++) {
        mean[i] = drawn_number(&d);
        deviation[i] = fabs(drawn_number(&d)) + 0.01;
    }
    dt__chars data = { .ctx = ctx };
    put_data(&d.all, mean, deviation, &data);
    dt_module *m = mlp_of(ctx, width);
    c_new_folder(path);
    TEST_OK(ctx, export_with(m, width, data.bytes, path));
    c_check_folder(path, cc, "columns");
    c_loaded l = { NULL, NULL, NULL };
    if (strstr(cc, "++") == NULL) {
        l = c_load(path, cc);
        compare_rows(ctx, &d, mean, deviation, &l);
        c_unload(&l);
    }
    dt__release(ctx, data.bytes);
    dt_module_free(m);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- names ----------------------------------------------------------------------------------- */

START_TEST(names_are_those_of_the_columns)
{
    static const char data[] =
        "{\"target\": \"classes\", \"input\": [8], \"table\": ["
        "{\"name\": \"class\", \"type\": \"category\", \"categories\": [\"name\", \"code\", "
        "\"unknown\", \"7\", \"\\u5317\", \"\\u4eac\"], \"words\": [\"-\"]},"
        "{\"name\": \"int\", \"type\": \"boolean\"},"
        "{\"name\": \"int_\", \"type\": \"number\"}]}";
    static const char program[] =
        "#include \"net.h\"\n"
        "int main(void)\n{\n"
        "    net_fields f;\n    float x[8];\n    int wrong = 0;\n"
        "    f.class_ = net_class_7;\n    f.int_ = 1;\n    f.int_2 = 0.5;\n"
        "    wrong += net_row(&f, x) != 0 || x[3] != 1 || x[2] != 0 || x[6] != 1 || x[7] != 0.5f;\n"
        "    wrong += net_class_code(\"7\") != 4 || net_class_code(\"\") != -1;\n"
        "    wrong += net_class_code(\"8\") != net_class_unknown || net_class_code(\"nab\") != 0;\n"
        "    wrong += net_class_code(\"Na\") != -1 || net_class_code(\"-\") != -1;\n"
        "    wrong += net_class_code(\" 7\\t\") != 4 || net_class_code(\"7 8\") != 0;\n"
        "    wrong += net_class_code(\" \") != -1 || net_class_code(\"na \") != -1;\n"
        "    wrong += net_class_code(\"\\t- \") != -1 || net_class_code(\"co de\") != 0;\n"
        "    wrong += net_class_name_2 != 1 || net_class_code_2 != 2 || net_class_unknown_2 != 3;\n"
        "    wrong += net_class_word != 5 || net_class_word_2 != 6;\n"
        "    f.int_ = -1;\n    wrong += net_row(&f, x) != 2;\n"
        "    f.int_ = 2;\n    wrong += net_row(&f, x) != 2;\n"
        "    f.class_ = 7;\n    wrong += net_row(&f, x) != 1;\n"
        "    return wrong;\n}\n";
    char path[TEST_PATH], file[TEST_PATH], *output;
    dt_ctx *ctx;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    dt_module *m = mlp_of(ctx, 8);
    c_new_folder(path);
    TEST_OK(ctx, export_with(m, 8, data, path));
    c_check_folder(path, compilers[0], "names");
    test_join(file, path, "main.c");
    test_write_file(file, program, sizeof program - 1);
    const int status = test_shell(
        &output, "cd %s && cc " C_STRICT " net.c main.c -o main 2>&1 && ./main 2>&1", path);
    ck_assert_msg(status == 0, "%d: %s", status, output);
    free(output);
    dt_module_free(m);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(other_columns_are_refused)
{
    static const char *const bad[][2] = {
        { "{\"target\": \"classes\", \"input\": [2], \"table\": [{\"name\": \"a\"}]}",
          "make 1 numbers" },
        { "{\"target\": \"classes\", \"input\": [1, 1], \"table\": [{\"name\": \"a\"}]}",
          "make 1 numbers" },
        { "{\"target\": \"classes\", \"input\": [1], \"table\": [{\"name\": \"a\"}]}",
          "another size" },
        { "{\"target\": \"classes\", \"input\": [2], \"table\": [{\"name\": \"a\", \"type\": 3}]}",
          "expected" },
    };
    char path[TEST_PATH];
    dt_ctx *ctx;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    dt_module *m = mlp_of(ctx, 2);
    c_new_folder(path);
    for (int i = 0; i < DT__COUNT_OF(bad); i++) {
        ck_assert_int_eq(export_with(m, 2, bad[i][0], path), DT_ERR_FORMAT);
        ck_assert_msg(strstr(dt_error(ctx), bad[i][1]) != NULL, "%s", dt_error(ctx));
        ck_assert(!test_file_exists(path));
    }
    dt_module_free(m);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- integers -------------------------------------------------------------------------------- */

static void train_once(dt_ctx *ctx, dt_module *m, dt_tensor *x)
{
    dt_optimizer *o;
    dt_tape *t;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    TEST_OK(ctx, dt_optimizer_create(m, NULL, &o));
    dt_train(m, true);
    dt_tensor *y = dt_forward(t, m, x);
    TEST_OK(ctx, dt_backward(t, dt_mean(t, dt_mul(t, y, y), NULL), NULL));
    TEST_OK(ctx, dt_optimizer_step(o, t, 0.01));
    dt_optimizer_free(o);
    dt_tape_free(t);
}

typedef void quantize_function(const float *x, int8_t *codes);
typedef void dequantize_function(const int8_t *codes, float *y);
typedef void encode_int16_function(const int16_t *v, int8_t *codes);
typedef int device_function(const int8_t *x, int8_t *y, void *arena);

/* Numbers within the range and far beyond it, and halves of codes. */
static void compare_codes(dt_ctx *ctx, dt_module *m, int64_t inputs, const c_loaded *l)
{
    drawn_columns d = { .state = 5 };
    quantize_function *quantize = (quantize_function *)c_function_of(l, "net_quantize");
    dequantize_function *dequantize = (dequantize_function *)c_function_of(l, "net_dequantize");
    device_function *run = (device_function *)(c_any_function *)l->run;
    dt_tensor *x;
    dt_tape *t;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, (const int64_t[]){ 1, inputs }, &x));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_no_grad(t, true);
    for (int i = 0; i < 300; i++) {
        int8_t codes[16], answers[CLASSES];
        float y[CLASSES], *v = dt_data_mut(x);
        for (int k = 0; k < inputs; k++) v[k] = (float)drawn_number(&d);
        if (i % 3 == 0) dequantize((const int8_t[]){ 1, -3, 100 }, v);
        quantize(v, codes);
        ck_assert_int_eq(run(codes, answers, l->arena), 0);
        dequantize(answers, y);
        dt_tape_reset(t);
        const dt_tensor *want = dt_contiguous(t, dt_forward(t, m, x));
        TEST_OK(ctx, dt_tape_status(t));
        ck_assert_mem_eq(y, dt_data(want), sizeof y);
    }
    dt_tape_free(t);
    dt_tensor_free(x);
}

/* Raw numbers become the codes of the standardized ones. */
static void compare_raw(const c_loaded *l)
{
    drawn_columns d = { .state = 6 };
    quantize_function *quantize = (quantize_function *)c_function_of(l, "net_quantize");
    quantize_function *encode = (quantize_function *)c_function_of(l, "net_encode");
    encode_int16_function *short_ones =
        (encode_int16_function *)c_function_of(l, "net_encode_int16");
    for (int i = 0; i < 300; i++) {
        float v[5], x[5];
        int16_t raw[5];
        int8_t codes[5], wanted[5];
        for (int k = 0; k < 5; k++) {
            v[k] = (float)drawn_number(&d);
            raw[k] = (int16_t)(37 * i * (k + 1) - 9000);
            x[k] = (v[k] - (float)(k + 1)) / (float)(k + 1);
        }
        quantize(x, wanted);
        encode(v, codes);
        ck_assert_mem_eq(codes, wanted, sizeof codes);
        for (int k = 0; k < 5; k++) x[k] = ((float)raw[k] - (float)(k + 1)) / (float)(k + 1);
        quantize(x, wanted);
        short_ones(raw, codes);
        ck_assert_mem_eq(codes, wanted, sizeof codes);
    }
}

START_TEST(codes_are_those_of_the_network)
{
    const int64_t inputs = 5;
    static const char data[] =
        "{\"target\": \"classes\", \"input\": [5], \"axis\": 0, \"mean\": [1, 2, 3, 4, 5], "
        "\"deviation\": [1, 2, 3, 4, 5], \"table\": [{\"name\": \"a\"}, {\"name\": \"b\", "
        "\"type\": "
        "\"category\", \"categories\": [\"x\", \"y\"]}, {\"name\": \"c\", \"type\": \"time\", "
        "\"parts\": [\"of_day\"]}]}";
    char path[TEST_PATH];
    dt_qat_options qat = dt_qat_defaults();
    dt_ctx *ctx;
    dt_tensor *x;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    dt_module *m = mlp_of(ctx, inputs);
    qat.preset = DT_DEVICE_INT8;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, (const int64_t[]){ 8, inputs }, &x));
    TEST_OK(ctx, dt_fill_normal(x, 0, 1));
    TEST_OK(ctx, dt_prepare(m, &qat));
    train_once(ctx, m, x);
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    dt_train(m, false);
    c_new_folder(path);
    TEST_OK(ctx, export_with(m, inputs, data, path));
    for (int i = 0; i < DT__COUNT_OF(compilers); i++) {
        if (test_has_compiler(compilers[i])) c_check_folder(path, compilers[i], "integers");
    }
    c_loaded l = c_load(path, compilers[0]);
    compare_codes(ctx, m, inputs, &l);
    compare_raw(&l);
    c_unload(&l);
    dt_tensor_free(x);
    dt_module_free(m);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_export_c_columns_suite(void)
{
    const test_draws draws = { .usual = 60, .quick = 16, .sanitized = 4 };
    Suite *s = suite_create("export_c_columns");
    TCase *c = tcase_create("columns");
    tcase_add_loop_test(c, rows_have_the_same_bits, 0, (int)test_count(draws));
    tcase_add_test(c, names_are_those_of_the_columns);
    tcase_add_test(c, other_columns_are_refused);
    tcase_add_test(c, codes_are_those_of_the_network);
    suite_add_tcase(s, c);
    return s;
}

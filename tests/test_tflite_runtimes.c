/* The check of TFLite files refuses what LiteRT refuses: versions of operators that it lacks,
 * uneven splits, and graphs that hold one batch although their signature leaves it open. Recurrent
 * networks, whose states are such constants, are written for any batch. */
#include "testing.h"
#include "tflite_files.h"

#include "core/tensor.h"
#include "export/tflite/tflite_put.h"
#include "io/tflite/lite_graph.h"

#include <detent/experimental/nn.h>
#include <detent/qat.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const test_draws draws = { .usual = 40, .sanitized = 6 };

static dt_ctx *ctx;
static dt__stream random_stream;
static char folder[TEST_PATH];

static void begin(void)
{
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    random_stream = dt__stream_of(7, DT__FOR_USER);
    test_folder(folder);
}

static void end(void) { dt_ctx_free(ctx); }

static int64_t pick(int64_t least, int64_t most)
{
    return least + (int64_t)dt__random_below(&random_stream, (uint64_t)(most - least + 1));
}

/* ---- graphs ---------------------------------------------------------------------------------- */

/* Writes p with input x and output y, and reads it; with `batch`, runs it with so many examples. */
static dt_status try(dt__lite *p, int x, int y, int64_t batch)
{
    char path[TEST_PATH];
    size_t n;
    dt__vlite *v;
    dt__lite_input(p, "input", x);
    dt__lite_output(p, "output", y);
    p->batched = true;
    test_join(path, folder, "graph.tflite");
    TEST_OK(ctx, dt__lite_write(p, path, &n));
    dt__lite_free(p);
    char *bytes = test_read_file(path, &n);
    dt_status s = dt__vlite_open(ctx, path, &(dt__span){ bytes, n }, NULL, &v);
    if (s == DT_OK && batch > 0) {
        ck_assert(dt__vlite_is_open(v));
        dt__vlite_resize(v, batch);
        float *zeros = calloc((size_t)dt__vlite_input(v, 0)->count, sizeof *zeros);
        s = dt__vlite_give(v, 0, zeros);
        if (s == DT_OK) s = dt__vlite_run(v);
        free(zeros);
    }
    if (s == DT_OK && batch > 0 && dt__vlite_output(v, 0)->dims[0] != batch) s = DT_ERR_FORMAT;
    dt__vlite_close(v);
    free(bytes);
    return s;
}

static const struct {
    const char *name;
    int code, version;
} operators[] = {
#define OPERATOR(name, code, options, activation, version) { #name, code, version },
    DT__LITE_OPERATORS(OPERATOR)
#undef OPERATOR
};

START_TEST(versions_are_those_of_the_runtime)
{
    const dt__lite_shape s = { 2, { 1, 4 } };
    for (int i = 0; i < DT__COUNT_OF(operators); i++) {
        const int newest = dt__vlite_operator_of(operators[i].code)->newest;
        TEST_EACH(operators[i].version <= newest, "%s is written as version %d", operators[i].name,
                  operators[i].version);
        for (int version = 0; version <= newest + 3; version++) {
            dt__lite p;
            dt__lite_begin(ctx, &p);
            const int x = dt__lite_result(&p, "input", &s);
            const int y = dt__lite_node(&p, (dt__lite_operator)i, &x, 1, &s);
            dt__lite_version(&p, version);
            const bool refused = try(&p, x, y, 0) == DT_ERR_UNSUPPORTED &&
                                 strstr(dt_error(ctx), "has version") != NULL;
            TEST_EACH(refused == (version < 1 || version > newest), "%s, version %d",
                      operators[i].name, version);
        }
    }
}
END_TEST

/* SPLIT of [rows, n] into `parts` along its second dimension. */
static dt_status split(int64_t n, int parts, int64_t batch)
{
    dt__lite p;
    const dt__lite_shape in = { 2, { 1, n } }, out = { 2, { 1, n / parts } };
    const int32_t one = 1;
    int part[16];
    dt__lite_begin(ctx, &p);
    const int x = dt__lite_result(&p, "input", &in);
    const int axis = dt__lite_constant(
        &p, &(dt__lite_array){ .type = DT__LITE_INT32, .data = &one, .bytes = sizeof one });
    DT__LITE(&p, SPLIT, &out, axis, x);
    dt__lite_option(&p, 0, DT__FLAT_INT, parts);
    dt__lite_results(&p, parts, part);
    return try(&p, x, part[parts - 1], batch);
}

START_TEST(splits_are_even)
{
    for (int i = 0; i < test_count(draws); i++) {
        const int parts = (int)pick(2, 16);
        const int64_t n = pick(parts, 90), batch = pick(1, 5);
        const bool even = n % parts == 0;
        TEST_EACH((split(n, parts, batch) == DT_OK) == even, "%lld in %d parts", (long long)n,
                  parts);
        TEST_EACH(split(n - n % parts, parts, batch) == DT_OK, "%lld in %d parts",
                  (long long)(n - n % parts), parts);
    }
}
END_TEST

/* Graphs of [1, n] that hold for any batch, or with `fixed` for one example alone. */
enum { SHAPE, SLICE, JOIN, ROWS, KINDS };

static int put(dt__lite *p, int kind, int x, int64_t n, bool fixed)
{
    const int64_t width = pick(1, 9), rows = fixed ? 2 : 1;
    const dt__lite_shape same = { 2, { 1, n } }, three = { 3, { 1, n, 1 } };
    const dt__lite_shape wide = { 2, { 1, n + width } };
    const dt__lite_shape two = { 2, { kind == ROWS ? rows : 1, kind == ROWS ? n : width } };
    static const float zeros[2 * 64];
    const int constant = dt__lite_constant(
        p, &(dt__lite_array){ .type = DT__LITE_FLOAT32,
                              .shape = two,
                              .data = zeros,
                              .bytes = (size_t)(two.dims[0] * two.dims[1]) * sizeof(float) });
    int y;
    switch (kind) {
    case SHAPE: return DT__LITE(p, RESHAPE, &three, x, DT__LITE_INTS(p, fixed ? 1 : -1, n, 1));
    case SLICE:
        y = DT__LITE(p, STRIDED_SLICE, &same, x, DT__LITE_INTS(p, 0, 0), DT__LITE_INTS(p, 1, n),
                     DT__LITE_INTS(p, 1, 1));
        dt__lite_option(p, 0, DT__FLAT_INT, fixed ? 0 : 1);
        dt__lite_option(p, 1, DT__FLAT_INT, fixed ? 0 : 1);
        return y;
    case JOIN:
        y = DT__LITE(p, CONCATENATION, &wide, x, fixed ? constant : x);
        if (!fixed) p->tensor[y].shape.dims[1] = 2 * n;
        dt__lite_option(p, 0, DT__FLAT_INT, 1);
        return y;
    default: return DT__LITE(p, ADD, &same, x, constant);
    }
}

START_TEST(a_batch_is_not_fixed)
{
    for (int i = 0; i < test_count(draws); i++) {
        const int64_t n = pick(1, 60), batch = pick(3, 7);
        const int kind = i % KINDS;
        for (int fixed = 0; fixed < 2; fixed++) {
            dt__lite p;
            dt__lite_begin(ctx, &p);
            const int x = dt__lite_result(&p, "input", &(dt__lite_shape){ 2, { 1, n } });
            const int y = put(&p, kind, x, n, fixed != 0);
            const dt_status s = try(&p, x, y, batch);
            TEST_EACH((s == DT_OK) == !fixed, "kind %d, %lld columns, %s: %s", kind, (long long)n,
                      fixed ? "fixed" : "open", dt_error(ctx));
        }
    }
}
END_TEST

/* ---- recurrent networks ---------------------------------------------------------------------- */

/* A network of random extents, of floats or with int4 weights. */
static dt_module *draw_network(int64_t features, bool coded)
{
    dt_module *m;
    dt_recurrent_layer o = dt_recurrent_defaults();
    dt_qat_options q = dt_qat_defaults();
    o.in = features;
    o.hidden = pick(1, 9);
    o.layers = pick(1, 2);
    o.bias = pick(0, 1) == 1;
    o.bidirectional = pick(0, 1) == 1;
    o.last = pick(0, 1) == 1;
    TEST_OK(ctx, (pick(0, 2) == 0 ? dt_gru_create : dt_lstm_create)(ctx, &o, &m));
    if (!coded) return m;
    q.weight.quant.granularity = DT_PER_CHANNEL;
    q.weight.has_granularity = true;
    TEST_OK(ctx, dt_prepare(m, &q));
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    return m;
}

START_TEST(recurrent_networks_take_any_batch)
{
    for (int i = 0; i < test_count(draws); i++) {
        char stem[TEST_PATH], path[TEST_PATH + 8];
        const int64_t dims[] = { pick(2, 8), pick(1, 7), pick(1, 6) };
        dt_module *m = draw_network(dims[2], i % 2 == 1);
        dt_tensor *x;
        dt__vlite *v;
        size_t n;
        TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 3, dims, &x));
        TEST_OK(ctx, dt_fill_normal(x, 0, 1));
        test_join(stem, folder, "network");
        tflite_subject s = { .m = m, .x = &x, .n_in = 1 };
        const double apart = tflite_check(&s, stem, false);
        TEST_EACH(apart < (i % 2 == 1 ? 5e-2 : 2e-5), "network %d: %g apart", i, apart);
        snprintf(path, sizeof path, "%s.tflite", stem);
        char *bytes = test_read_file(path, &n);
        TEST_OK(ctx, dt__vlite_open(ctx, path, &(dt__span){ bytes, n }, NULL, &v));
        TEST_EACH(dt__vlite_is_open(v), "network %d is for one example alone", i);
        dt__vlite_close(v);
        free(bytes);
        dt_tensor_free(x);
        dt_module_free(m);
    }
}
END_TEST

/* ---- transposed convolutions of integers ----------------------------------------------------- */

/* A network of integers of one such layer. */
static dt_module *draw_transposed(const int64_t dims[4], int64_t groups)
{
    dt_module *m, *child;
    dt_tape *t;
    dt_tensor *x;
    const dt_shape shape = { 3, { dims[1], dims[2], dims[3] } };
    dt_qat_options q = dt_qat_defaults();
    dt_conv_layer l = { .in = dims[1],
                        .out = groups * pick(1, 3),
                        .kernel = { pick(1, 3), pick(1, 3) },
                        .bias = true,
                        .conv = dt_conv_defaults() };
    l.conv.groups = groups;
    l.conv.stride[0] = pick(1, 2);
    TEST_OK(ctx, dt_sequential_create(ctx, &m));
    TEST_OK(ctx, dt_conv_transpose2d_create(ctx, &l, &child));
    TEST_OK(ctx, dt_module_add(m, "up", child));
    q.preset = pick(0, 1) == 0 ? DT_DEVICE_INT8 : DT_DEVICE_INT4;
    q.inputs = &shape;
    q.n_inputs = 1;
    if (groups > 1) q.preset = DT_DEVICE_INT8;
    TEST_OK(ctx, dt_prepare(m, &q));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 4, dims, &x));
    TEST_OK(ctx, dt_fill_normal(x, 0, 1));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_train(m, true);
    ck_assert_ptr_nonnull(dt_forward(t, m, x));
    dt_tape_free(t);
    dt_tensor_free(x);
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    return m;
}

START_TEST(transposed_convolutions_have_no_groups)
{
    for (int i = 0; i < test_count(draws); i++) {
        char stem[TEST_PATH], path[TEST_PATH + 8];
        const int64_t groups = pick(1, 3);
        const int64_t dims[] = { 2, groups * pick(1, 2), pick(1, 5), pick(1, 5) };
        dt_module *m = draw_transposed(dims, groups);
        dt_tensor *x;
        TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 4, dims, &x));
        TEST_OK(ctx, dt_fill_normal(x, 0, 1));
        test_join(stem, folder, "up");
        snprintf(path, sizeof path, "%s.tflite", stem);
        if (groups == 1) {
            tflite_subject s = { .m = m, .x = &x, .n_in = 1 };
            ck_assert(tflite_check(&s, stem, false) == 0);
            ck_assert(s.summary.exact);
        } else {
            const dt_trace_input in = { .dtype = DT_F32,
                                        .rank = 4,
                                        .dims = { 1, dims[1], dims[2], dims[3] } };
            const dt_trace_options o = { .input = &in, .n_inputs = 1 };
            const dt_export_options none = dt_export_defaults();
            dt_trace *t;
            char why[200] = "";
            bool all = true;
            TEST_OK(ctx, dt_trace_create(m, &o, &t));
            for (int64_t k = 0; k < dt_trace_calls(t); k++) {
                all = all && dt_exporter_named("tflite")->expresses(t, dt_trace_call_at(t, k),
                                                                    &none, why, sizeof why);
            }
            ck_assert(!all);
            ck_assert_msg(strstr(why, "groups") != NULL, "%s", why);
            dt_trace_free(t);
        }
        dt_tensor_free(x);
        dt_module_free(m);
    }
}
END_TEST

Suite *test_tflite_runtimes_suite(void)
{
    Suite *s = suite_create("tflite_runtimes");
    TCase *c = tcase_create("files");
    tcase_set_timeout(c, 300);
    tcase_add_checked_fixture(c, begin, end);
    tcase_add_test(c, versions_are_those_of_the_runtime);
    tcase_add_test(c, splits_are_even);
    tcase_add_test(c, a_batch_is_not_fixed);
    tcase_add_test(c, recurrent_networks_take_any_batch);
    tcase_add_test(c, transposed_convolutions_have_no_groups);
    suite_add_tcase(s, c);
    return s;
}

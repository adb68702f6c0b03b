/* Ops of a program that no format knows: the calls of their `lower` are exported to C (the same
 * bits, by the folder's self-test), ONNX (the same bits) and TFLite, and their gradients are those
 * of these calls. */
#include "c_folder.h"
#include "testing.h"
#include "tflite_files.h"

#include "core/tensor.h"
#include "export/exporters.h"
#include "io/onnx/interpret/interpret.h"

#include <detent/experimental/export.h>
#include <math.h>
#include <string.h>

/* ---- the ops --------------------------------------------------------------------------------- */

typedef struct options {
    double number;
} options;

static const options defaults = { 0.5 };

static const dt_key keys[] = {
    { "number", DT_KEY_REAL, .offset = offsetof(options, number), .text = "any number above 0" },
    { 0 },
};

static dt_status like_x(dt_call *c)
{
    return dt_result(c, 0, c->in[0]->dtype, c->in[0]->rank, c->in[0]->dims);
}

/* y[i] = f(x[i], number) */
static void map(const dt_call *c, float (*f)(float x, float number))
{
    const float *x = dt_data(c->arg[0]), number = (float)((const options *)c->options)->number;
    float *y = dt_data_mut(c->y);
    for (int64_t i = 0; i < dt_count(c->y); i++) y[i] = f(x[i], number);
}

static float softshrink_of(float x, float n)
{
    const float within = x < -n ? -n : x;
    return x - (within > n ? n : within);
}
static float softsign_of(float x, float n) { return x / (n + fabsf(x)); }
static float relu2_of(float x, float n) { return (x < 0 ? 0 : x) * (x < 0 ? 0 : x) * n; }
static float hardshrink_of(float x, float n) { return fabsf(x) - n > 0 ? x : 0; }

static void softshrink(const dt_call *c) { map(c, softshrink_of); }
static void softsign(const dt_call *c) { map(c, softsign_of); }
static void relu2(const dt_call *c) { map(c, relu2_of); }
static void hardshrink(const dt_call *c) { map(c, hardshrink_of); }

static void softshrink_means(dt_tape *t, dt_tensor *const *in, const void *given, dt_tensor **out)
{
    const double n = ((const options *)given)->number;
    out[0] = dt_sub(t, in[0], dt_clamp(t, in[0], -n, n));
}

static void softsign_means(dt_tape *t, dt_tensor *const *in, const void *given, dt_tensor **out)
{
    dt_tensor *n = dt_number(t, in[0], ((const options *)given)->number);
    out[0] = dt_div(t, in[0], dt_add(t, n, dt_abs(t, in[0])));
}

static void relu2_means(dt_tape *t, dt_tensor *const *in, const void *given, dt_tensor **out)
{
    dt_tensor *n = dt_number(t, in[0], ((const options *)given)->number);
    out[0] = dt_mul(t, dt_square(t, dt_relu(t, in[0])), n);
}

static void hardshrink_means(dt_tape *t, dt_tensor *const *in, const void *given, dt_tensor **out)
{
    dt_tensor *n = dt_number(t, in[0], ((const options *)given)->number);
    dt_tensor *zero = dt_number(t, in[0], 0);
    out[0] = dt_where(t, dt_sub(t, dt_abs(t, in[0]), n), in[0], zero);
}

static void gauss(const dt_call *c) { map(c, softsign_of); }

/* TFLite has no `erf` */
static void gauss_means(dt_tape *t, dt_tensor *const *in, const void *given, dt_tensor **out)
{
    (void)given;
    out[0] = dt_erf(t, in[0]);
}

#define OP(op)                                                                                     \
    {                                                                                              \
        .name = #op, .text = #op, .in_name = { "x" }, .out_name = { "y" },                         \
        .options_size = sizeof(options), .defaults = &defaults, .keys = keys, .shape = like_x,     \
        .forward = op, .lower = op##_means                                                         \
    }

static const dt_op ops[] = { OP(softshrink), OP(softsign), OP(relu2), OP(hardshrink) };
static const dt_op of_erf = OP(gauss); /* for its calls alone */

/* ---- a module of three of them --------------------------------------------------------------- */

typedef struct chain {
    const dt_op *op[3];
    options with[3];
} chain;

static void run_chain(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                      int n_out)
{
    const chain *c = dt_module_state(m);
    dt_tensor *x = in[0];
    (void)n_in;
    (void)n_out;
    for (int i = 0; i < 3; i++) x = dt_apply(t, c->op[i], &x, 1, &c->with[i]);
    out[0] = x;
}

static const dt_module_type chain_type = { .name = "chain", .forward = run_chain };

static dt_ctx *ctx;
static dt_module *m;
static dt_tensor *x, *y;

static void open_chain(uint64_t seed, int kinds)
{
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    dt_seed(ctx, seed);
    TEST_OK(ctx, dt_module_create(ctx, &chain_type, sizeof(chain), &m));
    chain *c = dt_module_state(m);
    for (int i = 0; i < 3; i++) {
        c->op[i] = &ops[(seed * 7 + (uint64_t)i * 5 + seed / 3) % (uint64_t)kinds];
        c->with[i].number = 0.1 + (double)((seed * 13 + (uint64_t)i) % 17) / 16;
    }
    const int64_t dims[] = { 2, 3 + (int64_t)(seed % 5), 4 };
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 3, dims, &x));
    TEST_OK(ctx, dt_fill_normal(x, 0, 2));
    dt_tape *t;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_no_grad(t, true);
    dt_tensor *out = dt_forward(t, m, x);
    ck_assert_msg(out != NULL, "%s", dt_error(ctx));
    TEST_OK(ctx, dt_tensor_from(ctx, DT_F32, out->rank, out->dims, dt_data(out), &y));
    dt_tape_free(t);
}

static void close_chain(void)
{
    dt_tensor_free(x);
    dt_tensor_free(y);
    dt_module_free(m);
    dt_ctx_free(ctx);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static const test_draws chains = { .usual = 64, .sanitized = 2, .quick = 8 };

START_TEST(c_has_their_bits)
{
    for (int64_t i = 0; i < test_count(chains); i++) {
        open_chain((uint64_t)i, DT__COUNT_OF(ops));
        c_check_model(m, x, "cc " C_STRICT, "chain");
        close_chain();
    }
}
END_TEST

START_TEST(onnx_has_their_bits)
{
    char folder[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    test_join(path, folder, "net.onnx");
    const dt_exporter *e = dt_exporter_named("onnx");
    for (int64_t i = 0; i < test_count(chains); i++) {
        dt_trace *t;
        dt__verify *v;
        dt_export_summary summary;
        open_chain((uint64_t)i, DT__COUNT_OF(ops));
        const dt_trace_input in = { .dtype = DT_F32,
                                    .rank = 3,
                                    .dims = { 1, dt_dim(x, 1), dt_dim(x, 2) } };
        const dt_trace_options o = { .input = &in, .n_inputs = 1, .becomes = e->becomes };
        const dt_export_options as = dt_export_defaults();
        TEST_OK(ctx, dt_trace_create(m, &o, &t));
        const dt_export_call call = {
            .ctx = ctx, .m = m, .trace = t, .options = &as, .path = path, .summary = &summary
        };
        TEST_OK(ctx, e->write(&call));
        TEST_OK(ctx, dt__verify_open(ctx, path, NULL, &v));
        dt__verify_named given = { .name = dt__verify_input_name(v, 0),
                                   .value = { .type = dt__verify_input_type(v, 0),
                                              .rank = 3,
                                              .dims = { dt_dim(x, 0), dt_dim(x, 1), dt_dim(x, 2) },
                                              .count = dt_count(x),
                                              .data = dt_data_mut(x) } };
        TEST_OK(ctx, dt__verify_run(v, &given, 1));
        ck_assert_int_eq(dt__verify_output(v, 0)->count, dt_count(y));
        ck_assert_mem_eq(dt__verify_output(v, 0)->data, dt_data(y),
                         (size_t)dt_count(y) * sizeof(float));
        dt__verify_close(v);
        dt_trace_free(t);
        close_chain();
    }
    test_remove(folder);
}
END_TEST

START_TEST(tflite_is_near)
{
    char folder[TEST_PATH], stem[TEST_PATH];
    test_folder(folder);
    test_join(stem, folder, "net");
    for (int64_t i = 0; i < test_count(chains); i++) {
        open_chain((uint64_t)i, DT__COUNT_OF(ops));
        tflite_subject s = { .m = m, .x = &x, .n_in = 1 };
        const double apart = tflite_check(&s, stem, false);
        ck_assert_msg(apart < 1e-6, "chain %d: %g apart", (int)i, apart);
        close_chain();
    }
    test_remove(folder);
}
END_TEST

/* A format that lacks an op of the calls refuses it by name. */
START_TEST(what_is_missing_is_named)
{
    open_chain(0, 1);
    chain *c = dt_module_state(m);
    c->op[1] = &of_erf;
    const dt_trace_input in = { .dtype = DT_F32,
                                .rank = 3,
                                .dims = { 1, dt_dim(x, 1), dt_dim(x, 2) } };
    const dt_exporter *e = dt_exporter_named("tflite");
    const dt_trace_options o = { .input = &in, .n_inputs = 1, .becomes = e->becomes };
    const dt_export_options as = dt_export_defaults();
    dt_trace *t;
    TEST_OK(ctx, dt_trace_create(m, &o, &t));
    TEST_FAILS(ctx, DT_ERR_UNSUPPORTED, "erf in the model", dt__check_calls(e, t, &as));
    dt_trace_free(t);
    close_chain();
}
END_TEST

/* Recursive `lower`: one op calls itself, two call each other. */
static const dt_op circles[3];

static void call_self(dt_tape *t, dt_tensor *const *in, const void *given, dt_tensor **out)
{
    out[0] = dt_apply(t, &circles[0], in, 1, given);
}

static void call_next(dt_tape *t, dt_tensor *const *in, const void *given, dt_tensor **out)
{
    out[0] = dt_apply(t, &circles[2], in, 1, given);
}

static void call_first(dt_tape *t, dt_tensor *const *in, const void *given, dt_tensor **out)
{
    out[0] = dt_relu(t, dt_apply(t, &circles[1], in, 1, given));
}

#define CIRCLE(title, to)                                                                          \
    {                                                                                              \
        .name = title, .in_name = { "x" }, .out_name = { "y" }, .options_size = sizeof(options),   \
        .defaults = &defaults, .keys = keys, .shape = like_x, .forward = relu2, .lower = to        \
    }

static const dt_op circles[3] = { CIRCLE("self", call_self), CIRCLE("one", call_next),
                                  CIRCLE("other", call_first) };

START_TEST(lowering_without_an_end_is_refused)
{
    open_chain(0, 1);
    chain *c = dt_module_state(m);
    c->op[_i] = &circles[_i];
    const dt_trace_input in = { .dtype = DT_F32,
                                .rank = 3,
                                .dims = { 1, dt_dim(x, 1), dt_dim(x, 2) } };
    const dt_trace_options o = { .input = &in,
                                 .n_inputs = 1,
                                 .becomes = dt_exporter_named("onnx")->becomes };
    dt_trace *t = NULL;
    TEST_FAILS(ctx, DT_ERR_STATE, "must not come back to itself", dt_trace_create(m, &o, &t));
    dt_trace_free(t);
    close_chain();
}
END_TEST

/* Every format refuses a result without elements, since runtimes differ in how they treat it. */
static void run_slice(dt_tape *t, dt_module *own, dt_tensor *const *in, int n_in, dt_tensor **out,
                      int n_out)
{
    (void)own;
    (void)n_in;
    (void)n_out;
    const dt_slice_options none = { { 1, { 1 } }, { 1, { 2 } }, { 1, { 2 } }, { 0, { 0 } } };
    out[0] = dt_slice(t, in[0], &none);
}

START_TEST(results_without_elements)
{
    static const dt_module_type type = { .name = "nothing", .forward = run_slice };
    static const char *const formats[] = { "c", "onnx", "tflite" };
    const dt_trace_input in = { .dtype = DT_F32, .rank = 2, .dims = { 1, 4 } };
    const dt_exporter *e = dt_exporter_named(formats[_i]);
    const dt_trace_options o = { .input = &in, .n_inputs = 1, .becomes = e->becomes };
    const dt_export_options as = dt_export_defaults();
    dt_trace *t;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    TEST_OK(ctx, dt_module_create(ctx, &type, 0, &m));
    TEST_OK(ctx, dt_trace_create(m, &o, &t));
    TEST_FAILS(ctx, DT_ERR_UNSUPPORTED, "its result has no elements", dt__check_calls(e, t, &as));
    dt_trace_free(t);
    dt_module_free(m);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_lower_suite(void)
{
    Suite *s = suite_create("lower");
    TCase *c = tcase_create("exports");
    tcase_set_timeout(c, 300);
    tcase_add_test(c, c_has_their_bits);
    tcase_add_test(c, onnx_has_their_bits);
    tcase_add_test(c, tflite_is_near);
    tcase_add_test(c, what_is_missing_is_named);
    tcase_add_loop_test(c, results_without_elements, 0, 3);
    tcase_add_loop_test(c, lowering_without_an_end_is_refused, 0, 3);
    suite_add_tcase(s, c);
    return s;
}

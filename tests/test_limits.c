/* Functions of one element at extreme values: layers against the C library's functions in double,
 * at both infinities, the largest and the smallest floats, zeros of both signs, NaN, and random
 * numbers of every exponent. At an infinity the limit is expected. */
#include "testing.h"

#include "core/core.h"
#include "nn/lists/layer_type.h"

#include <detent/experimental/layers.h>
#include <float.h>
#include <math.h>
#include <stdio.h>

static double relu(double x) { return fmax(x, 0); }
static double relu6(double x) { return fmin(fmax(x, 0), 6); }
static double leaky_relu(double x) { return x < 0 ? 0.01 * x : x; }
static double elu(double x) { return x < 0 ? expm1(x) : x; }
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double silu(double x) { return x / (1 + exp(-x)); }
static double gelu(double x) { return x * 0.5 * erfc(-x * sqrt(0.5)); }
static double gelu_tanh(double x)
{
    return x * sigmoid(2 * 0.79788456080286541 * (x + 0.044715 * x * x * x));
}
static double hardsigmoid(double x) { return relu6(x + 3) / 6; }
static double hardswish(double x) { return x * hardsigmoid(x); }
static double square(double x) { return x * x; }
static double neg(double x) { return -x; }
static double reciprocal(double x) { return 1 / x; }
static double sign(double x) { return (x > 0) - (x < 0); }
static double softplus(double x) { return fmax(x, 0) + log1p(exp(-fabs(x))); }
static double softsign(double x) { return x / (1 + fabs(x)); }
static double mish(double x) { return x * tanh(softplus(x)); }

static const struct function {
    const char *kind;
    double (*of)(double x);
    bool gated; /* a product of x with a gate: 0 times -inf is NaN, and a part of it can overflow */
} functions[] = {
    { "relu", relu, false },
    { "relu6", relu6, false },
    { "leaky_relu", leaky_relu, false },
    { "elu", elu, false },
    { "tanh", tanh, false },
    { "sigmoid", sigmoid, false },
    { "silu", silu, true },
    { "gelu", gelu, true },
    { "gelu_tanh", gelu_tanh, true },
    { "hardsigmoid", hardsigmoid, false },
    { "hardswish", hardswish, true },
    { "exp", exp, false },
    { "log", log, false },
    { "sqrt", sqrt, false },
    { "square", square, false },
    { "neg", neg, false },
    { "abs", fabs, false },
    { "reciprocal", reciprocal, false },
    { "erf", erf, false },
    { "sign", sign, false },
    { "floor", floor, false },
    { "ceil", ceil, false },
    { "round", nearbyint, false },
    { "softplus", softplus, false },
    { "softsign", softsign, false },
    { "mish", mish, false },
};

#define N 4096

/* The limit at an infinity is the value far beyond the floats, or infinite where it still grows. */
static float wanted_at(double (*of)(double), float x)
{
    if (isnan(x)) return of == sign ? 0 : NAN;
    if (!isinf(x)) return (float)of((double)x);
    const double far = of(copysign(1e80, (double)x)), farther = of(copysign(1e90, (double)x));
    return fabs(far - farther) > 1 ? (float)copysign(INFINITY, farther) : (float)farther;
}

static bool is_left_out(const struct function *f, float x)
{
    return f->gated && (x == -INFINITY || (isfinite(x) && fabsf(x) > FLT_MAX / 8));
}

static void draw(dt__stream *s, float x[N])
{
    static const float ends[] = { 0,         INFINITY, FLT_MAX,    FLT_MAX / 2, FLT_MIN,
                                  0x1p-149f, 88,       89,         104,         0x1p23f,
                                  0x1p24f,   1.5f,     0x1.8p-26f, 1e-20f,      NAN };
    const int n = 2 * DT__COUNT_OF(ends);
    for (int i = 0; i < N; i++) {
        const int exponent = (int)dt__random_below(s, 256) - 128;
        const double one = 1 + (double)dt__random_below(s, 1 << 23) / (1 << 23);
        const double size = i < n ? (double)ends[i / 2] : i % 2 ? ldexp(one, exponent) : 8 * one;
        x[i] = (float)(dt__random_below(s, 2) == 0 && i >= n ? -size
                       : i % 2 && i < n                      ? -size
                                                             : size);
    }
}

static dt_tensor *apply(dt_ctx *ctx, dt_tape *t, const char *kind, dt_tensor *x, dt_module **m)
{
    const dt_item_kind *item = dt_layer_kind(kind);
    char options[512] = { 0 };
    ck_assert_msg(item != NULL && item->size <= sizeof options, "%s", kind);
    const dt_layer_type *type =
        (const dt_layer_type *)((const char *)item - offsetof(dt_layer_type, item));
    TEST_OK(ctx, dt_layer_defaults(ctx, item, options));
    TEST_OK(ctx, type->create(ctx, options, &(dt_shape){ 1, { N } }, 1, m));
    return dt_forward(t, *m, x);
}

START_TEST(functions_far_from_zero)
{
    const struct function *f = &functions[_i];
    dt_ctx *ctx;
    dt_tape *t;
    dt_tensor *x;
    dt_module *m;
    int wrong = 0;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, (const int64_t[]){ 1, N }, &x));
    dt__stream s = dt__stream_of(9 + (uint64_t)_i, DT__FOR_USER);
    draw(&s, dt_data_mut(x));
    dt_tensor *y = apply(ctx, t, f->kind, x, &m);
    ck_assert_msg(y != NULL, "%s: %s", f->kind, dt_error(ctx));
    const float *in = dt_data(x), *out = dt_data(y);
    for (int i = 0; i < N; i++) {
        const float want = wanted_at(f->of, in[i]);
        const double off = fabs((double)out[i] - (double)want);
        const double room = 2e-6 * (fabs((double)want) + fmin(1, fabs((double)in[i]))) + 1e-37;
        if (is_left_out(f, in[i])) continue;
        if (isnan(want) ? isnan(out[i]) : out[i] == want || off <= room) continue;
        if (wrong++ < 8) printf("%s(%.9g): %.9g, not %.9g\n", f->kind, in[i], out[i], want);
    }
    ck_assert_msg(wrong == 0, "%s: %d of %d values", f->kind, wrong, N);
    dt_module_free(m);
    dt_tensor_free(x);
    dt_tape_free(t);
    dt_ctx_free(ctx);
}
END_TEST

static const char *name_of(int i) { return functions[i].kind; }

Suite *test_limits_suite(void);
Suite *test_limits_suite(void)
{
    Suite *s = suite_create("limits");
    TCase *c = tcase_create("limits");
    tcase_add_named_test(c, functions_far_from_zero, DT__COUNT_OF(functions), name_of);
    suite_add_tcase(s, c);
    return s;
}

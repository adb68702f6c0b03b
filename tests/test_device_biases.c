/* Integers that do not fit (numerics §8): biases beside weights that are small or 0, and results
 * whose ranges are tiny beside those of what they are computed with, as of constant data. Layers of
 * networks of integers are within a bound of their values in floats, and their factors within what
 * kernels take. Whole networks of such channels are in test_device_nets.c. */
#include "testing.h"

#include "core/core.h"
#include "core/tensor.h"

#include <detent/experimental/device.h>
#include <detent/qat.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const test_draws draws = { .usual = 20000, .quick = 4000, .sanitized = 30 };

/* ---- drawing --------------------------------------------------------------------------------- */

static int64_t below(uint64_t *state, int64_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((*state >> 33) % (uint64_t)n);
}

static double real(uint64_t *state, double least, double most)
{
    return least + (most - least) * (double)below(state, 1 << 24) * 0x1p-24;
}

static double power(uint64_t *state, double least, double most)
{
    return pow(10, real(state, least, most));
}

/* Rows of a weight are usual, small by many powers of ten, or 0; biases usual, or large. */
static void draw_rows(uint64_t *state, float *w, int64_t rows, int64_t columns, float *bias)
{
    for (int64_t o = 0; o < rows; o++) {
        const int64_t kind = below(state, 4);
        const double scale = kind == 0 ? 0 : kind == 1 ? power(state, -36, -2) : 1;
        for (int64_t k = 0; k < columns; k++) {
            w[o * columns + k] = (float)(scale * real(state, -0.5, 0.5));
        }
        if (bias == NULL) continue;
        const double size = below(state, 5) == 0 ? power(state, -9, 9) : 1;
        bias[o] = (float)(size * real(state, -1, 1));
    }
}

/* ---- a layer --------------------------------------------------------------------------------- */

typedef struct layer {
    int kind, bits, activation; /* kind 0: linear, 1: convolution */
    bool one_scale;
    int64_t in, out, groups, kernel;
    double s_x;
    int z_x;
    double spread;         /* of x about 0, as a share of its range; 0: all are 0 */
    int64_t rows, columns; /* of the weight */
} layer;

static layer draw_layer(uint64_t *state)
{
    layer l = { .kind = (int)below(state, 2), .groups = 1, .kernel = 1 };
    l.bits = below(state, 2) == 0 ? 8 : 4;
    l.activation = below(state, 2) == 0 ? DT_ACT_NONE : DT_ACT_RELU;
    l.one_scale = l.kind == 0 && (l.bits == 4 || below(state, 3) == 0);
    l.in = 1 + below(state, 6);
    l.out = 1 + below(state, 6);
    if (l.kind > 0) l.kernel = 1 + below(state, 3);
    if (l.kind == 1 && below(state, 2) == 0) { /* depthwise */
        l.groups = l.in;
        l.out = l.in;
    }
    l.s_x = power(state, -6, 3);
    l.z_x = (int)below(state, 256) - 128;
    l.spread = below(state, 4) == 0 ? 0 : below(state, 4) == 0 ? power(state, -6, 0) : 1;
    l.rows = l.out;
    l.columns = l.in / l.groups * l.kernel * l.kernel;
    return l;
}

static dt_tensor *tensor(dt_ctx *ctx, dt_dtype dtype, int rank, const int64_t *dims, const void *v)
{
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_from(ctx, dtype, rank, dims, v, &x));
    return x;
}

static dt_tensor *doubles(dt_ctx *ctx, const dt_tensor *x, bool magnitudes)
{
    double *v = malloc((size_t)dt_count(x) * sizeof *v + 1);
    for (int64_t i = 0; i < dt_count(x); i++) {
        v[i] = (double)((const float *)dt_data(x))[i];
        if (magnitudes) v[i] = fabs(v[i]);
    }
    dt_tensor *y = tensor(ctx, DT_F64, dt_rank(x), x->dims, v);
    free(v);
    return y;
}

static dt_tensor *product(dt_tape *t, const layer *l, dt_tensor *x, dt_tensor *w, dt_tensor *b)
{
    dt_conv_options o = dt_conv_defaults();
    o.groups = l->groups;
    return l->kind == 0 ? dt_linear(t, x, w, b) : dt_conv2d(t, x, w, b, &o);
}

static dt_tensor *product_of_codes(dt_tape *t, const layer *l, dt_tensor *const in[3],
                                   const dt_device_range *r)
{
    const dt_device_linear_options linear = { l->activation, l->one_scale };
    dt_device_conv_options o = { .conv = dt_conv_defaults(), .activation = l->activation };
    o.conv.groups = l->groups;
    return l->kind == 0 ? dt_device_linear(t, in[0], in[1], in[2], r, &linear)
                        : dt_device_conv2d(t, in[0], in[1], in[2], r, &o);
}

static dt_device_range range(dt_ctx *ctx, double scale, int zero)
{
    const int64_t one = 1;
    const float s = (float)scale;
    const int8_t z = (int8_t)zero;
    return (dt_device_range){ tensor(ctx, DT_F32, 1, &one, &s), tensor(ctx, DT_I8, 1, &one, &z),
                              NULL };
}

static void free_range(dt_device_range *r)
{
    dt_tensor_free(r->scale);
    dt_tensor_free(r->zero_point);
}

/* The range of values y after the activation. */
static dt_device_range range_of(dt_ctx *ctx, const layer *l, const dt_tensor *y)
{
    double lo = 0, hi = 0;
    for (int64_t i = 0; i < dt_count(y); i++) {
        const double v = ((const double *)dt_data(y))[i];
        lo = fmin(lo, l->activation == DT_ACT_NONE ? v : 0);
        hi = fmax(hi, v);
    }
    if (lo == hi) return range(ctx, 1, 0);
    const double s = (hi - lo) / 255;
    return range(ctx, s, (int)(fmin(255, round(-lo / s))) - 128);
}

/* The output channel of element i of y. */
static int64_t channel_of(const layer *l, const dt_tensor *y, int64_t i)
{
    return l->kind == 0 ? i % l->rows : i / (y->dims[2] * y->dims[3]) % l->rows;
}

/* The scale of a row, or of all rows where they share one. */
static double weight_scale(const layer *l, const float *w, int64_t o)
{
    double most = 0;
    for (int64_t r = 0; r < l->rows; r++) {
        if (r != o && !l->one_scale) continue;
        for (int64_t k = 0; k < l->columns; k++) {
            most = fmax(most, fabs((double)w[r * l->columns + k]));
        }
    }
    return most / (l->bits == 8 ? 127 : 7);
}

typedef struct values {
    const float *w, *bias;
    const dt_tensor *y, *sums; /* in doubles: results, and sums of |x| over what a weight reads */
    const dt_tensor *got;
    double s_y;
    int z_y;
} values;

/* |got - y| <= 0.76 s_y + A (s_w / 2 + |b| / (2^30 s_x)) + (s_x s_w + |b| 2^-29) / 2, where y is
 * clamped to the range of the codes and A is the sum of |x|; b is the largest of those that share a
 * scale. */
static void check_bound(const layer *l, const values *v)
{
    const double low = l->activation == DT_ACT_NONE ? (-128 - v->z_y) * v->s_y : 0;
    double largest = 0;
    for (int64_t o = 0; o < l->rows; o++) largest = fmax(largest, fabs((double)v->bias[o]));
    for (int64_t i = 0; i < v->y->count; i++) {
        const int64_t o = channel_of(l, v->y, i);
        const double b = l->one_scale ? largest : fabs((double)v->bias[o]);
        const double s_w = weight_scale(l, v->w, o), sum = ((const double *)dt_data(v->sums))[i];
        double y = ((const double *)dt_data(v->y))[i];
        y = fmax(low, fmin(y, (127 - v->z_y) * v->s_y));
        const double bound = 0.76 * v->s_y + sum * (s_w / 2 + b * 0x1p-30 / l->s_x) +
                             (l->s_x * s_w + b * 0x1p-29) / 2 + 1e-6 * fabs(y);
        const double off = fabs((double)((const float *)dt_data(v->got))[i] - y);
        TEST_EACH(off <= bound,
                  "kind %d, %d bits, one scale %d, output %lld: %g off, %g allowed (weights of %g, "
                  "bias %g, s_x %g, s_y %g)",
                  l->kind, l->bits, (int)l->one_scale, (long long)o, off, bound, s_w,
                  (double)v->bias[o], l->s_x, v->s_y);
    }
}

/* XNNPACK takes factors below 256. */
static void check_factors(const layer *l, const values *v)
{
    for (int64_t o = 0; o < l->rows; o++) {
        const double factor = l->s_x * weight_scale(l, v->w, o) / v->s_y;
        TEST_EACH(factor < 256, "kind %d, one scale %d, output %lld: a factor of %g", l->kind,
                  (int)l->one_scale, (long long)o, factor);
    }
}

static dt_tensor *weight_of(dt_ctx *ctx, const layer *l, const float *rows)
{
    const int64_t linear[] = { l->rows, l->columns };
    const int64_t conv[] = { l->out, l->in / l->groups, l->kernel, l->kernel };
    return tensor(ctx, DT_F32, l->kind == 0 ? 2 : 4, l->kind == 0 ? linear : conv, rows);
}

static void check_layer(dt_ctx *ctx, uint64_t *state)
{
    const layer l = draw_layer(state);
    dt_tape *t;
    dt_quant_spec spec, unused;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_no_grad(t, true);
    const int64_t dims[] = { 2, l.in, 4, 5 };
    float *rows = malloc((size_t)(l.rows * l.columns) * sizeof *rows);
    float *bias = malloc((size_t)l.rows * sizeof *bias);
    draw_rows(state, rows, l.rows, l.columns, bias);
    dt_tensor *w = weight_of(ctx, &l, rows), *b = tensor(ctx, DT_F32, 1, &l.rows, bias), *x, *ones;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, l.kind == 0 ? 2 : 4, dims, &x));
    TEST_OK(ctx, dt_fill_uniform(x, l.spread * (-128 - l.z_x) * l.s_x,
                                 l.spread * (127 - l.z_x) * l.s_x));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F64, dt_rank(w), w->dims, &ones));
    TEST_OK(ctx, dt_fill(ones, 1));
    dt_device_range of_x = range(ctx, l.s_x, l.z_x);
    dt_tensor *codes = dt_device_quantize(t, x, &of_x);
    dt_tensor *value = dt_device_dequantize(t, codes);
    TEST_OK(ctx, dt_tape_status(t));
    dt_tensor *x64 = doubles(ctx, value, false), *w64 = doubles(ctx, w, false);
    dt_tensor *b64 = doubles(ctx, b, false), *size = doubles(ctx, value, true);
    dt_tensor *y = product(t, &l, x64, w64, b64), *sums = product(t, &l, size, ones, NULL);
    TEST_OK(ctx, dt_tape_status(t));
    dt_device_range of_y = range_of(ctx, &l, y);
    dt_qat_preset(DT_DEVICE_INT8, &spec, &unused);
    spec.bits = l.bits;
    if (l.one_scale) spec.granularity = DT_PER_TENSOR;
    dt_tensor *quantized = dt_fake_quant(t, w, &spec, true);
    dt_tensor *got = product_of_codes(t, &l, (dt_tensor *const[]){ codes, quantized, b }, &of_y);
    TEST_EACH(dt_tape_status(t) == DT_OK, "kind %d, %d bits: %s", l.kind, l.bits, dt_error(ctx));
    values v = { rows, bias, y, sums, NULL, 0, 0 };
    float s_y; /* it may be coarser than it was given */
    TEST_OK(ctx, dt_coded_range(got, &s_y, &v.z_y));
    v.s_y = (double)s_y;
    v.got = dt_device_dequantize(t, got);
    check_bound(&l, &v);
    check_factors(&l, &v);
    dt_tensor *const all[] = { w, b, x, ones, x64, w64, b64, size };
    for (int i = 0; i < DT__COUNT_OF(all); i++) dt_tensor_free(all[i]);
    free_range(&of_x);
    free_range(&of_y);
    free(rows);
    free(bias);
    dt_tape_free(t);
}

START_TEST(layers_are_near)
{
    dt_ctx *ctx;
    uint64_t state = 3;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    for (int64_t i = 0; i < test_count(draws); i++) check_layer(ctx, &state);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- sums and products ----------------------------------------------------------------------- */

/* All possible codes of a and b; a random range of y, often far too small. Results in LiteRT's
 * kernels have 16 bits before the clamp. */
static void check_zip(dt_ctx *ctx, uint64_t *state)
{
    enum { N = 64 };
    const int64_t n = N;
    const bool adds = below(state, 2) == 0;
    float value[2][N], s_y;
    double s[2];
    int z[2], z_y;
    dt_tape *t;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_device_range r[3];
    dt_tensor *x[2];
    for (int i = 0; i < 2; i++) {
        s[i] = (double)(float)power(state, -5, 2);
        z[i] = (int)below(state, 256) - 128;
        r[i] = range(ctx, s[i], z[i]);
        for (int k = 0; k < N; k++) {
            const int64_t code = below(state, 4) == 0 ? 255 * below(state, 2) : below(state, 256);
            value[i][k] = (float)((double)(code - 128 - z[i]) * s[i]);
        }
        x[i] = tensor(ctx, DT_F32, 1, &n, value[i]);
    }
    const double whole = adds ? fmax(s[0], s[1]) : s[0] * s[1];
    r[2] = range(ctx, whole * power(state, -9, 3), (int)below(state, 256) - 128);
    dt_tensor *a = dt_device_quantize(t, x[0], &r[0]), *b = dt_device_quantize(t, x[1], &r[1]);
    dt_tensor *y = adds ? dt_device_add(t, a, b, &r[2], NULL) : dt_device_mul(t, a, b, &r[2], NULL);
    TEST_OK(ctx, dt_tape_status(t));
    TEST_OK(ctx, dt_coded_range(y, &s_y, &z_y));
    const float *got = dt_data(dt_device_dequantize(t, y));
    for (int k = 0; k < N; k++) {
        const double p = (double)value[0][k], q = (double)value[1][k];
        const double real = adds ? p + q : p * q, steps = real / (double)s_y;
        const double clamped = fmax(-128 - z_y, fmin(127 - z_y, steps)) * (double)s_y;
        TEST_EACH(fabs(steps) + 128 < 0x1p15, "%s of scales %g and %g, y %g: %g steps",
                  adds ? "add" : "mul", s[0], s[1], (double)s_y, steps);
        TEST_EACH(fabs((double)got[k] - clamped) <= 0.76 * (double)s_y, "%s: %g, not %g, of %g",
                  adds ? "add" : "mul", (double)got[k], clamped, (double)s_y);
    }
    for (int i = 0; i < 3; i++) free_range(&r[i]);
    dt_tensor_free(x[0]);
    dt_tensor_free(x[1]);
    dt_tape_free(t);
}

START_TEST(sums_and_products_have_16_bits)
{
    dt_ctx *ctx;
    uint64_t state = 5;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    for (int64_t i = 0; i < test_count(draws); i++) check_zip(ctx, &state);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_device_biases_suite(void)
{
    Suite *s = suite_create("device_biases");
    TCase *c = tcase_create("biases");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, layers_are_near);
    tcase_add_test(c, sums_and_products_have_16_bits);
    suite_add_tcase(s, c);
    return s;
}

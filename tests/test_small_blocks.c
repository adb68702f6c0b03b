/* Activations in blocks of small floats: values by the definition, bit for bit, over drawn shapes
 * and values of all magnitudes, zeros and denormal ones among them; rows do not depend on each
 * other; gradients; what is refused. */
#include "testing.h"

#include "core/core.h"
#include "qat/prepare.h"
#include "qat/quantized.h"

#include <detent/experimental/nn.h>
#include <detent/experimental/ops.h>
#include <detent/qat.h>

#include <math.h>

/* The schemes: mantissas of an exponent, the largest value, and E = floor, near or up of
 * log2(a / divisor) - drop. */
static const struct format {
    int scheme;
    int64_t bits, group;
    int mantissas, least; /* the least value is 2^least */
    double most, divisor;
    int drop;
    float unit; /* codes are values times it */
    char how;
} formats[] = {
    { DT_SCHEME_MXFP4, 4, 32, 2, -1, 6, 1, 2, 2, 'd' },
    { DT_SCHEME_MXFP4_UP, 4, 32, 2, -1, 6, 6, 0, 2, 'u' },
    { DT_SCHEME_MXFP4_NEAR, 4, 32, 2, -1, 6, 1, 2, 2, 'n' },
    { DT_SCHEME_MXFP6, 6, 32, 8, -3, 7.5, 1, 2, 8, 'd' },
    { DT_SCHEME_MXFP6_E3M2, 6, 32, 4, -4, 28, 1, 4, 1, 'd' },
    { DT_SCHEME_MXFP8, 8, 32, 8, -9, 448, 1, 8, 1, 'd' },
    { DT_SCHEME_MXFP8_UP, 8, 32, 8, -9, 448, 448, 0, 1, 'u' },
    { DT_SCHEME_MXFP8_NEAR, 8, 32, 8, -9, 448, 1, 8, 1, 'n' },
    { DT_SCHEME_MXFP8_E5M2, 8, 32, 4, -16, 57344, 1, 15, 1, 'd' },
    { DT_SCHEME_NVFP4, 4, 16, 2, -1, 6, 0, 0, 2, 'g' },
};
#define FORMATS ((int)(sizeof formats / sizeof formats[0]))

static dt_ctx *ctx;
static dt_tape *t;

static void setup(void)
{
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
}

static void teardown(void)
{
    dt_tape_free(t);
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}

static dt_quant_spec spec_of(const struct format *f, int range)
{
    dt_quant_spec q = dt_activation_quant_defaults();
    const dt_quant_patch p = { .quant = { .scheme = f->scheme, .range = range },
                               .has_scheme = true,
                               .has_range = true };
    dt_quant_apply(&q, &p);
    ck_assert_int_eq(q.bits, f->bits);
    ck_assert_int_eq(q.group_size, f->group);
    return q;
}

/* ---- the definition -------------------------------------------------------------------------- */

/* The nearest of 0 and (mantissas + m) 2^e, found by trying each; of two equally near ones that
 * with an even mantissa. */
static double nearest(double x, int mantissas, int least, double most)
{
    double best = 0;
    int place = 0, at = 1;
    for (int e = least, m = 1;; at++) {
        const double v = ldexp(m, e), d = fabs(fabs(x) - v), old = fabs(fabs(x) - best);
        if (v > most) return copysign(best, x);
        if (d < old || (d == old && at % 2 == 0 && place == at - 1)) {
            best = v;
            place = at;
        }
        if (++m == 2 * mantissas) {
            m = mantissas;
            e++;
        }
    }
}

static float scale_of(const struct format *f, float a, float global)
{
    if (f->how == 'g') {
        const double e = nearest((double)(global * (a / 6)), 8, -9, 448);
        return (e == 0 ? 0.125f : (float)e) / global;
    }
    const double v = (double)(a / (float)f->divisor);
    if (v < 0x1p-126) return 0;
    int e = (int)floor(log2(v));
    while (ldexp(1, e + 1) <= v) e++;
    while (ldexp(1, e) > v) e--;
    if (f->how == 'u' && ldexp(1, e) < v) e++;
    if (f->how == 'n' && v >= 1.75 * ldexp(1, e)) e++;
    return ldexpf(1, e - f->drop);
}

/* The dequantized value of x in a block with largest magnitude a. Scales of codes that are integers
 * are those of a unit of the codes, at least 2^-126. */
static float value_of(const struct format *f, float x, float a, float global)
{
    float s = scale_of(f, a, global) / f->unit;
    if (f->how != 'g' && s < 0x1p-126f) s = 0x1p-126f;
    const double v = (double)(x / s) / (double)f->unit;
    return (float)(nearest(v, f->mantissas, f->least, f->most) * (double)f->unit) * s + 0.0f;
}

static void check_row(const struct format *f, int64_t n, const float *x, const float *got,
                      float global)
{
    for (int64_t start = 0; start < n; start += f->group) {
        const int64_t end = start + f->group < n ? start + f->group : n;
        float a = 0;
        for (int64_t k = start; k < end; k++) a = fmaxf(a, fabsf(x[k]));
        for (int64_t k = start; k < end; k++) {
            const float want = value_of(f, x[k], a, global);
            TEST_EACH(memcmp(&want, &got[k], sizeof want) == 0,
                      "scheme %d, %a of at most %a, global %a: %a, not %a", f->scheme, (double)x[k],
                      (double)a, (double)global, (double)got[k], (double)want);
        }
    }
}

/* ---- values ---------------------------------------------------------------------------------- */

static float draw(dt__stream *s, int magnitude)
{
    const uint64_t what = dt__random_below(s, 24);
    const float size = ldexpf(1, magnitude - (int)dt__random_below(s, 7));
    if (what == 0) return 0;
    if (what == 1) return -0.0f;
    if (what < 8) return size * (float)((int)dt__random_below(s, 57) - 28) / 8; /* ties */
    return size * (float)(2 * dt__random_unit(s) - 1);
}

static dt_tensor *values_of(dt_tensor *x, const dt_quant_spec *q, dt_tensor *scale)
{
    const dt__fq how = { .quant = *q, .enabled = true, .scale = scale };
    dt_tensor *y = dt__fake_quant_as(t, x, &how), *dense;
    ck_assert_msg(y != NULL, "%s", dt_error(ctx));
    TEST_OK(ctx, dt_dequantize(y, &dense));
    dt_tape_reset(t);
    return dense;
}

/* A row alone has the bits that it has among others. */
static void check_alone(const dt_tensor *x, const dt_quant_spec *q, dt_tensor *scale,
                        const float *all, int64_t row)
{
    dt_tensor *one;
    const int64_t n = dt_dim(x, -1);
    TEST_OK(ctx, dt_tensor_from(ctx, DT_F32, 1, &n, (const float *)dt_data(x) + row * n, &one));
    dt_tensor *y = values_of(one, q, scale);
    ck_assert(memcmp(dt_data(y), all + row * n, (size_t)n * sizeof(float)) == 0);
    dt_tensor_free(one);
    dt_tensor_free(y);
}

static void check_shape(const struct format *f, dt__stream *s, int range)
{
    const int64_t dims[3] = { 1 + (int64_t)dt__random_below(s, 3),
                              1 + (int64_t)dt__random_below(s, 4),
                              1 + (int64_t)dt__random_below(s, 100) };
    const int rank = 1 + (int)dt__random_below(s, 3);
    const dt_quant_spec q = spec_of(f, range);
    dt_tensor *x, *scale = NULL;
    const float global =
        range == DT_RANGE_STATIC ? 2688 * (float)exp2(-6 + 12 * dt__random_unit(s)) : 1;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, rank, dims + 3 - rank, &x));
    if (range == DT_RANGE_STATIC) {
        TEST_OK(ctx, dt_tensor_from(ctx, DT_F32, 1, (int64_t[]){ 1 }, &global, &scale));
    }
    const int magnitude =
        f->how == 'g' ? (int)dt__random_below(s, 40) - 30 : (int)dt__random_below(s, 250) - 149;
    float *to = dt_data_mut(x);
    for (int64_t i = 0; i < dt_count(x); i++) to[i] = draw(s, magnitude);
    dt_tensor *y = values_of(x, &q, scale);
    const int64_t n = dt_dim(x, -1), rows = dt_count(x) / n;
    const float *got = dt_data(y);
    for (int64_t r = 0; r < rows; r++) check_row(f, n, to + r * n, got + r * n, global);
    check_alone(x, &q, scale, got, (int64_t)dt__random_below(s, (uint64_t)rows));
    dt_tensor_free(x);
    dt_tensor_free(y);
    dt_tensor_free(scale);
}

START_TEST(values_by_the_definition)
{
    const struct format *f = &formats[_i];
    dt__stream s = dt__stream_of((uint64_t)_i + 1, DT__FOR_USER);
    const int64_t count = test_count((test_draws){ .usual = 300, .quick = 100, .sanitized = 40 });
    for (int64_t i = 0; i < count; i++) {
        const bool fixed = f->how == 'g' && i % 2 == 1;
        check_shape(f, &s, fixed ? DT_RANGE_STATIC : DT_RANGE_DYNAMIC);
    }
}
END_TEST

/* Of 0 rows and of rows of 0, a scalar, and the rule of zeros. */
START_TEST(empty_and_zero)
{
    const dt_quant_spec q = spec_of(&formats[_i], DT_RANGE_DYNAMIC);
    static const int64_t shapes[][2] = { { 3, 0 }, { 0, 5 }, { 3, 33 } };
    static const float plus = 0;
    for (int i = 0; i <= 3; i++) {
        dt_tensor *x;
        TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, i == 3 ? 0 : 2, shapes[i % 3], &x));
        float *to = dt_data_mut(x);
        for (int64_t k = 0; k < dt_count(x); k++) to[k] = k % 2 == 0 ? 0.0f : -0.0f;
        dt_tensor *y = values_of(x, &q, NULL);
        const float *got = dt_data(y);
        ck_assert_int_eq(dt_count(y), dt_count(x));
        for (int64_t k = 0; k < dt_count(y); k++) {
            ck_assert(memcmp(got + k, &plus, sizeof plus) == 0);
        }
        dt_tensor_free(x);
        dt_tensor_free(y);
    }
}
END_TEST

START_TEST(what_is_not_finite_is_refused)
{
    static const float bad[] = { NAN, INFINITY, -INFINITY };
    const dt_quant_spec q = spec_of(&formats[_i], DT_RANGE_DYNAMIC);
    for (int i = 0; i < 3; i++) {
        dt_tensor *x, *dense;
        TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, (int64_t[]){ 2, 40 }, &x));
        ((float *)dt_data_mut(x))[41] = bad[i];
        dt_tensor *y = dt_fake_quant(t, x, &q, true);
        ck_assert_int_eq(dt_dequantize(y, &dense), DT_ERR_NUMERIC);
        ck_assert_ptr_nonnull(strstr(dt_error(ctx), "element 41 is"));
        dt_tape_reset(t);
        dt_tensor_free(x);
    }
}
END_TEST

/* With a dynamic range the gradient passes everywhere; with an observed range it does not where a
 * value was cut, which is beyond the largest that was observed. */
START_TEST(gradients)
{
    const struct format *f = &formats[_i];
    for (int fixed = 0; fixed <= (f->how == 'g'); fixed++) {
        const dt_quant_spec q = spec_of(f, fixed ? DT_RANGE_STATIC : DT_RANGE_DYNAMIC);
        const float global = 2688, given[] = { 0.5f, -3, 0.1f, 1, 0.99f, 0, 2, -0.9f };
        dt_tensor *x, *scale = NULL;
        TEST_OK(ctx, dt_tensor_from(ctx, DT_F32, 2, (int64_t[]){ 1, 8 }, given, &x));
        TEST_OK(ctx, dt_tensor_from(ctx, DT_F32, 1, (int64_t[]){ 1 }, &global, &scale));
        TEST_OK(ctx, dt_set_requires_grad(x, true));
        const dt__fq how = { .quant = q, .enabled = true, .scale = fixed ? scale : NULL };
        dt_tensor *y = dt_sum(t, dt__fake_quant_as(t, x, &how), NULL);
        ck_assert_msg(dt_backward(t, y, NULL) == DT_OK, "%s", dt_error(ctx));
        const float *d = dt_data(dt_grad(x));
        for (int k = 0; k < 8; k++) {
            const bool cut = fixed && fabsf(given[k]) > 1.5f;
            TEST_EACH(d[k] == (cut ? 0.0f : 1.0f), "scheme %d: d[%d] is %g", f->scheme, k,
                      (double)d[k]);
        }
        dt_tape_reset(t);
        dt_tensor_free(x);
        dt_tensor_free(scale);
    }
}
END_TEST

/* ---- models ---------------------------------------------------------------------------------- */

/* The observed scale of the tensor is 2688 over the largest magnitude that was seen. */
START_TEST(scale_of_the_tensor)
{
    dt_module *m;
    dt_tensor *x;
    const dt_mlp_options o = { .sizes = { 2, { 20, 3 } }, .bias = true };
    dt_qat_options qat = dt_qat_defaults();
    qat.preset = DT_NVFP4_NVFP4;
    TEST_OK(ctx, dt_mlp_create(ctx, &o, &m));
    TEST_OK(ctx, dt_prepare(m, &qat));
    const dt__input_hook *hook = dt__input_hook_of(dt_module_at(m, "head"));
    ck_assert_ptr_nonnull(hook);
    dt_train(m, false);
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, (int64_t[]){ 2, 20 }, &x));
    ck_assert_ptr_null(dt_forward(t, m, x));
    ck_assert_int_eq(dt_tape_status(t), DT_ERR_STATE);
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "has seen no batch"));
    dt_tape_reset(t);
    TEST_OK(ctx, dt_observe(m, true));
    for (int i = 0; i < 3; i++) { /* zeros; then 3; then less */
        ((float *)dt_data_mut(x))[7] = i == 1 ? -3.0f : (float)i / 2;
        ck_assert_ptr_nonnull(dt_forward(t, m, x));
        dt_tape_reset(t);
        const float g = *(const float *)dt_data(hook->range->scale);
        ck_assert_msg(g == (i == 0 ? 0x1p116f : 2688 * (1 / 3.0f)), "%a", (double)g);
    }
    dt_tensor_free(x);
    dt_module_free(m);
}
END_TEST

/* Convolutions' inputs have no blocks: they stay float under a preset, and a key is refused. */
START_TEST(convolutions)
{
    dt_module *m;
    dt_qat_options qat = dt_qat_defaults();
    const dt_conv_layer o = {
        .in = 4, .out = 3, .kernel = { 3, 3 }, .bias = true, .conv = dt_conv_defaults()
    };
    qat.preset = DT_NVFP4_NVFP4 + _i;
    TEST_OK(ctx, dt_conv2d_create(ctx, &o, &m));
    TEST_OK(ctx, dt_prepare(m, &qat));
    ck_assert_ptr_null(dt__input_hook_of(m));
    dt_module_free(m);
    qat = dt_qat_defaults();
    qat.activation = (dt_quant_patch){ .quant.scheme = DT_SCHEME_MXFP8, .has_scheme = true };
    TEST_OK(ctx, dt_conv2d_create(ctx, &o, &m));
    TEST_FAILS(ctx, DT_ERR_CONFIG, "per sample or per tensor, not per group", dt_prepare(m, &qat));
    dt_module_free(m);
}
END_TEST

Suite *test_small_blocks_suite(void)
{
    Suite *s = suite_create("small_blocks");
    TCase *c = tcase_create("blocks");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, values_by_the_definition, 0, FORMATS);
    tcase_add_loop_test(c, empty_and_zero, 0, FORMATS);
    tcase_add_loop_test(c, what_is_not_finite_is_refused, 0, FORMATS);
    tcase_add_loop_test(c, gradients, 0, FORMATS);
    tcase_add_test(c, scale_of_the_tensor);
    tcase_add_loop_test(c, convolutions, 0, 4);
    suite_add_tcase(s, c);
    return s;
}

/* linear on codes: against float64 values of int8 activations times int4 weights with gradients,
 * for each kind of product (integer, simulated, weights only), and each against the product of
 * dequantized values. */
#include "testing.h"

#include "autograd/codes.h"
#include "autograd/op.h"
#include "core/core.h"
#include "qat/quantized.h"

#include <detent/experimental/io.h>
#include <detent/ops.h>
#include <detent/qat.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static dt_ctx *ctx;
static dt_tape *t;

static void setup(void)
{
    ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK);
    ck_assert_int_eq(dt_tape_create(ctx, &t), DT_OK);
}

static void teardown(void)
{
    dt_tape_free(t);
    dt_ctx_free(ctx);
}

/* ---- reference values ----------------------------------------------------------------------- */

static dt_tensor *stored(const dt_file *f, const char *name, const char *what, dt_dtype dtype)
{
    char key[100];
    snprintf(key, sizeof key, "%s/%s", name, what);
    dt_tensor *x = NULL;
    if (dt_file_find(f, key) == NULL) return NULL;
    ck_assert_msg(dt_file_load(f, key, dtype, &x) == DT_OK, "%s", dt_error(ctx));
    return x;
}

/* Largest |got - want| in units of the element's bound, or of `scale` where bound is NULL. */
static void check_near(const char *name, const dt_tensor *got, const dt_tensor *want,
                       const dt_tensor *bound, double factor)
{
    const float *g = dt_data(got);
    const double *w = dt_data(want), *b = bound != NULL ? dt_data(bound) : NULL;
    double largest = 0;
    ck_assert_int_eq(dt_count(got), dt_count(want));
    for (int64_t i = 0; i < dt_count(want); i++) largest = fmax(largest, fabs(w[i]));
    for (int64_t i = 0; i < dt_count(want); i++) {
        const double limit = factor * (b != NULL ? b[i] : largest);
        ck_assert_msg(fabs((double)g[i] - w[i]) <= limit, "%s[%lld]: %.9g, not %.9g (+- %.2g)",
                      name, (long long)i, (double)g[i], w[i], limit);
    }
}

/* The sum of the magnitudes of the terms of numerics §2, for each element. The formula works on
 * codes + 128, so they are larger than those of signed codes. */
static dt_tensor *magnitude(const dt_file *f, const char *name, int group, dt_tensor *y64)
{
    dt_tensor *qx = stored(f, name, "qx", DT_I32), *qw = stored(f, name, "qw", DT_I32);
    dt_tensor *sx = stored(f, name, "sx", DT_F64), *sw = stored(f, name, "sw", DT_F64);
    dt_tensor *zx = stored(f, name, "zx", DT_I32), *bias = stored(f, name, "bias", DT_F64);
    const int64_t k = dt_dim(qw, 1), n = dt_dim(qw, 0), groups = dt__ceil_div(k, group);
    const int32_t *x = dt_data(qx), *w = dt_data(qw), *z = dt_data(zx);
    const double *b = bias != NULL ? dt_data(bias) : NULL;
    dt_tensor *out;
    ck_assert_int_eq(dt_tensor_create(ctx, DT_F64, dt_rank(y64),
                                      (int64_t[]){ dt_dim(y64, 0), dt_dim(y64, 1), dt_dim(y64, 2) },
                                      &out),
                     DT_OK);
    double *to = dt_data_mut(out);
    for (int64_t i = 0; i < dt_count(out); i++) {
        const int64_t row = i / n, column = i % n;
        double sum = 0;
        for (int64_t g = 0; g < groups; g++) {
            double dot = 0, codes = 0;
            for (int64_t c = g * group; c < dt__min_i64(k, (g + 1) * group); c++) {
                dot += (x[row * k + c] + 128) * w[column * k + c];
                codes += w[column * k + c];
            }
            const double scale = ((const double *)dt_data(sw))[column * groups + g];
            sum += scale * (fabs(dot) + (z[row] + 128) * fabs(codes));
        }
        to[i] = ((const double *)dt_data(sx))[row] * sum + (b != NULL ? fabs(b[column]) : 0);
    }
    dt_tensor *all[] = { qx, qw, sx, sw, zx, bias };
    for (int i = 0; i < DT__COUNT_OF(all); i++) dt_tensor_free(all[i]);
    return out;
}

static void check_case(const dt_file *f, const char *name, const char *settings, bool simulated)
{
    int group = 0;
    ck_assert_int_eq(sscanf(strstr(settings, "group="), "group=%d", &group), 1);
    dt_tensor *x = stored(f, name, "x", DT_F32), *w = stored(f, name, "w", DT_F32);
    dt_tensor *bias = stored(f, name, "bias", DT_F32), *dy = stored(f, name, "dy", DT_F32);
    dt_tensor *y64 = stored(f, name, "y64", DT_F64), *size = magnitude(f, name, group, y64);
    dt_tensor *dx64 = stored(f, name, "dx64", DT_F64), *dw64 = stored(f, name, "dw64", DT_F64);
    dt_quant_spec qw = dt_weight_quant_defaults(), qx = dt_activation_quant_defaults();
    qw.group_size = group;
    qw.ste = qx.ste = DT_STE_CLIPPED;
    ck_assert_int_eq(dt_set_requires_grad(x, true), DT_OK);
    ck_assert_int_eq(dt_set_requires_grad(w, true), DT_OK);
    ck_assert_int_eq(dt__fq_wrap(w, &(dt__fq){ .quant = qw, .simulated = simulated }), DT_OK);
    const dt__fq fq = { .quant = qx, .enabled = true, .simulated = simulated };
    dt_tensor *y = dt_linear(t, dt__fake_quant_as(t, x, &fq), w, bias);
    ck_assert_msg(y != NULL, "%s", dt_error(ctx));
    const int64_t groups = dt__ceil_div(dt_dim(x, -1), group);
    if (simulated) check_near(name, y, y64, NULL, 2e-6);
    else check_near(name, y, y64, size, (double)(groups + 4) * 0x1p-24);
    ck_assert_int_eq(dt_backward(t, y, dy), DT_OK);
    check_near(name, dt_grad(x), dx64, NULL, 1e-6);
    check_near(name, dt_grad(w), dw64, NULL, 1e-6);
    dt_tape_reset(t);
    dt_tensor *all[] = { x, w, bias, dy, y64, size, dx64, dw64 };
    for (int i = 0; i < DT__COUNT_OF(all); i++) dt_tensor_free(all[i]);
}

START_TEST(reference_values_hold)
{
    char path[TEST_PATH];
    if (!test_golden(path, "quant/linear.safetensors")) return;
    dt_file *f;
    ck_assert_int_eq(dt_file_open(ctx, path, &f), DT_OK);
    int cases = 0;
    for (int64_t i = 0; i < dt_file_meta_count(f); i++) {
        const char *name, *settings;
        dt_file_meta_at(f, i, &name, &settings);
        if (strstr(settings, "group=") == NULL) continue;
        check_case(f, name, settings, false);
        check_case(f, name, settings, true);
        cases++;
    }
    ck_assert_int_ge(cases, 5);
    dt_file_close(f);
}
END_TEST

/* ---- kinds of products ---------------------------------------------------------------------- */

static dt_tensor *random_tensor(int64_t rows, int64_t columns)
{
    dt_tensor *x;
    const int64_t dims[2] = { rows, columns };
    ck_assert_int_eq(dt_tensor_create(ctx, DT_F32, 2, dims, &x), DT_OK);
    ck_assert_int_eq(dt_fill_normal(x, 0, 1), DT_OK);
    ck_assert_int_eq(dt_set_requires_grad(x, true), DT_OK);
    return x;
}

static void check_close(const dt_tensor *a, const dt_tensor *b)
{
    const float *p = dt_data(a), *q = dt_data(b);
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < dt_count(a); i++) {
        difference += pow((double)p[i] - (double)q[i], 2);
        norm += pow((double)q[i], 2);
    }
    ck_assert_double_le(sqrt(difference), 2e-6 * sqrt(norm));
}

/* The wrapped call against the float op on the dequantized values: values and gradients. Operands
 * are larger than a tile of 512 KiB, so that there are several tiles. */
static void check_road(int64_t m, int64_t n, int64_t k, bool quantize_x, bool simulated)
{
    dt_tensor *x = random_tensor(m, k), *w = random_tensor(n, k), *dy = random_tensor(m, n);
    const dt_quant_spec qw = dt_weight_quant_defaults(), qx = dt_activation_quant_defaults();
    ck_assert_int_eq(dt__fq_wrap(w, &(dt__fq){ .quant = qw, .simulated = simulated }), DT_OK);
    const dt__fq fq = { .quant = qx, .enabled = quantize_x, .simulated = simulated };
    dt_tensor *xq = dt__fake_quant_as(t, x, &fq), *xi, *wi;
    dt_tensor *y = dt_linear(t, xq, w, NULL);
    ck_assert_msg(y != NULL, "%s", dt_error(ctx));
    ck_assert_int_eq(dt_backward(t, y, dy), DT_OK);
    ck_assert_int_eq(dt_dequantize(w, &wi), DT_OK);
    if (quantize_x) {
        ck_assert_int_eq(dt_dequantize(xq, &xi), DT_OK);
    } else {
        ck_assert_int_eq(dt_alias(x, &xi), DT_OK);
    }
    ck_assert_int_eq(dt_set_requires_grad(xi, true), DT_OK);
    ck_assert_int_eq(dt_set_requires_grad(wi, true), DT_OK);
    dt_tape *u;
    ck_assert_int_eq(dt_tape_create(ctx, &u), DT_OK);
    dt_tensor *z = dt_linear(u, xi, wi, NULL);
    ck_assert_int_eq(dt_backward(u, z, dy), DT_OK);
    check_close(y, z);
    check_close(dt_grad(x), dt_grad(xi));
    check_close(dt_grad(w), dt_grad(wi));
    dt_tape_free(u);
    dt_tape_reset(t);
    dt_tensor *all[] = { x, w, dy, xi, wi };
    for (int i = 0; i < DT__COUNT_OF(all); i++) dt_tensor_free(all[i]);
}

START_TEST(integer_road) { check_road(33, 70, 100, true, false); }
END_TEST
START_TEST(simulated_road) { check_road(33, 70, 100, true, true); }
END_TEST
START_TEST(weights_only_road) { check_road(33, 70, 100, false, false); }
END_TEST
START_TEST(tiles_are_cut)
{
    check_road(300, 500, 700, true, false);
    check_road(300, 500, 700, true, true);
    check_road(300, 500, 700, false, false);
}
END_TEST
START_TEST(no_rows)
{
    check_road(0, 7, 40, true, false);
    check_road(0, 7, 40, true, true);
    check_road(5, 1, 1, true, false);
}
END_TEST

/* What backward holds: codes, not fp32 copies. */
START_TEST(backward_keeps_codes)
{
    dt_tensor *x = random_tensor(256, 1024), *w = random_tensor(64, 1024);
    const dt_quant_spec qw = dt_weight_quant_defaults(), qx = dt_activation_quant_defaults();
    ck_assert_int_eq(dt__fq_wrap(w, &(dt__fq){ .quant = qw }), DT_OK);
    const size_t before = dt_memory_of(ctx).used;
    dt_tensor *h = dt_add(t, x, x); /* an activation of a megabyte */
    dt_tensor *y = dt_linear(t, dt_fake_quant(t, h, &qx, true), w, NULL);
    ck_assert_ptr_nonnull(y);
    dt_drop(t, h);
    for (int64_t i = 0; i < t->n_lent; i++) {
        if (t->lent[i] != y) dt_drop(t, t->lent[i]);
    }
    const size_t held = dt_memory_of(ctx).used - before;
    ck_assert_uint_lt(held, (size_t)600 * 1024); /* codes 256 KiB, y 64 KiB, panels 40 KiB */
    dt_tape_reset(t);
    dt_tensor_free(x);
    dt_tensor_free(w);
}
END_TEST

/* Three-dimensional inputs, and one scale for all of them: rows are those of the last dimension. */
START_TEST(any_rank_and_granularity)
{
    const int granularity[] = { DT_PER_TENSOR, DT_PER_TOKEN, DT_PER_SAMPLE, DT_PER_GROUP };
    for (int i = 0; i < DT__COUNT_OF(granularity); i++) {
        const int64_t dims[3] = { 3, 5, 21 };
        dt_tensor *x, *xi, *w = random_tensor(9, 21);
        ck_assert_int_eq(dt_tensor_create(ctx, DT_F32, 3, dims, &x), DT_OK);
        ck_assert_int_eq(dt_fill_normal(x, 1, 1), DT_OK);
        dt_quant_spec qx = dt_activation_quant_defaults();
        qx.granularity = granularity[i];
        qx.group_size = 8;
        const dt_quant_spec qw = dt_weight_quant_defaults();
        ck_assert_int_eq(dt__fq_wrap(w, &(dt__fq){ .quant = qw }), DT_OK);
        dt_tensor *wi, *xq = dt_fake_quant(t, x, &qx, true);
        ck_assert_int_eq(dt_dequantize(w, &wi), DT_OK);
        ck_assert_int_eq(dt_dequantize(xq, &xi), DT_OK);
        dt_tensor *y = dt_linear(t, xq, w, NULL), *z = dt_linear(t, xi, wi, NULL);
        ck_assert_msg(y != NULL, "%s", dt_error(ctx));
        ck_assert_int_eq(dt_rank(y), 3);
        check_close(y, z);
        dt_tape_reset(t);
        dt_tensor *all[] = { x, w, xi, wi };
        for (int k = 0; k < DT__COUNT_OF(all); k++) dt_tensor_free(all[k]);
    }
}
END_TEST

Suite *test_qlinear_suite(void)
{
    Suite *s = suite_create("qlinear");
    TCase *c = tcase_create("codes");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, reference_values_hold);
    tcase_add_test(c, integer_road);
    tcase_add_test(c, simulated_road);
    tcase_add_test(c, weights_only_road);
    tcase_add_test(c, tiles_are_cut);
    tcase_add_test(c, no_rows);
    tcase_add_test(c, backward_keeps_codes);
    tcase_add_test(c, any_rank_and_granularity);
    suite_add_tcase(s, c);
    return s;
}

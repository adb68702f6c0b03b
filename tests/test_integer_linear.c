/* A linear layer in integers, from fp32 x and w to y: schemes, panels and the product together,
 * against the values in ../shared/golden/quant/linear.safetensors. Codes, scales and zero points
 * are equal; y lies within (groups + 4) * 2^-24 * magnitude of the formula in float64, where
 * magnitude is the sum of the absolute values of the added terms, which contain u and zu. (The
 * file's own magnitude is computed from signed codes; it is smaller if a row's codes are far from
 * -128.) */
#include "testing.h"

#include <detent/experimental/io.h>

#include "kernels/kernels.h"
#include "qat/schemes/scheme.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* NAME/PART as a contiguous tensor, or NULL where the file has none. */
static dt_tensor *load(dt_ctx *ctx, const dt_file *file, const char *name, const char *part,
                       dt_dtype dtype)
{
    char full[128];
    snprintf(full, sizeof full, "%s/%s", name, part);
    dt_tensor *t = NULL;
    if (dt_file_find(file, full) != NULL) TEST_OK(ctx, dt_file_load(file, full, dtype, &t));
    return t;
}

/* A quantized operand. */
typedef struct operand {
    dt_tensor *x;
    dt__cut cut;
    dt__quantized q;
} operand;

static operand quantize(dt_ctx *ctx, dt_tensor *x, const dt_quant_spec *q)
{
    operand o = { .x = x };
    int64_t dims[DT_MAX_RANK];
    for (int d = 0; d < dt_rank(x); d++) dims[d] = dt_dim(x, d);
    TEST_OK(ctx, dt__cut_of(ctx, q, dt_rank(x), dims, &o.cut));
    const int64_t blocks = dt__cut_blocks(&o.cut);
    o.q.ld = dt__round_up(o.cut.columns, DT__STEP);
    o.q.codes = calloc((size_t)(o.cut.rows * o.q.ld), 1);
    o.q.scale = malloc((size_t)blocks * sizeof(float));
    o.q.zero = malloc((size_t)blocks);
    o.q.biased = q->activation;
    TEST_OK(ctx, dt__quantize(ctx, q, &o.cut, dt_data(x), &o.q, "an operand"));
    return o;
}

static void discard(operand *o)
{
    dt_tensor_free(o->x);
    free(o->q.codes);
    free(o->q.scale);
    free(o->q.zero);
}

static void check_operand(const operand *o, dt_tensor *codes, dt_tensor *scale)
{
    const int32_t *want = dt_data(codes);
    for (int64_t i = 0; i < o->cut.rows * o->cut.columns; i++) {
        const int8_t *at = o->q.codes + i / o->cut.columns * o->q.ld + i % o->cut.columns;
        const int code = o->q.biased ? (uint8_t)*at - 128 : *at;
        TEST_EACH(code == want[i], "code %lld is %d, not %d", (long long)i, code, want[i]);
    }
    ck_assert_mem_eq(dt_data(scale), o->q.scale, (size_t)dt_count(scale) * sizeof(float));
    dt_tensor_free(codes);
    dt_tensor_free(scale);
}

static void multiply(dt_ctx *ctx, const operand *x, const operand *w, const dt_tensor *bias,
                     float *y)
{
    const dt__panel_shape shape = {
        w->cut.rows, w->cut.columns, w->cut.group, 4, DT__SCALE_F32, 0
    };
    dt__panel_layout layout;
    ck_assert(dt__panel_layout_of(&shape, &layout));
    void *panels = aligned_alloc(64, layout.bytes);
    const dt__code_matrix codes = { w->q.codes, w->q.ld, w->q.scale, w->cut.groups };
    dt__panel_pack(&layout, &codes, panels);
    int32_t *zu = malloc((size_t)x->cut.rows * sizeof *zu);
    for (int64_t m = 0; m < x->cut.rows; m++) zu[m] = x->q.zero[m] + 128;
    const dt__qgemm g = { .layout = &layout,
                          .panels = panels,
                          .m = x->cut.rows,
                          .u = (const uint8_t *)x->q.codes,
                          .ldu = x->q.ld,
                          .sx = x->q.scale,
                          .zu = zu,
                          .bias = bias == NULL ? NULL : dt_data(bias),
                          .y = y,
                          .ldy = w->cut.rows };
    dt__kernels_of(ctx, DT_F32)->qd8_qb4_gemm(&g);
    free(zu);
    free(panels);
}

/* s_x * (sum of s_w * |sum of u * q_w| + zu * sum of s_w * |sum of q_w|) + |bias| */
static double magnitude_of(const operand *x, const operand *w, const dt_tensor *bias, int64_t i)
{
    const int64_t m = i / w->cut.rows, n = i % w->cut.rows;
    const uint8_t *u = (const uint8_t *)x->q.codes + m * x->q.ld;
    const int8_t *q = w->q.codes + n * w->q.ld;
    double sum = 0;
    for (int64_t g = 0; g < w->cut.groups; g++) {
        int64_t dot = 0, ones = 0;
        for (int64_t k = g * w->cut.group; k < w->cut.columns && k < (g + 1) * w->cut.group; k++) {
            dot += u[k] * q[k];
            ones += q[k];
        }
        const double size = fabs((double)dot) + (x->q.zero[m] + 128) * fabs((double)ones);
        sum += (double)w->q.scale[n * w->cut.groups + g] * size;
    }
    const double b = bias == NULL ? 0 : fabs((double)((const float *)dt_data(bias))[n]);
    return (double)x->q.scale[m] * sum + b;
}

static void check_case(dt_ctx *ctx, const dt_file *file, const char *name, const char *text)
{
    const dt_quant_spec of_x = dt_activation_quant_defaults();
    dt_quant_spec of_w = dt_weight_quant_defaults();
    of_w.group_size = atoi(strstr(text, "group=") + 6);
    operand x = quantize(ctx, load(ctx, file, name, "x", DT_F32), &of_x);
    operand w = quantize(ctx, load(ctx, file, name, "w", DT_F32), &of_w);
    check_operand(&x, load(ctx, file, name, "qx", DT_I32), load(ctx, file, name, "sx", DT_F32));
    check_operand(&w, load(ctx, file, name, "qw", DT_I32), load(ctx, file, name, "sw", DT_F32));
    dt_tensor *zx = load(ctx, file, name, "zx", DT_I32),
              *y64 = load(ctx, file, name, "y64", DT_F64);
    dt_tensor *magnitude = load(ctx, file, name, "magnitude", DT_F64);
    dt_tensor *bias = load(ctx, file, name, "bias", DT_F32);
    const int32_t *zero = dt_data(zx);
    for (int64_t m = 0; m < x.cut.rows; m++) ck_assert_int_eq(x.q.zero[m], zero[m]);
    float *y = malloc((size_t)dt_count(y64) * sizeof *y);
    multiply(ctx, &x, &w, bias, y);
    const double *want = dt_data(y64), *signed_size = dt_data(magnitude);
    double worst = 0, worst_signed = 0;
    for (int64_t i = 0; i < dt_count(y64); i++) {
        const double error = fabs(y[i] - want[i]) * 0x1p24;
        worst = fmax(worst, error / magnitude_of(&x, &w, bias, i));
        worst_signed = fmax(worst_signed, error / signed_size[i]);
        TEST_EACH(error <= (double)(w.cut.groups + 4) * magnitude_of(&x, &w, bias, i),
                  "%s: y %lld is %g, not %g", name, (long long)i, (double)y[i], want[i]);
    }
    printf("  %-12s worst error %.2f * 2^-24 of the terms, %.2f of the signed ones\n", name, worst,
           worst_signed);
    free(y);
    dt_tensor_free(zx);
    dt_tensor_free(y64);
    dt_tensor_free(magnitude);
    dt_tensor_free(bias);
    discard(&x);
    discard(&w);
}

START_TEST(reference_linear)
{
    char path[TEST_PATH];
    if (!test_golden(path, "quant/linear.safetensors")) return;
    dt_ctx *ctx;
    dt_file *file;
    ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK);
    TEST_OK(ctx, dt__kernels_open(ctx));
    TEST_OK(ctx, dt_file_open(ctx, path, &file));
    int cases = 0;
    for (int64_t i = 0; i < dt_file_meta_count(file); i++) {
        const char *name, *text;
        ck_assert(dt_file_meta_at(file, i, &name, &text));
        if (strstr(text, "group=") == NULL) continue;
        check_case(ctx, file, name, text);
        cases++;
    }
    ck_assert_int_ge(cases, 7);
    dt_file_close(file);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_integer_linear_suite(void)
{
    Suite *suite = suite_create("integer_linear");
    TCase *c = tcase_create("reference");
    tcase_add_test(c, reference_linear);
    suite_add_tcase(suite, c);
    return suite;
}

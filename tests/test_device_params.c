/* Parameters of integer networks (numerics §8) against reference values: scales and zero points of
 * ranges, clamps, codes of weights and biases, multipliers (golden/device/static_params and
 * requantize); and padding (pad). */
#include "device_golden.h"

#include "autograd/kind.h"
#include "core/tensor.h"
#include "ops/device/device_layer.h"
#include "qat/schemes/scheme.h"

#include <detent/experimental/device.h>
#include <detent/qat.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dt_ctx *context(int threads)
{
    dt_ctx_options o = dt_ctx_defaults();
    o.threads = threads;
    dt_ctx *ctx;
    ck_assert_int_eq(dt_ctx_create(&ctx, &o), DT_OK);
    return ctx;
}

static dt_quant_spec activation_spec(void)
{
    dt_quant_spec weight, activation;
    dt_qat_preset(DT_DEVICE_INT8, &weight, &activation);
    return activation;
}

/* ---- ranges ---------------------------------------------------------------------------------- */

static void check_ranges(device_golden *g)
{
    int64_t n;
    const dt_quant_spec spec = activation_spec();
    device_at(g, "activations");
    const float *low = device_data(g, "low", DT_F32, &n),
                *high = device_data(g, "high", DT_F32, NULL);
    const float *scale = device_data(g, "scale", DT_F32, NULL);
    const int32_t *zero = device_data(g, "zero_point", DT_I32, NULL);
    for (int64_t i = 0; i < n; i++) {
        const float lo = low[i] < 0 ? low[i] : 0, hi = high[i] > 0 ? high[i] : 0;
        float s;
        int8_t z;
        ck_assert(dt__range_scale(&spec, lo, hi, &s, &z));
        ck_assert_msg(s == scale[i] && z == zero[i], "%.9g ... %.9g: %.9g and %d, not %.9g and %d",
                      (double)low[i], (double)high[i], (double)s, z, (double)scale[i], zero[i]);
    }
    g->compared += 2 * n;
}

static void check_clamps(device_golden *g)
{
    int64_t n;
    device_at(g, "clamps");
    const float *scale = device_data(g, "scale", DT_F32, &n);
    const int32_t *zero = device_data(g, "zero_point", DT_I32, NULL);
    const int32_t *relu = device_data(g, "relu", DT_I32, NULL);
    const int32_t *relu6 = device_data(g, "relu6", DT_I32, NULL);
    for (int64_t i = 0; i < n; i++) {
        int least, most;
        const dt__coding_range range = { scale[i], zero[i] };
        dt__device_clamps(DT_ACT_RELU, range, &least, &most);
        ck_assert_msg(least == relu[2 * i] && most == relu[2 * i + 1], "relu %lld", (long long)i);
        dt__device_clamps(DT_ACT_RELU6, range, &least, &most);
        ck_assert_msg(least == relu6[2 * i] && most == relu6[2 * i + 1], "relu6 %lld",
                      (long long)i);
    }
    g->compared += 4 * n;
}

/* ---- weights --------------------------------------------------------------------------------- */

/* detent rounds half to even, the reference away from zero; a device sees codes only. */
static void check_codes(device_golden *g, const dt__device_layer *l, const float *w)
{
    const int8_t *codes = device_data(g, "codes", DT_I8, NULL);
    for (int64_t i = 0; i < l->rows * l->columns; i++) {
        if (l->codes[i] == codes[i]) continue;
        const float v = w[i] * (1 / l->scale[i / l->columns]);
        ck_assert_msg(fabsf(v - truncf(v)) == 0.5f && l->codes[i] % 2 == 0,
                      "%s: code %lld is %d, not %d", g->name, (long long)i, l->codes[i], codes[i]);
    }
    g->compared += l->rows * l->columns;
}

/* Scale, bias and multiplier of each row; the reference has one where the weight has one scale. */
static void check_rows(device_golden *g, const dt__device_layer *l, const char *multiplier,
                       const char *shift)
{
    int64_t scales, factors;
    const float *scale = device_data(g, "scale", DT_F32, &scales);
    const int32_t *bias = device_data(g, "bias_codes", DT_I32, NULL);
    const int32_t *m = device_data(g, multiplier, DT_I32, &factors);
    const int32_t *e = device_data(g, shift, DT_I32, NULL);
    for (int64_t o = 0; o < l->rows; o++) {
        ck_assert_msg(l->scale[o] == scale[o % scales], "%s: scale %lld", g->name, (long long)o);
        ck_assert_msg(l->bias[o] == bias[o], "%s: bias %lld is %d, not %d", g->name, (long long)o,
                      l->bias[o], bias[o]);
        ck_assert_msg(l->by[o].m == m[o % factors] && l->by[o].shift == e[o % factors],
                      "%s: %s %lld", g->name, multiplier, (long long)o);
    }
    g->compared += 4 * l->rows;
}

static void check_weight(device_golden *g, dt_tape *t, bool one_scale)
{
    dt_ctx *ctx = g->ctx;
    dt_quant_spec spec, unused;
    char entry[96], why[DT__DEVICE_WHY];
    dt_tensor *w;
    dt__codes *codes;
    dt__device_layer l;
    dt_qat_preset(DT_DEVICE_INT8, &spec, &unused);
    spec.bits = device_number(g, "bits", 8);
    if (device_number(g, "per_channel", 1) == 0) spec.granularity = DT_PER_TENSOR;
    snprintf(entry, sizeof entry, "%s/weights", g->name);
    TEST_OK(ctx, dt_file_load(g->file, entry, DT_F32, &w));
    dt_tensor *fq = dt_fake_quant(t, w, &spec, true);
    TEST_OK(ctx, dt_tape_status(t));
    TEST_OK(ctx, fq->kind->codes(t, fq, &codes));
    const float *x_scale = device_data(g, "input_scale", DT_F32, NULL);
    const float *y_scale = device_data(g, "output_scale", DT_F32, NULL);
    const dt__device_operands in = { .x = { x_scale[0], 0 },
                                     .y = { y_scale[0], 0 },
                                     .w = codes,
                                     .bias = device_data(g, "bias", DT_F32, NULL),
                                     .one_scale = one_scale };
    const dt_status s = dt__device_layer_make(ctx, &in, &l, why);
    ck_assert_msg(s == DT_OK, "%s: %s", g->name, why);
    check_codes(g, &l, dt_data(w));
    check_rows(g, &l, one_scale ? "fc_multiplier" : "multiplier", one_scale ? "fc_shift" : "shift");
    dt__device_layer_free(ctx, &l);
    dt__codes_release(codes);
    dt_tape_reset(t);
    dt_tensor_free(w);
}

START_TEST(static_parameters)
{
    dt_ctx *ctx = context(1);
    device_golden g;
    dt_tape *t;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    if (device_open(ctx, "static_params", &g)) {
        int64_t n = 0;
        check_ranges(&g);
        check_clamps(&g);
        for (int64_t i = 0; device_case(&g, i); i++) {
            if (strncmp(g.name, "weights", 7) != 0) continue;
            const bool has_one = device_data(&g, "fc_multiplier", DT_I32, NULL) != NULL;
            const char *name = g.name;
            check_weight(&g, t, false);
            device_at(&g, name);
            if (has_one) check_weight(&g, t, true);
            n++;
        }
        ck_assert_int_gt(n, 0);
        printf("static_params: %lld weights, %lld values\n", (long long)n, (long long)g.compared);
        device_close(&g);
    }
    dt_tape_free(t);
    dt_ctx_free(ctx);
}
END_TEST

/* The two ways to form the factor of a layer: dt__device_layer_make of one weight. */
START_TEST(products_of_scales)
{
    dt_ctx *ctx = context(1);
    device_golden g;
    if (device_open(ctx, "requantize", &g)) {
        int64_t n;
        device_at(&g, "products");
        const float *x = device_data(&g, "input_scale", DT_F32, &n);
        const float *w = device_data(&g, "weight_scale", DT_F32, NULL);
        const float *y = device_data(&g, "output_scale", DT_F32, NULL);
        const int32_t *m[2] = { device_data(&g, "conv_multiplier", DT_I32, NULL),
                                device_data(&g, "fc_tensor_multiplier", DT_I32, NULL) };
        const int32_t *e[2] = { device_data(&g, "conv_shift", DT_I32, NULL),
                                device_data(&g, "fc_tensor_shift", DT_I32, NULL) };
        dt_tape *t;
        dt_quant_spec spec, unused;
        TEST_OK(ctx, dt_tape_create(ctx, &t));
        dt_qat_preset(DT_DEVICE_INT8, &spec, &unused);
        for (int64_t i = 0; i < 2 * n; i++) {
            const int64_t k = i / 2, dims[] = { 1, 1 };
            const float value = w[k] * 127; /* whose scale is w again, where that is exact */
            dt_tensor *weight;
            dt__codes *codes;
            dt__device_layer l;
            char why[DT__DEVICE_WHY];
            TEST_OK(ctx, dt_tensor_from(ctx, DT_F32, 2, dims, &value, &weight));
            dt_tensor *fq = dt_fake_quant(t, weight, &spec, true);
            TEST_OK(ctx, fq->kind->codes(t, fq, &codes));
            dt__codes *own = codes;
            const dt__device_operands in = {
                .x = { x[k], 0 }, .y = { y[k], 0 }, .w = own, .one_scale = i % 2 == 1
            };
            const dt_status s = dt__device_layer_make(ctx, &in, &l, why);
            ck_assert_msg(s == DT_OK, "%lld: %s", (long long)k, why);
            if (l.scale[0] == w[k]) {
                ck_assert_msg(l.by[0].m == m[i % 2][k] && l.by[0].shift == e[i % 2][k], "%lld, %s",
                              (long long)k, i % 2 == 1 ? "one scale" : "channels");
                g.compared += 2;
            }
            dt__device_layer_free(ctx, &l);
            dt__codes_release(codes);
            dt_tape_reset(t);
            dt_tensor_free(weight);
        }
        printf("products: %lld values of %lld\n", (long long)g.compared, (long long)(4 * n));
        ck_assert_int_gt(g.compared, 2 * n);
        dt_tape_free(t);
        device_close(&g);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* ---- padding --------------------------------------------------------------------------------- */

/* Four numbers "1,2,3,4" of a setting. */
static void four(const device_golden *g, const char *key, int64_t v[4])
{
    char word[64], *at = word;
    device_word(g, key, word);
    for (int i = 0; i < 4; i++) v[i] = strtoll(at + (i > 0), &at, 10);
}

static void check_pad(device_golden *g, dt_tape *t)
{
    dt_ctx *ctx = g->ctx;
    int64_t n, m, pre[4], post[4], x[4], y[4];
    char entry[64];
    const int8_t *input = device_data(g, "input", DT_I8, &n);
    device_data(g, "output", DT_I8, &m);
    snprintf(entry, sizeof entry, "%s/input", g->name);
    memcpy(x, dt_file_find(g->file, entry)->dims, sizeof x);
    four(g, "pre", pre);
    four(g, "post", post);
    for (int i = 0; i < 4; i++) y[i] = x[i] + pre[i] + post[i];
    int8_t *planes = malloc((size_t)n + 1), *got = malloc((size_t)m + 1);
    int8_t *of_y = malloc((size_t)m + 1);
    float *values = malloc((size_t)n * sizeof *values + 1);
    device_to_planes(input, x, planes);
    const int8_t zero = (int8_t)device_number(g, "zero_point", 0);
    const int64_t one = 1, dims[] = { x[0], x[3], x[1], x[2] };
    const float scale = 1;
    for (int64_t i = 0; i < n; i++) values[i] = (float)(planes[i] - zero);
    dt_tensor *tensor;
    dt_device_range range = { NULL, NULL, NULL };
    TEST_OK(ctx, dt_tensor_from(ctx, DT_F32, 1, &one, &scale, &range.scale));
    TEST_OK(ctx, dt_tensor_from(ctx, DT_I8, 1, &one, &zero, &range.zero_point));
    TEST_OK(ctx, dt_tensor_from(ctx, DT_F32, 4, dims, values, &tensor));
    const dt_pad_options o = { .pads = { 6,
                                         { pre[2], post[2], pre[1], post[1], pre[3], post[3] } } };
    dt_tensor *padded = dt_device_pad(t, dt_device_quantize(t, tensor, &range), &o);
    TEST_OK(ctx, dt_tape_status(t));
    ck_assert_int_eq(padded->count, m);
    TEST_OK(ctx, dt_coded_read(padded, of_y));
    device_from_planes(of_y, y, got);
    device_equal(g, "output", got);
    dt_tape_reset(t);
    dt_tensor_free(tensor);
    dt_tensor_free(range.scale);
    dt_tensor_free(range.zero_point);
    free(planes);
    free(got);
    free(of_y);
    free(values);
}

START_TEST(padding)
{
    for (int threads = 1; threads <= 4; threads += 3) {
        dt_ctx *ctx = context(threads);
        device_golden g;
        if (device_open(ctx, "pad", &g)) {
            int64_t i = 0;
            dt_tape *t;
            TEST_OK(ctx, dt_tape_create(ctx, &t));
            for (; device_case(&g, i); i++) check_pad(&g, t);
            ck_assert_int_gt(i, 0);
            if (threads == 1)
                printf("pad: %lld cases, %lld codes\n", (long long)i, (long long)g.compared);
            dt_tape_free(t);
            device_close(&g);
        }
        dt_ctx_free(ctx);
    }
}
END_TEST

Suite *test_device_params_suite(void)
{
    Suite *s = suite_create("device_params");
    TCase *c = tcase_create("golden");
    tcase_add_test(c, static_parameters);
    tcase_add_test(c, products_of_scales);
    tcase_add_test(c, padding);
    suite_add_tcase(s, c);
    return s;
}

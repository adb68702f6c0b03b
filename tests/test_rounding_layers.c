/* Rounding of random layers: schemes, orders, blocks, threads, rows that keep nearest,
 * contradicting settings, failing allocations. */
#include "schemes.h"
#include "testing.h"

#include <detent/experimental/ptq.h>

#include "core/tensor.h"
#include "kernels/convolution/row_map.h"
#include "ptq/statistics.h"
#include "qat/schemes/least_error.h"
#include "qat/schemes/scheme.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static dt_ctx *context(int threads)
{
    dt_ctx *ctx;
    dt_ctx_options options = dt_ctx_defaults();
    options.threads = threads;
    ck_assert_int_eq(dt_ctx_create(&ctx, &options), DT_OK);
    return ctx;
}

static dt_tensor *random_tensor(dt_ctx *ctx, int rank, const int64_t *dims)
{
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, rank, dims, &x));
    TEST_OK(ctx, dt_fill_normal(x, 0, 1));
    return x;
}

/* A linear layer and its inputs, whose columns depend on each other. */
typedef struct layer {
    dt_ctx *ctx;
    int64_t rows, columns, samples;
    dt_tensor *w, *x;
    dt_quant_spec quant;
    dt_rounding_options options;
    bool identity; /* H = I in place of the inputs' */
} layer;

static layer layer_of(dt_ctx *ctx, int64_t rows, int64_t columns, int64_t samples)
{
    layer l = { .ctx = ctx, .rows = rows, .columns = columns, .samples = samples };
    l.w = random_tensor(ctx, 2, (int64_t[]){ rows, columns });
    l.x = random_tensor(ctx, 2, (int64_t[]){ samples, columns });
    float *x = dt_data_mut(l.x);
    for (int64_t i = 0; i < samples; i++) {
        for (int64_t j = 1; j < columns; j++) {
            x[i * columns + j] =
                0.7f * x[i * columns + j - 1] + x[i * columns + j] * (float)(j % 5);
        }
    }
    l.quant = dt_weight_quant_defaults();
    l.options = dt_rounding_defaults();
    l.options.rounder = DT_ROUND_GPTQ;
    l.options.rounding.keep_better = false;
    return l;
}

static void layer_free(layer *l)
{
    dt_tensor_free(l->w);
    dt_tensor_free(l->x);
}

static dt_status round_layer(const layer *l, dt_rounded **out, dt_round_report *report)
{
    dt_statistics *s = NULL;
    const dt_weight_op op = { .kind = DT_WEIGHT_LINEAR };
    DT__TRY(dt_statistics_create(l->ctx, &op, 2, l->w->dims, false, &s));
    dt_status status = dt_statistics_add(s, l->x, NULL);
    double *h = dt__statistics_moments(s)->h;
    for (int64_t i = 0; l->identity && i < l->columns * l->columns; i++) {
        h[i] = i % (l->columns + 1) == 0 ? 3 : 0;
    }
    if (status == DT_OK) {
        const dt_round_work work = { .name = "a layer",
                                     .weight = l->w,
                                     .op = &op,
                                     .quant = &l->quant,
                                     .options = &l->options,
                                     .statistics = s };
        status = dt_round(l->ctx, &work, out, report);
    }
    dt_statistics_free(s);
    return status;
}

static dt_rounded *rounded(const layer *l, dt_round_report *report)
{
    dt_rounded *r = NULL;
    TEST_OK(l->ctx, round_layer(l, &r, report));
    return r;
}

static bool same(const dt_rounded *a, const dt_rounded *b)
{
    const size_t scales = (size_t)(a->rows * a->groups);
    return memcmp(a->codes, b->codes, (size_t)(a->rows * a->columns)) == 0 &&
           memcmp(a->scale, b->scale, scales * sizeof *a->scale) == 0 &&
           (a->zero_point == NULL || memcmp(a->zero_point, b->zero_point, scales) == 0) &&
           (a->group_of == NULL ||
            memcmp(a->group_of, b->group_of, (size_t)a->columns * sizeof(int32_t)) == 0);
}

/* ---- schemes -------------------------------------------------------------------------------- */

static dt_quant_spec scheme(int rule, int granularity, int64_t bits, int scale_dtype)
{
    return (dt_quant_spec){ .scheme = rule,
                            .bits = bits,
                            .granularity = granularity,
                            .group_size = rule == DT_SCHEME_Q4_0 ? 32 : 24,
                            .scale_dtype = scale_dtype };
}

/* The i-th scheme that weights can have; false after the last one. */
static bool scheme_at(int i, dt_quant_spec *q)
{
    static const int64_t bits[] = { 2, 4, 8 };
    const int n = plain_schemes(), plain = n * 3 * 3 * 3;
    if (i < plain) {
        *q = scheme(plain_scheme(i), i / n % 3, bits[i / n / 3 % 3], i / n / 9);
        return true;
    }
    *q = scheme(DT_SCHEME_Q4_0, DT_PER_GROUP, 4, DT_SCALE_F16);
    if (i == plain) return true;
    *q = scheme(DT_SCHEME_ASYMMETRIC, DT_PER_CHANNEL, 5, DT_SCALE_F32);
    q->is_unsigned = true;
    if (i == plain + 1) return true;
    for (int k = DT_SCHEME_HALF_LEVELS; k <= DT_SCHEME_BINARY; k++) {
        *q = scheme(k, DT_PER_TENSOR + k % 3, k == DT_SCHEME_BINARY ? 1 : 2, DT_SCALE_F32);
        if (i == plain + 2 + k - DT_SCHEME_HALF_LEVELS) return true;
    }
    i -= 3;
    *q = scheme(plain_scheme(i - plain - 2), (i - plain - 2) / n, 4, DT_SCALE_F32);
    q->range = DT_RANGE_STATIC;
    q->observer = DT_OBSERVER_MSE;
    return i < plain + 2 + 3 * n;
}

/* What a FakeQuantTensor makes of rows [rows][columns]. */
static void quantized(const layer *l, dt_rounded *out)
{
    dt__cut cut;
    TEST_OK(l->ctx, dt__cut_of(l->ctx, &l->quant, 2, l->w->dims, &cut));
    dt__quantized q = { .codes = out->codes, .ld = l->columns, .scale = out->scale };
    q.zero = out->zero_point;
    if (l->quant.range == DT_RANGE_STATIC) {
        const int64_t scales = dt__cut_blocks(&cut);
        dt__quantizer range = { .quant = l->quant };
        const int64_t one = 1;
        TEST_OK(l->ctx, dt_tensor_create(l->ctx, DT_F32, 1, &scales, &range.scale));
        TEST_OK(l->ctx, dt_tensor_create(l->ctx, DT_I8, 1, &scales, &range.zero_point));
        TEST_OK(l->ctx, dt_tensor_create(l->ctx, DT_I64, 1, &one, &range.count));
        if (out->zero_point == NULL) {
            dt_tensor_free(range.zero_point);
            range.zero_point = NULL;
        }
        TEST_OK(l->ctx, dt__least_error_observe(l->w, &(dt__row_map){ .groups = 0 }, &range));
        memcpy(q.scale, dt_data(range.scale), (size_t)scales * sizeof *q.scale);
        if (q.zero != NULL) memcpy(q.zero, dt_data(range.zero_point), (size_t)scales);
        TEST_OK(l->ctx, dt__quantize_given(l->ctx, &l->quant, &cut, dt_data(l->w), &q, "a layer"));
        dt_tensor_free(range.scale);
        dt_tensor_free(range.zero_point);
        dt_tensor_free(range.count);
    } else {
        TEST_OK(l->ctx, dt__quantize(l->ctx, &l->quant, &cut, dt_data(l->w), &q, "a layer"));
    }
    for (int64_t r = 1; cut.whole && r < l->rows; r++) {
        q.scale[r] = q.scale[0];
        if (q.zero != NULL) q.zero[r] = q.zero[0];
    }
}

/* Nearest gives the codes that the prepared model uses, and so does GPTQ with uncorrelated inputs:
 * for every scheme, with short last groups, in every order. */
START_TEST(test_schemes)
{
    dt_ctx *ctx = context(2);
    layer l = layer_of(ctx, 70, 100, 40);
    dt_round_report report;
    l.options.rounding.keep_better = true;
    for (int i = 0; scheme_at(i, &l.quant); i++) {
        l.options.rounder = DT_ROUND_NEAREST;
        l.identity = false;
        l.options.rounding.order = DT_ORDER_NONE;
        dt_rounded *nearest = rounded(&l, NULL), *again = rounded(&l, NULL);
        quantized(&l, again);
        TEST_EACH(same(nearest, again), "scheme %d: nearest is another", i);
        dt_rounded_free(ctx, again);
        l.options.rounder = DT_ROUND_GPTQ;
        l.identity = true;
        for (int order = DT_ORDER_NONE; order <= DT_ORDER_GROUP; order++) {
            if (order == DT_ORDER_GROUP && l.quant.granularity != DT_PER_GROUP) continue;
            l.options.rounding.order = order;
            again = rounded(&l, &report);
            TEST_EACH(report.kept_nearest == 0 && report.changed == 0, "what is equal is not kept");
            TEST_EACH((again->group_of != NULL) == (order == DT_ORDER_GROUP), "group_of");
            TEST_EACH(memcmp(again->codes, nearest->codes, 7000) == 0,
                      "scheme %d, order %d: GPTQ with H = I is not nearest", i, order);
            dt_rounded_free(ctx, again);
        }
        dt_rounded_free(ctx, nearest);
    }
    layer_free(&l);
    dt_ctx_free(ctx);
}
END_TEST

/* Given scales are used and not changed, as for learned ranges. */
START_TEST(test_given_scales_are_unchanged)
{
    dt_ctx *ctx = context(2);
    layer l = layer_of(ctx, 3, 16, 40);
    const float scale[3] = { 0.25f, 0.5f, 0.125f };
    dt_round_work work = { .weight = l.w, .quant = &l.quant };
    dt_rounded *r = NULL;
    l.quant = scheme(DT_SCHEME_SYMMETRIC, DT_PER_CHANNEL, 4, DT_SCALE_F32);
    l.quant.range = DT_RANGE_LEARNED;
    TEST_FAILS(ctx, DT_ERR_ARG, "comes with its scales", dt_round(ctx, &work, &r, NULL));
    work.scale = scale;
    TEST_OK(ctx, dt_round(ctx, &work, &r, NULL));
    ck_assert_mem_eq(r->scale, scale, sizeof scale);
    const float *w = dt_data(l.w);
    for (int i = 0; i < 48; i++) {
        const float v = fminf(fmaxf(rintf(w[i] / scale[i / 16]), -8), 7);
        TEST_EACH(r->codes[i] == (int)v, "%d: %d, not %g", i, r->codes[i], v);
    }
    dt_rounded_free(ctx, r);
    const float bad[3] = { 1, NAN, 1 };
    work.scale = bad;
    TEST_FAILS(ctx, DT_ERR_NUMERIC, "row 1", dt_round(ctx, &work, &r, NULL));
    layer_free(&l);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- settings that change no code ----------------------------------------------------------- */

static const struct variant {
    int rule, granularity, order, group_scales;
    bool keep_better;
} variants[] = {
    { DT_SCHEME_SYMMETRIC, DT_PER_CHANNEL, DT_ORDER_NONE, 0, false },
    { DT_SCHEME_SYMMETRIC, DT_PER_TENSOR, DT_ORDER_WEIGHT, 0, true },
    { DT_SCHEME_ASYMMETRIC, DT_PER_GROUP, DT_ORDER_WEIGHT, 0, true },
    { DT_SCHEME_ASYMMETRIC, DT_PER_GROUP, DT_ORDER_GROUP, DT_SCALES_REFRESH, true },
    { DT_SCHEME_SYMMETRIC, DT_PER_GROUP, DT_ORDER_NONE, DT_SCALES_REFRESH, false },
    { DT_SCHEME_Q4_0, DT_PER_GROUP, DT_ORDER_GROUP, DT_SCALES_REFRESH, true },
};

static void choose_variant(layer *l, const struct variant *v)
{
    l->quant = scheme(v->rule, v->granularity, 4, DT_SCALE_F32);
    l->options.rounding.order = v->order;
    l->options.rounding.group_scales = v->group_scales;
    l->options.rounding.keep_better = v->keep_better;
}

START_TEST(test_threads)
{
    dt_rounded *first = NULL;
    dt_round_report report, other;
    dt_ctx *owner = NULL;
    for (int threads = 1; threads <= 3; threads++) {
        dt_ctx *ctx = context(threads);
        layer l = layer_of(ctx, 150, 250, 300);
        choose_variant(&l, &variants[_i]);
        dt_rounded *r = rounded(&l, first == NULL ? &report : &other);
        layer_free(&l);
        if (first == NULL) {
            first = r;
            owner = ctx;
            continue;
        }
        ck_assert_msg(same(first, r), "%d threads: another result", threads);
        ck_assert(report.error == other.error && report.loss == other.loss);
        ck_assert_int_eq(report.kept_nearest, other.kept_nearest);
        dt_rounded_free(ctx, r);
        dt_ctx_free(ctx);
    }
    dt_rounded_free(owner, first);
    dt_ctx_free(owner);
}
END_TEST

/* The block size only changes how many errors are applied together. */
START_TEST(test_blocks)
{
    static const int64_t blocks[] = { 1, 7, 32, 128, 250, 1 << 30 };
    dt_ctx *ctx = context(2);
    layer l = layer_of(ctx, 70, 250, 300);
    choose_variant(&l, &variants[_i]);
    dt_rounded *first = rounded(&l, NULL);
    for (int i = 0; i < DT__COUNT_OF(blocks); i++) {
        l.options.rounding.block = blocks[i];
        dt_rounded *r = rounded(&l, NULL);
        ck_assert_msg(same(first, r), "block %d: another result", (int)blocks[i]);
        dt_rounded_free(ctx, r);
    }
    dt_rounded_free(ctx, first);
    layer_free(&l);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- errors of codes ------------------------------------------------------------------------ */

/* Square of the norm of row r of (W - W^) X, sample by sample. */
static double row_error(const layer *l, const dt_rounded *q, int64_t r)
{
    const float *w = (const float *)dt_data(l->w) + r * l->columns, *x = dt_data(l->x);
    const int64_t group = l->quant.granularity == DT_PER_GROUP ? l->quant.group_size : l->columns;
    double error = 0;
    for (int64_t s = 0; s < l->samples; s++) {
        double sum = 0;
        for (int64_t c = 0; c < l->columns; c++) {
            const int64_t at = r * q->groups + (q->group_of ? q->group_of[c] : c / group);
            const int zero = q->zero_point == NULL ? 0 : q->zero_point[at];
            const double image = (q->codes[r * l->columns + c] - zero) * (double)q->scale[at];
            sum += (w[c] - image) * x[s * l->columns + c];
        }
        error += sum * sum;
    }
    return error;
}

/* With keep_better no row is worse than nearest: rows that were worse keep nearest. */
START_TEST(test_keep_better)
{
    dt_ctx *ctx = context(2);
    int64_t kept = 0;
    for (int i = 0; i < DT__COUNT_OF(variants); i++) {
        layer l = layer_of(ctx, 300, 64, 50);
        choose_variant(&l, &variants[i]);
        if (l.quant.scheme != DT_SCHEME_Q4_0) l.quant.bits = 2;
        dt_round_report report, free_report;
        l.options.rounding.keep_better = false;
        dt_rounded *chosen = rounded(&l, &free_report);
        l.options.rounding.keep_better = true;
        dt_rounded *better = rounded(&l, &report);
        l.options.rounding.group_scales = DT_SCALES_FROZEN;
        l.options.rounder = DT_ROUND_NEAREST;
        l.options.rounding.order = DT_ORDER_NONE;
        dt_rounded *nearest = NULL;
        if (variants[i].order != DT_ORDER_GROUP) nearest = rounded(&l, NULL);
        double error = 0, own = 0, least = 0;
        int64_t worse = 0;
        for (int64_t r = 0; r < l.rows; r++) {
            const double gptq = row_error(&l, chosen, r), now = row_error(&l, better, r);
            error += now;
            own += gptq;
            if (nearest == NULL) continue;
            const double near = row_error(&l, nearest, r);
            least += near;
            worse += gptq > near;
            TEST_EACH(now <= near * (1 + 1e-9) && now <= gptq * (1 + 1e-9), "variant %d, row %d", i,
                      (int)r);
        }
        TEST_NEAR(report.error, sqrt(error), 0, 1e-9);
        TEST_NEAR(free_report.error, sqrt(own), 0, 1e-9);
        ck_assert(report.error <= report.nearest_error && free_report.kept_nearest == 0);
        if (nearest != NULL) {
            TEST_NEAR(report.nearest_error, sqrt(least), 0, 1e-9);
            ck_assert_int_eq(report.kept_nearest, worse);
            dt_rounded_free(ctx, nearest);
        }
        kept += report.kept_nearest;
        dt_rounded_free(ctx, chosen);
        dt_rounded_free(ctx, better);
        layer_free(&l);
    }
    ck_assert_int_gt(kept, 0);
    dt_ctx_free(ctx);
}
END_TEST

/* With few samples the damping term is much larger than an error; the report still has the
 * error. */
START_TEST(test_few_samples)
{
    dt_ctx *ctx = context(2);
    layer l = layer_of(ctx, 40, 300, 3);
    dt_round_report report;
    l.quant = scheme(DT_SCHEME_SYMMETRIC, DT_PER_CHANNEL, 8, DT_SCALE_F32);
    for (l.options.rounding.damping = 1; l.options.rounding.damping > 1e-7;) {
        dt_rounded *r = rounded(&l, &report);
        double error = 0;
        for (int64_t row = 0; row < l.rows; row++) error += row_error(&l, r, row);
        TEST_NEAR(report.error, sqrt(error), 0, 1e-6);
        dt_rounded_free(ctx, r);
        l.options.rounding.damping /= 100;
    }
    layer_free(&l);
    dt_ctx_free(ctx);
}
END_TEST

/* With nearest, data only give the error in the report; they change no code, also in columns
 * without inputs. */
START_TEST(test_nearest_looks_at_no_data)
{
    dt_ctx *ctx = context(2);
    layer l = layer_of(ctx, 20, 40, 60);
    float *x = dt_data_mut(l.x);
    dt_round_report report;
    dt_rounded *alone;
    for (int64_t s = 0; s < l.samples; s++) x[s * 40 + 7] = 0;
    l.options.rounder = DT_ROUND_NEAREST;
    const dt_round_work work = { .weight = l.w, .quant = &l.quant };
    TEST_OK(ctx, dt_round(ctx, &work, &alone, NULL));
    dt_rounded *r = rounded(&l, &report);
    ck_assert_int_eq(report.dead, 1);
    ck_assert_int_eq(report.changed, 0);
    ck_assert_mem_eq(r->codes, alone->codes, 20 * 40);
    TEST_NEAR(report.error, report.nearest_error, 0, 1e-12);
    dt_rounded_free(ctx, alone);
    dt_rounded_free(ctx, r);
    layer_free(&l);
    dt_ctx_free(ctx);
}
END_TEST

/* Columns without inputs become 0, though nearest keeps them; zeros stay where they are many. */
START_TEST(test_dead_and_zeros)
{
    dt_ctx *ctx = context(2);
    layer l = layer_of(ctx, 20, 40, 60);
    float *x = dt_data_mut(l.x), *w = dt_data_mut(l.w);
    dt_round_report report;
    for (int64_t s = 0; s < l.samples; s++) x[s * 40 + 7] = x[s * 40 + 39] = 0;
    for (int64_t i = 0; i < 800; i += 20) w[i] = 0; /* 5 % */
    l.options.rounding.keep_better = _i == 1;
    l.options.rounding.keep_zeros = true;
    l.quant = scheme(_i == 1 ? DT_SCHEME_ASYMMETRIC : DT_SCHEME_SYMMETRIC, DT_PER_CHANNEL, 4, 0);
    dt_rounded *r = rounded(&l, &report);
    ck_assert_int_eq(report.dead, 2);
    ck_assert_int_eq(report.zeros_kept, 40);
    for (int64_t i = 0; i < 800; i++) {
        const int zero = r->zero_point == NULL ? 0 : r->zero_point[i / 40];
        const bool must = i % 40 == 7 || i % 40 == 39 || i % 20 == 0;
        TEST_EACH(!must || r->codes[i] == zero, "element %d is not 0", (int)i);
    }
    dt_rounded_free(ctx, r);
    w[0] = 1; /* one too few */
    r = rounded(&l, &report);
    ck_assert_int_eq(report.zeros_kept, 0);
    dt_rounded_free(ctx, r);
    layer_free(&l);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- errors --------------------------------------------------------------------------------- */

#define REFUSES(text)                                                                              \
    do {                                                                                           \
        TEST_FAILS(ctx, DT_ERR_CONFIG, text, round_layer(&l, &r, NULL));                           \
        l.options = good;                                                                          \
        l.quant = quant;                                                                           \
    } while (0)

START_TEST(test_settings)
{
    dt_ctx *ctx = context(1);
    layer l = layer_of(ctx, 2, 8, 9);
    dt_rounded *r = NULL;
    const dt_rounding_options good = l.options;
    const dt_quant_spec quant = l.quant;
    dt_rounding *o = &l.options.rounding;
    l.options.rounder = 1000;
    REFUSES("1000 is not a rounder");
    o->least_rows = -1;
    REFUSES("least_rows is -1");
    l.options.rounder = -1;
    REFUSES("-1 is not a rounder");
    o->order = 3;
    REFUSES("order is 3");
    o->damping_mean = 2;
    REFUSES("damping_mean is 2");
    o->group_scales = -1;
    REFUSES("group_scales is -1");
    o->damping = -0.5;
    REFUSES("not negative");
    o->damping_absolute = INFINITY;
    REFUSES("finite");
    o->alpha = NAN;
    REFUSES("finite");
    o->block = 0;
    REFUSES("at least 1");
    l.quant.bits = 9;
    REFUSES("1 to 8");
    l.quant = dt_activation_quant_defaults();
    REFUSES("of activations");
    o->order = DT_ORDER_WEIGHT;
    l.options.rounder = DT_ROUND_NEAREST;
    REFUSES("reads no data");
    o->order = DT_ORDER_GROUP;
    l.quant.granularity = DT_PER_CHANNEL;
    REFUSES("requires granularity group");
    o->group_scales = DT_SCALES_REFRESH;
    l.options.rounder = DT_ROUND_GPFQ;
    REFUSES("not for gpfq");
    o->group_scales = DT_SCALES_REFRESH;
    l.quant.granularity = DT_PER_CHANNEL;
    REFUSES("requires granularity group");
    o->group_scales = DT_SCALES_REFRESH;
    o->order = DT_ORDER_WEIGHT;
    REFUSES("in order weight");
    l.options.accumulator.bits = 16;
    REFUSES("a2gptq, a2gpfq and a2qronos do");
    layer_free(&l);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(test_operands)
{
    dt_ctx *ctx = context(1);
    layer l = layer_of(ctx, 4, 8, 9);
    dt_rounded *r = NULL;
    dt_statistics *s;
    const dt_weight_op op = { .kind = DT_WEIGHT_LINEAR };
    dt_round_work work = { .name = "head", .weight = l.w, .quant = &l.quant };
    work.options = &l.options;
    TEST_FAILS(ctx, DT_ERR_ARG, "round head: gptq requires statistics",
               dt_round(ctx, &work, &r, NULL));
    TEST_OK(ctx, dt_statistics_create(ctx, &op, 2, l.w->dims, false, &s));
    work.statistics = s;
    TEST_FAILS(ctx, DT_ERR_STATE, "no sample", dt_round(ctx, &work, &r, NULL));
    TEST_OK(ctx, dt_statistics_add(s, l.x, NULL));
    dt__statistics_moments(s)->h[3] = NAN;
    TEST_FAILS(ctx, DT_ERR_NUMERIC, "head", dt_round(ctx, &work, &r, NULL));
    dt_statistics_free(s);
    TEST_OK(ctx, dt_statistics_create(ctx, &op, 2, (int64_t[]){ 4, 9 }, false, &s));
    work.statistics = s;
    TEST_FAILS(ctx, DT_ERR_STATE, "1 groups of 9 columns", dt_round(ctx, &work, &r, NULL));
    dt_statistics_free(s);

    work = (dt_round_work){ .name = "head", .weight = l.w, .quant = &l.quant };
    const dt_weight_op conv = { .kind = DT_WEIGHT_CONV2D, .conv = dt_conv_defaults() };
    const dt_weight_op none = { .kind = DT_WEIGHT_GROUPED_LINEAR + 1 };
    work.op = &conv;
    TEST_FAILS(ctx, DT_ERR_SHAPE, "not a weight of a conv2d", dt_round(ctx, &work, &r, NULL));
    work.op = &none;
    TEST_FAILS(ctx, DT_ERR_ARG, "not a kind", dt_round(ctx, &work, &r, NULL));
    work.op = NULL;
    ((float *)dt_data_mut(l.w))[13] = INFINITY;
    TEST_FAILS(ctx, DT_ERR_NUMERIC, "row 1, column 5", dt_round(ctx, &work, &r, NULL));
    ((float *)dt_data_mut(l.w))[13] = 3e38f;
    l.quant = scheme(DT_SCHEME_ASYMMETRIC, DT_PER_CHANNEL, 4, 0);
    ((float *)dt_data_mut(l.w))[12] = -3e38f;
    TEST_FAILS(ctx, DT_ERR_NUMERIC, "row 1: a scale", dt_round(ctx, &work, &r, NULL));
    layer_free(&l);

    dt_tensor *wide;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F64, 2, (int64_t[]){ 2, 2 }, &wide));
    work.weight = wide;
    TEST_FAILS(ctx, DT_ERR_DTYPE, "it must be f32", dt_round(ctx, &work, &r, NULL));
    dt_tensor_free(wide);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(test_empty)
{
    dt_ctx *ctx = context(2);
    for (int64_t i = 0; i < 3; i++) {
        const int64_t dims[2] = { i / 2 * 3, i % 2 * 3 };
        dt_tensor *w = random_tensor(ctx, 2, dims);
        const dt_quant_spec quant = dt_weight_quant_defaults();
        const dt_round_work work = { .weight = w, .quant = &quant };
        dt_rounded *r;
        TEST_OK(ctx, dt_round(ctx, &work, &r, NULL));
        ck_assert(r->rows == dims[0] && r->columns == dims[1]);
        dt_rounded_free(ctx, r);
        dt_tensor_free(w);
    }
    dt_rounded_free(ctx, NULL);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- failing allocations -------------------------------------------------------------------- */

static dt_status scenario(dt_ctx *ctx, void *user)
{
    const struct variant *v = user;
    const dt_weight_op op = { .kind = DT_WEIGHT_CONV_TRANSPOSE1D, .conv = dt_conv_defaults() };
    const int64_t dims[3] = { 3, 4, 3 }, inputs[3] = { 2, 3, 9 };
    dt_tensor *w = NULL, *x = NULL;
    dt_statistics *s = NULL;
    dt_rounded *r = NULL;
    layer l = { .options = dt_rounding_defaults() };
    choose_variant(&l, v);
    l.options.rounder = DT_ROUND_GPTQ;
    dt_status status = dt_tensor_create(ctx, DT_F32, 3, dims, &w);
    if (status == DT_OK) status = dt_tensor_create(ctx, DT_F32, 3, inputs, &x);
    if (status == DT_OK) status = dt_fill_normal(w, 0, 1);
    if (status == DT_OK) status = dt_fill_normal(x, 0, 1);
    if (status == DT_OK) status = dt_statistics_create(ctx, &op, 3, dims, true, &s);
    if (status == DT_OK) status = dt_statistics_add(s, x, x);
    const dt_round_work work = {
        .weight = w, .op = &op, .quant = &l.quant, .options = &l.options, .statistics = s
    };
    if (status == DT_OK) status = dt_round(ctx, &work, &r, NULL);
    dt_rounded_free(ctx, r);
    dt_statistics_free(s);
    dt_tensor_free(w);
    dt_tensor_free(x);
    return status;
}

START_TEST(test_allocations)
{
    ck_assert_int_gt(test_every_allocation(scenario, (void *)(uintptr_t)&variants[_i]), 15);
}
END_TEST

Suite *test_rounding_layers_suite(void)
{
    Suite *s = suite_create("rounding_layers");
    TCase *t = tcase_create("rounding_layers");
    tcase_set_timeout(t, 300);
    tcase_add_test(t, test_schemes);
    tcase_add_test(t, test_given_scales_are_unchanged);
    tcase_add_loop_test(t, test_threads, 0, DT__COUNT_OF(variants));
    tcase_add_loop_test(t, test_blocks, 0, DT__COUNT_OF(variants));
    tcase_add_test(t, test_keep_better);
    tcase_add_test(t, test_few_samples);
    tcase_add_test(t, test_nearest_looks_at_no_data);
    tcase_add_loop_test(t, test_dead_and_zeros, 0, 2);
    tcase_add_test(t, test_settings);
    tcase_add_test(t, test_operands);
    tcase_add_test(t, test_empty);
    tcase_add_loop_test(t, test_allocations, 0, DT__COUNT_OF(variants));
    suite_add_tcase(s, t);
    return s;
}

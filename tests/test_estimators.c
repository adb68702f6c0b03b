/* Training other than straight-through: estimators by their formulas, damping by finite differences
 * of its loss, freezing by its definition, layers that are quantized one after the other. */
#include "testing.h"

#include "nn/fold.h"
#include "qat/derived_quant.h"
#include "qat/folded_range.h"
#include "qat/training/gap.h"

#include <detent/experimental/nn.h>
#include <detent/ops.h>
#include <detent/experimental/qat.h>

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

/* ---- models ---------------------------------------------------------------------------------- */

enum { LINEAR, DEPTHWISE, TRANSPOSED, FOLDED };

static dt_tensor *drawn(int rank, const int64_t *dims)
{
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, rank, dims, &x));
    TEST_OK(ctx, dt_fill_normal(x, 0, 1));
    return x;
}

static void add_norm(dt_module *m, dt_module *conv)
{
    dt_module *norm;
    TEST_OK(ctx, dt_batch_norm2d_create(ctx, 6, 0.1, 1e-5, &norm));
    TEST_OK(ctx, dt_module_add(m, "norm", norm));
    TEST_OK(ctx, dt_fill_normal(dt_param(norm, "weight"), 1, 0.3));
    dt__set_norm(conv, norm);
}

/* A model of one layer `of`. */
static dt_module *model_of(int kind)
{
    dt_module *m, *layer;
    dt_conv_layer conv = { 6, 6, { 3, 3 }, true, dt_conv_defaults() };
    TEST_OK(ctx, dt_sequential_create(ctx, &m));
    if (kind == DEPTHWISE) conv.conv.groups = 6;
    if (kind == TRANSPOSED) conv.conv.groups = 2;
    if (kind == LINEAR) TEST_OK(ctx, dt_linear_create(ctx, 37, 6, true, &layer));
    else if (kind == TRANSPOSED) TEST_OK(ctx, dt_conv_transpose2d_create(ctx, &conv, &layer));
    else TEST_OK(ctx, dt_conv2d_create(ctx, &conv, &layer));
    TEST_OK(ctx, dt_module_add(m, "of", layer));
    if (kind == FOLDED) add_norm(m, layer);
    return m;
}

static dt_tensor *input_of(int kind)
{
    const int64_t rows[] = { 5, 37 }, images[] = { 2, 6, 7, 5 };
    return kind == LINEAR ? drawn(2, rows) : drawn(4, images);
}

/* Integers of these bits; of 0 and below the schemes of few levels, and of blocks. */
static const dt_quant_spec few[] = {
    { .scheme = DT_SCHEME_HALF_LEVELS, .bits = 2 },  { .scheme = DT_SCHEME_TERNARY, .bits = 2 },
    { .scheme = DT_SCHEME_POWER_OF_TWO, .bits = 4 }, { .scheme = DT_SCHEME_NVFP4, .bits = 4 },
    { .scheme = DT_SCHEME_MXFP8, .bits = 8 },        { .scheme = DT_SCHEME_MXFP8_E5M2, .bits = 8 },
    { .scheme = DT_SCHEME_MXFP6_E3M2, .bits = 6 }
};
#define FEW ((int)(sizeof few / sizeof few[0]))

/* Ranges of blocks are dynamic. */
static int last_range(int64_t bits)
{
    const bool blocks = bits <= 0 && dt__scheme_of(few[-bits].scheme)->group != 0;
    return blocks ? DT_RANGE_DYNAMIC : DT_RANGE_LEARNED;
}

static void prepare(dt_module *m, int64_t bits, int range)
{
    dt_qat_options o = dt_qat_defaults();
    o.preset = DT_INT4_WEIGHT;
    o.weight.has_bits = o.weight.has_range = true;
    o.weight.quant.bits = bits > 0 ? bits : few[-bits].bits;
    o.weight.has_scheme = bits <= 0;
    if (bits <= 0) o.weight.quant.scheme = few[-bits].scheme;
    o.weight.quant.range = range;
    TEST_OK(ctx, dt_prepare(m, &o));
}

static float *copy_of(const dt_tensor *x)
{
    float *out = malloc((size_t)dt_count(x) * sizeof *out + 1);
    memcpy(out, dt_data(x), (size_t)dt_count(x) * sizeof *out);
    return out;
}

/* The gradient of the weight by one pass whose gradient of y is drawn from `seed`. */
static float *gradient_of(dt_module *m, dt_tensor *x, dt_tensor *dy)
{
    dt_zero_grad(m);
    dt_tape_reset(t);
    dt_tensor *y = dt_forward(t, m, x);
    TEST_OK(ctx, dt_tape_status(t));
    TEST_OK(ctx, dt_backward(t, y, dy));
    return copy_of(dt_grad(dt_param(m, "of.weight")));
}

static dt_tensor *drawn_like_output(dt_module *m, dt_tensor *x)
{
    dt_tape_reset(t);
    const dt_tensor *y = dt_forward(t, m, x);
    TEST_OK(ctx, dt_tape_status(t));
    return drawn(y->rank, y->dims);
}

/* ---- estimators ------------------------------------------------------------------------------ */

static double wanted(int estimator, double strength, double w, double u, double dy)
{
    const double sign = dy > 0 ? 1 : dy < 0 ? -1 : 0, h = tanh(strength * (0.5 - fabs(u)));
    switch (estimator) {
    case DT_ESTIMATOR_EWGS: return dy * (1 + strength * sign * u);
    case DT_ESTIMATOR_DSQ: return dy * 0.5 * strength * (1 - h * h) / tanh(0.5 * strength);
    case DT_ESTIMATOR_TANH: return dy * (1 - tanh(w) * tanh(w));
    default: return dy;
    }
}

/* u of all elements of a plain weight, in its order, by its rows. */
static double *gaps_of(dt_tensor *x)
{
    dt__gap g;
    double *u = malloc((size_t)x->count * sizeof *u);
    TEST_OK(ctx, dt__gap_open(t, x, NULL, &g));
    float *rows = malloc((size_t)x->count * sizeof *rows), *back = malloc((size_t)x->count * 4);
    for (int64_t i = 0; i < x->count; i++) rows[i] = dt__gap_at(&g, i / g.columns, i % g.columns);
    if (dt__is_mapped(&g.map)) dt__rows_scatter(&g.map, rows, back);
    else memcpy(back, rows, (size_t)x->count * sizeof *rows);
    for (int64_t i = 0; i < x->count; i++) u[i] = (double)back[i];
    free(rows);
    free(back);
    dt__gap_close(&g);
    return u;
}

static void check_estimators(dt_module *m, int kind, int64_t bits)
{
    dt_tensor *x = input_of(kind), *dy = drawn_like_output(m, x), *w = dt_param(m, "of.weight");
    float *ste = gradient_of(m, x, dy), *values = copy_of(dt_inner(w));
    double *u = gaps_of(w);
    for (int e = DT_ESTIMATOR_STE; e <= DT_ESTIMATOR_TANH; e++) {
        const double strength = dt_estimator_strength(e);
        TEST_OK(ctx, dt_set_estimator(m, e, strength));
        float *got = gradient_of(m, x, dy);
        for (int64_t i = 0; i < dt_count(w); i++) {
            const double want = wanted(e, strength, values[i], u[i], ste[i]);
            ck_assert_msg(fabs(got[i] - want) <= 1e-5 * fabs(ste[i]), "%d %d bits %s: %g, not %g",
                          kind, (int)bits, dt__estimator_names[e], (double)got[i], want);
            ck_assert(fabs(u[i]) <= 0.5001);
        }
        free(got);
    }
    TEST_OK(ctx, dt_set_estimator(m, DT_ESTIMATOR_STE, 0));
    float *again = gradient_of(m, x, dy);
    ck_assert_int_eq(memcmp(again, ste, (size_t)dt_count(w) * sizeof *ste), 0);
    free(again);
    free(ste);
    free(u);
    free(values);
    dt_tensor_free(x);
    dt_tensor_free(dy);
}

START_TEST(estimators_have_their_formulas)
{
    for (int kind = LINEAR; kind < FOLDED; kind++) {
        for (int64_t bits = 1 - FEW; bits <= 8; bits += bits == 0 ? 2 : 1) {
            for (int range = DT_RANGE_DYNAMIC; range <= last_range(bits); range++) {
                dt_module *m = model_of(kind);
                prepare(m, bits, range);
                check_estimators(m, kind, bits);
                dt_module_free(m);
            }
        }
    }
}
END_TEST

/* For a folded weight, whose values are freed before backward: dw = f dw', where the factor is that
 * of the sign of dw'. */
START_TEST(estimators_pass_through_folded_norms)
{
    for (int range = DT_RANGE_DYNAMIC; range <= DT_RANGE_LEARNED; range++) {
        dt_module *m = model_of(FOLDED);
        prepare(m, 2, range);
        dt_train(m, false); /* statistics stay as they are */
        dt_tensor *x = input_of(FOLDED), *dy = drawn_like_output(m, x);
        float *ste = gradient_of(m, x, dy);
        TEST_OK(ctx, dt_set_estimator(m, DT_ESTIMATOR_EWGS, 1));
        float *got = gradient_of(m, x, dy);
        double most = 0;
        for (int64_t i = 0; i < dt_count(dt_param(m, "of.weight")); i++) {
            const double by = ste[i] == 0 ? 0 : (double)got[i] / (double)ste[i] - 1;
            ck_assert_msg(fabs(by) <= 0.5001, "%g times", by);
            most = fmax(most, fabs(by));
        }
        ck_assert_msg(most > 0.2, "%g", most);
        free(ste);
        free(got);
        dt_tensor_free(x);
        dt_tensor_free(dy);
        dt_module_free(m);
    }
}
END_TEST

START_TEST(what_is_no_estimator_is_refused)
{
    dt_module *m = model_of(LINEAR);
    TEST_FAILS(ctx, DT_ERR_STATE, "not prepared", dt_set_estimator(m, DT_ESTIMATOR_EWGS, 0.1));
    TEST_FAILS(ctx, DT_ERR_STATE, "not prepared", dt_enable_layers(m, 1, NULL));
    prepare(m, 4, DT_RANGE_DYNAMIC);
    TEST_FAILS(ctx, DT_ERR_ARG, "4 is not one of the estimators", dt_set_estimator(m, 4, 0));
    TEST_FAILS(ctx, DT_ERR_ARG, "that of ewgs is 0 ... 2",
               dt_set_estimator(m, DT_ESTIMATOR_EWGS, 3));
    TEST_FAILS(ctx, DT_ERR_ARG, "lambda is -1", dt_damp(m, t, -1));
    dt_module_free(m);
}
END_TEST

/* ---- damping --------------------------------------------------------------------------------- */

static void check_damping(dt_module *m, int kind, int64_t bits)
{
    const double lambda = 0.3;
    dt_tensor *w = dt_param(m, "of.weight"), *x = input_of(kind), *level;
    dt_tensor_free(drawn_like_output(m, x)); /* learned ranges begin */
    dt_zero_grad(m);
    TEST_OK(ctx, dt_damp(m, t, lambda));
    TEST_OK(ctx, dt_dequantize(w, &level));
    const float *d = dt_data(dt_grad(w)), *values = dt_data(dt_inner(w)), *of = dt_data(level);
    int64_t within = 0;
    double *u = gaps_of(w);
    for (int64_t i = 0; i < dt_count(w); i++) {
        const double gap = (double)values[i] - (double)of[i];
        const double want = u[i] == 0 ? 0 : 2 * lambda * gap;
        ck_assert_msg(fabs(d[i] - want) <= 1e-6, "%d %d bits: %g, not %g", kind, (int)bits,
                      (double)d[i], want);
        within += u[i] != 0;
    }
    ck_assert_int_gt(within, dt_count(w) / 8);
    free(u);
    dt_tensor_free(level);
    dt_tensor_free(x);
}

START_TEST(damping_draws_weights_to_their_levels)
{
    for (int kind = LINEAR; kind < FOLDED; kind++) {
        for (int64_t bits = 1 - FEW; bits <= 8; bits += bits < 0 ? 1 : 2) {
            for (int range = DT_RANGE_DYNAMIC; range <= last_range(bits); range++) {
                dt_module *m = model_of(kind);
                prepare(m, bits, range);
                check_damping(m, kind, bits);
                dt_module_free(m);
            }
        }
    }
}
END_TEST

/* The fold factor of a channel. */
static double factor_of(dt_module *m, int64_t channel)
{
    const float *weight = dt_data(dt_param(m, "norm.weight"));
    return (double)weight[channel] / sqrt(1 + 1e-5); /* the initial variance is 1 */
}

/* sum (w f - level)^2 over elements within the levels, of a folded layer whose weights moved by e
 * along the gradient. */
static double loss_at(dt_module *m, const float *d, double e)
{
    dt_tensor *w = dt_param(m, "of.weight");
    float *values = dt_data_mut(w), *before = copy_of(w);
    double sum = 0;
    for (int64_t i = 0; i < dt_count(w); i++) values[i] = (float)((double)before[i] + e * d[i]);
    dt_zero_grad(m);
    TEST_OK(ctx, dt_damp(m, t, 0.5));
    const float *gap = dt_data(dt_grad(w));
    const int64_t each = dt_count(w) / 6;
    for (int64_t i = 0; i < dt_count(w); i++) {
        const double by = (double)gap[i] / factor_of(m, i / each);
        sum += by * by;
    }
    memcpy(dt_data_mut(w), before, (size_t)dt_count(w) * sizeof *before);
    free(before);
    return sum;
}

START_TEST(damping_of_a_folded_norm_is_the_slope_of_its_loss)
{
    dt_module *m = model_of(FOLDED);
    prepare(m, 4, DT_RANGE_LEARNED);
    dt_tensor *x = input_of(FOLDED);
    dt_train(m, false); /* running statistics stay as they are */
    dt_tensor_free(drawn_like_output(m, x));
    dt_zero_grad(m);
    TEST_OK(ctx, dt_damp(m, t, 1));
    float *d = copy_of(dt_grad(dt_param(m, "of.weight")));
    double square = 0;
    for (int64_t i = 0; i < dt_count(dt_param(m, "of.weight")); i++) square += (double)d[i] * d[i];
    const double e = 1e-4, slope = (loss_at(m, d, e) - loss_at(m, d, -e)) / (2 * e);
    ck_assert_msg(fabs(slope - square) <= 0.02 * square, "%g, not %g", slope, square);
    free(d);
    dt_tensor_free(x);
    dt_module_free(m);
}
END_TEST

/* ---- freezing -------------------------------------------------------------------------------- */

/* The four slots of the state of the only weight. */
typedef struct frozen_state {
    const float *frequency, *mean;
    const int8_t *code, *turn;
} frozen_state;

static dt_status take_slot(void *user, const char *slot, const char *path, dt_tensor *x)
{
    frozen_state *s = user;
    ck_assert_str_eq(path, "of.weight");
    if (strcmp(slot, "frequency") == 0) s->frequency = dt_data(x);
    else if (strcmp(slot, "mean") == 0) s->mean = dt_data(x);
    else if (strcmp(slot, "code") == 0) s->code = dt_data(x);
    else if (strcmp(slot, "turn") == 0) s->turn = dt_data(x);
    else return DT_ERR_ARG;
    return DT_OK;
}

/* The codes of the only weight as the layer computes it, in the order of its rows. */
static int8_t *codes_now(dt_module *m)
{
    dt__gap g;
    dt_module *layer = dt_module_at(m, "of");
    const dt__fq *derived = dt__derived_quant(layer);
    dt_tensor *x = dt_param(m, "of.weight");
    dt_tape_reset(t);
    if (derived != NULL) {
        dt_tensor *w = dt__derived_weight(t, layer, x);
        const dt__fq fq = dt__range_folded(t, layer, derived);
        x = dt__fake_quant_as(t, w, &fq);
    }
    TEST_OK(ctx, dt_tape_status(t));
    TEST_OK(ctx, dt__gap_open(t, x, NULL, &g));
    int8_t *out = malloc((size_t)(g.rows * g.columns));
    memcpy(out, g.code, (size_t)(g.rows * g.columns));
    dt__gap_close(&g);
    return out;
}

/* One weight by the definition, in double. */
typedef struct watched {
    double share, mean;
    int last, turn, frozen; /* the last code, the direction of its last change, 1 when frozen */
} watched;

static void watch(watched *e, int q, double momentum, double threshold, bool first)
{
    if (e->frozen) return;
    if (first) {
        *e = (watched){ .mean = q, .last = q };
        return;
    }
    const int now = (q > e->last) - (q < e->last);
    const bool back = now != 0 && e->turn == -now;
    e->share = momentum * back + (1 - momentum) * e->share;
    e->mean = momentum * q + (1 - momentum) * e->mean;
    if (now != 0) e->turn = now;
    e->last = q;
    e->frozen = e->share > threshold;
}

/* Moves every weight a little, as an optimizer would, about the same place. */
static void wander(dt_tensor *w, const float *from)
{
    dt_tensor *by = drawn(1, &w->count);
    float *values = dt_data_mut(dt_inner(w));
    const float *d = dt_data(by);
    for (int64_t i = 0; i < w->count; i++) values[i] = from[i] + 0.03F * d[i];
    dt_tensor_free(by);
}

/* The distance from the mean to the nearest code that the weight can have. */
static double nearest(int64_t bits, double mean)
{
    double least = INFINITY;
    const dt__levels *levels = bits > 0 ? NULL : dt__levels_of(&few[-bits]);
    for (int q = INT8_MIN; q <= INT8_MAX; q++) {
        bool is = levels == NULL && q >= -(1 << (bits - 1)) && q < 1 << (bits - 1);
        for (int i = 0; levels != NULL && i < levels->n; i++) is = is || levels->code[i] == q;
        if (is) least = fmin(least, fabs(q - mean));
    }
    return least;
}

static void check_element(const watched *e, const frozen_state *s, int64_t i, int64_t bits)
{
    ck_assert_msg((s->turn[i] == 4) == (e->frozen != 0), "%d: turn %d, share %g", (int)i,
                  s->turn[i], e->share);
    ck_assert(fabs((double)s->frequency[i] - e->share) < 1e-5);
    ck_assert(fabs((double)s->mean[i] - e->mean) < 1e-5);
    if (!e->frozen) {
        ck_assert_int_eq(s->code[i], e->last);
        return;
    }
    ck_assert_msg(fabs(s->code[i] - e->mean) <= nearest(bits, e->mean) + 1e-4, "%d beside %g",
                  s->code[i], e->mean);
}

/* Returns how many weights are still free at the end. */
static int64_t check_freezing(int kind, int64_t bits, int range)
{
    const double momentum = 0.3, threshold = 0.35;
    dt_freezer *f;
    dt_frozen n;
    frozen_state s = { NULL };
    dt_module *m = model_of(kind);
    prepare(m, bits, range);
    dt_tensor *w = dt_param(m, "of.weight"), *x = input_of(kind);
    dt_tensor_free(drawn_like_output(m, x)); /* ranges begin */
    float *from = copy_of(dt_inner(w));
    watched *e = calloc((size_t)w->count, sizeof *e);
    TEST_OK(ctx, dt_freezer_create(m, &f));
    for (int step = 0; step < 25; step++) {
        wander(w, from);
        int8_t *before = codes_now(m);
        TEST_OK(ctx, dt_freezer_step(f, t, momentum, threshold, &n));
        int8_t *after = codes_now(m);
        TEST_OK(ctx, dt_freezer_visit(f, take_slot, &s));
        int64_t frozen = 0;
        for (int64_t i = 0; i < w->count; i++) {
            watch(&e[i], before[i], momentum, threshold, step == 0);
            check_element(&e[i], &s, i, bits);
            ck_assert_int_eq(after[i], e[i].frozen ? s.code[i] : before[i]);
            frozen += e[i].frozen;
        }
        ck_assert(n.frozen == frozen && n.weights == w->count);
        free(before);
        free(after);
    }
    ck_assert_int_gt(n.frozen, 0);
    dt_freezer_free(f);
    free(e);
    free(from);
    dt_tensor_free(x);
    dt_module_free(m);
    return n.weights - n.frozen;
}

START_TEST(oscillating_weights_are_frozen)
{
    int64_t spared = 0;
    for (int kind = LINEAR; kind <= FOLDED; kind++) {
        for (int64_t bits = 1 - FEW; bits <= 4; bits += bits == 0 ? 2 : 1) {
            if (last_range(bits) == DT_RANGE_DYNAMIC) continue;
            spared += check_freezing(kind, bits, DT_RANGE_STATIC);
            spared += check_freezing(kind, bits, DT_RANGE_LEARNED);
        }
    }
    ck_assert_int_gt(spared, 1000);
}
END_TEST

/* Codes of 5 bits and more turn back at most updates. */
START_TEST(weights_of_many_bits_are_not_frozen)
{
    for (int64_t bits = 3; bits <= 8; bits++) {
        dt_freezer *f;
        dt_frozen n;
        dt_module *m = model_of(LINEAR);
        prepare(m, bits, DT_RANGE_STATIC);
        dt_tensor *w = dt_param(m, "of.weight"), *x = input_of(LINEAR);
        dt_tensor_free(drawn_like_output(m, x)); /* ranges begin */
        float *from = copy_of(dt_inner(w));
        TEST_OK(ctx, dt_freezer_create(m, &f));
        for (int step = 0; step < 25; step++) {
            wander(w, from);
            TEST_OK(ctx, dt_freezer_step(f, t, 0.3, 0.35, &n));
        }
        ck_assert_int_eq(n.weights, bits <= 4 ? dt_count(w) : 0);
        ck_assert((n.frozen > 0) == (bits <= 4));
        dt_freezer_free(f);
        free(from);
        dt_tensor_free(x);
        dt_module_free(m);
    }
}
END_TEST

START_TEST(freezing_says_what_it_refuses)
{
    dt_freezer *f;
    dt_module *m = model_of(LINEAR);
    const dt_lora_options lora = { .rank = 2 };
    TEST_OK(ctx, dt_freezer_create(m, &f));
    dt_frozen n;
    TEST_OK(ctx, dt_freezer_step(f, t, 0.1, 0.1, &n)); /* nothing is prepared */
    ck_assert(n.weights == 0 && n.frozen == 0);
    TEST_FAILS(ctx, DT_ERR_ARG, "momentum is 0", dt_freezer_step(f, t, 0, 0.1, NULL));
    TEST_FAILS(ctx, DT_ERR_ARG, "threshold 0", dt_freezer_step(f, t, 0.1, 0, NULL));
    TEST_FAILS(ctx, DT_ERR_ARG, "momentum is 1.5", dt_freezer_step(f, t, 1.5, 0.1, NULL));
    TEST_OK(ctx, dt_lora_add(m, &lora));
    prepare(m, 4, DT_RANGE_DYNAMIC);
    TEST_FAILS(ctx, DT_ERR_UNSUPPORTED, "has an adapter", dt_freezer_step(f, t, 0.1, 0.1, NULL));
    dt_freezer_free(f);
    dt_module_free(m);
    m = model_of(LINEAR);
    dt_qat_options o = dt_qat_defaults();
    o.weight = (dt_quant_patch){ .has_scheme = true,
                                 .has_bits = true,
                                 .quant = { .scheme = DT_SCHEME_ASYMMETRIC, .bits = 4 } };
    TEST_OK(ctx, dt_prepare(m, &o));
    TEST_OK(ctx, dt_freezer_create(m, &f));
    TEST_FAILS(ctx, DT_ERR_UNSUPPORTED, "asymmetric with a dynamic range",
               dt_freezer_step(f, t, 0.1, 0.1, NULL));
    dt_freezer_free(f);
    dt_module_free(m);
    for (int64_t bits = 1 - FEW; bits <= 0; bits++) {
        if (last_range(bits) != DT_RANGE_DYNAMIC) continue;
        m = model_of(LINEAR);
        prepare(m, bits, DT_RANGE_DYNAMIC);
        TEST_OK(ctx, dt_freezer_create(m, &f));
        const dt_status s = dt_freezer_step(f, t, 0.1, 0.1, &n);
        if (few[-bits].bits <= 4) TEST_FAILS(ctx, DT_ERR_UNSUPPORTED, "with a dynamic range", s);
        else ck_assert(s == DT_OK && n.weights == 0 && n.frozen == 0);
        dt_freezer_free(f);
        dt_module_free(m);
    }
}
END_TEST

/* ---- one layer after the other --------------------------------------------------------------- */

START_TEST(layers_are_enabled_in_order)
{
    dt_module *m;
    int64_t layers;
    const dt_mlp_options o = { .sizes = { 5, { 8, 16, 16, 8, 4 } }, .bias = true };
    static const char *const paths[] = { "layers.0.weight", "layers.1.weight", "layers.2.weight",
                                         "head.weight" };
    TEST_OK(ctx, dt_mlp_create(ctx, &o, &m));
    TEST_OK(ctx, dt_prepare(m, NULL));
    for (int64_t n = 0; n <= 5; n++) {
        TEST_OK(ctx, dt_enable_layers(m, n, &layers));
        ck_assert_int_eq(layers, 4);
        for (int i = 0; i < 4; i++) {
            const dt__fq *fq = dt_param(m, paths[i])->ext;
            ck_assert_int_eq(fq->enabled, i < n);
        }
    }
    dt_module_free(m);
}
END_TEST

Suite *test_estimators_suite(void)
{
    Suite *s = suite_create("estimators");
    TCase *c = tcase_create("estimators");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, estimators_have_their_formulas);
    tcase_add_test(c, what_is_no_estimator_is_refused);
    tcase_add_test(c, damping_draws_weights_to_their_levels);
    tcase_add_test(c, damping_of_a_folded_norm_is_the_slope_of_its_loss);
    tcase_add_test(c, estimators_pass_through_folded_norms);
    tcase_add_test(c, oscillating_weights_are_frozen);
    tcase_add_test(c, weights_of_many_bits_are_not_frozen);
    tcase_add_test(c, freezing_says_what_it_refuses);
    tcase_add_test(c, layers_are_enabled_in_order);
    suite_add_tcase(s, c);
    return s;
}

/* Properties of every rounder on random layers of all kinds: the codes of a slow independent
 * program (rounding_reference.h), and the promises of docs/rounding.md. */
#include "rounding_reference.h"

#include "core/tensor.h"
#include "ptq/matrix.h"
#include "qat/schemes/scheme.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define LAYERS 400

static dt_ctx *context(int threads)
{
    dt_ctx *ctx;
    dt_ctx_options options = dt_ctx_defaults();
    options.threads = threads;
    ck_assert_int_eq(dt_ctx_create(&ctx, &options), DT_OK);
    return ctx;
}

static int64_t draw(dt__stream *s, int64_t least, int64_t most)
{
    return least + (int64_t)dt__random_below(s, (uint64_t)(most - least + 1));
}

/* ---- random settings ------------------------------------------------------------------------ */

/* Whether sums of the codes of a scheme can be bounded. */
static bool has_gaps(const dt_quant_spec *q)
{
    const dt__levels *levels = dt__levels_of(q);
    return levels != NULL && levels->n <= dt__qmax(q) - dt__qmin(q);
}

/* Every scheme of schemes.inc with a code 0, with settings that it takes. */
static dt_quant_spec draw_quant(dt__stream *s, bool bounded)
{
    static const int64_t bits[] = { 2, 3, 4, 8 };
    dt_quant_spec q = dt_weight_quant_defaults();
    dt__quant_fault fault = { .text = "" };
    q.scheme = (int)draw(s, 0, DT__SCHEMES - 1);
    while (!dt__has_code_zero(&q) || (bounded && has_gaps(&q)))
        q.scheme = (int)draw(s, 0, DT__SCHEMES - 1);
    for (int i = 0; i < 1000; i++) {
        q.bits = bits[draw(s, 0, 3)];
        if (dt__scheme_of(q.scheme)->bits != 0) q.bits = dt__scheme_of(q.scheme)->bits;
        q.granularity = (int)draw(s, DT_PER_TENSOR, DT_PER_GROUP);
        q.group_size = draw(s, 0, 3) == 0 ? 32 : draw(s, 3, 16);
        if (dt__scheme_of(q.scheme)->group != 0) q.group_size = dt__scheme_of(q.scheme)->group;
        q.is_unsigned = draw(s, 0, 1) == 1;
        if (dt__quant_is_valid(&q, DT__QUANT_TENSOR, &fault)) return q;
    }
    ck_abort_msg("scheme %s takes none of these settings: %s", dt__scheme_of(q.scheme)->name,
                 fault.text);
    return q;
}

static void draw_accumulator(dt__stream *s, const dt_quant_spec *q, dt_accumulator *a)
{
    static const int64_t ranges[][2] = {
        { 0, 255 }, { -128, 127 }, { -8, 7 }, { -65536, 0 }, { 0, 1 }
    };
    const int64_t *range = ranges[draw(s, 0, 4)];
    const int64_t most = q->granularity == DT_PER_GROUP ? q->group_size : 40;
    a->bits = draw(s, 2, draw(s, 0, 3) == 0 ? 32 : 16);
    a->tile = draw(s, 0, 1) == 0 ? 0 : draw(s, 1, most);
    a->input = (dt_ints){ draw(s, 0, 4) == 0 ? 0 : 2, { range[0], range[1] } };
    a->soft_threshold = draw(s, 0, 2) == 0;
    a->diffuse = (int)draw(s, DT_DIFFUSE_CLAMPED, DT_DIFFUSE_ALL);
}

static dt_rounding_options draw_options(dt__stream *s, int rounder, const dt_quant_spec *q)
{
    static const double alphas[] = { 1e-6, 1e-3, 0.1 };
    static const int64_t blocks[] = { 1, 7, 32, 128 };
    dt_rounding_options o = dt_rounding_defaults();
    const bool grouped = q->granularity == DT_PER_GROUP;
    o.rounder = rounder;
    o.rounding.keep_better = false;
    o.rounding.order = (int)draw(s, DT_ORDER_NONE, grouped ? DT_ORDER_GROUP : DT_ORDER_WEIGHT);
    o.rounding.damping = draw(s, 0, 1) == 0 ? 0.01 : 0.1;
    o.rounding.damping_absolute = draw(s, 0, 3) == 0 ? 0.03 : 0;
    o.rounding.damping_mean = (int)draw(s, DT_MEAN_LIVE, DT_MEAN_ALL);
    o.rounding.alpha = alphas[draw(s, 0, 2)];
    o.rounding.block = blocks[draw(s, 0, 3)];
    o.rounding.keep_zeros = draw(s, 0, 2) == 0;
    const bool refreshes = dt__method_reads(dt__method_of(rounder)) & DT__READS_GROUP_SCALES;
    const bool settles = dt__scheme_of(q->scheme)->settle != NULL;
    if (refreshes && !settles && grouped && o.rounding.order != DT_ORDER_WEIGHT &&
        draw(s, 0, 2) == 0) {
        o.rounding.group_scales = DT_SCALES_REFRESH;
    }
    if (dt__method_of(rounder)->bounded) draw_accumulator(s, q, &o.accumulator);
    return o;
}

static layer_wish draw_wish(dt__stream *s)
{
    layer_wish w = { .kind = (int)draw(s, DT_WEIGHT_LINEAR, DT_WEIGHT_CONV_TRANSPOSE2D) };
    w.noise = draw(s, 0, 2) == 0 ? 0 : 0.15;
    w.zeros = draw(s, 0, 3) == 0 ? 0.3 : draw(s, 0, 3) == 0 ? 0.04 : 0;
    w.dead = draw(s, 0, 3) == 0 ? 0.2 : 0;
    w.rank = draw(s, 0, 3) == 0 ? 3 : 0;
    return w;
}

/* ---- one layer ------------------------------------------------------------------------------ */

typedef struct trial {
    dt_ctx *ctx;
    dt__stream random;
    layer l;
    dt_quant_spec q;
    dt_rounding_options o;
    dt_round_report report; /* of the last round */
} trial;

/* `wish` NULL: drawn. */
static trial begin(dt_ctx *ctx, int seed, int rounder, const layer_wish *wish)
{
    trial t = { .ctx = ctx, .random = dt__stream_of((uint64_t)seed + 1, DT__FOR_USER) };
    const layer_wish drawn = draw_wish(&t.random);
    layer_create(ctx, &t.random, wish == NULL ? &drawn : wish, &t.l);
    t.q = draw_quant(&t.random, dt__method_of(rounder)->bounded);
    t.o = draw_options(&t.random, rounder, &t.q);
    return t;
}

static void end(trial *t) { layer_free(&t->l); }

/* For messages. */
static void name_trial(trial *t, int i)
{
    layer *l = &t->l;
    const dt_rounding *r = &t->o.rounding;
    const dt_accumulator *a = &t->o.accumulator;
    char text[sizeof l->name + 200];
    snprintf(
        text, sizeof text,
        "%d %s rounder %d rule %d bits %d gran %d/%d order %d mean %d zeros %d refresh %d P %d "
        "tile %d soft %d all %d",
        i, l->name, t->o.rounder, t->q.scheme, (int)t->q.bits, t->q.granularity,
        (int)t->q.group_size, r->order, r->damping_mean, r->keep_zeros, r->group_scales,
        (int)a->bits, (int)a->tile, a->soft_threshold, a->diffuse);
    memcpy(l->name, text, sizeof l->name - 1);
}

static dt_rounded *round_layer(trial *t, const layer *l)
{
    dt_rounded *out;
    const bool data = t->o.rounder != DT_ROUND_NEAREST;
    dt_statistics *s = data ? layer_statistics(t->ctx, l, l->x != NULL) : NULL;
    const dt_round_work work = { .name = l->name,
                                 .weight = l->weight,
                                 .op = &l->op,
                                 .quant = &t->q,
                                 .options = &t->o,
                                 .statistics = s };
    TEST_OK(t->ctx, dt_round(t->ctx, &work, &out, &t->report));
    dt_statistics_free(s);
    return out;
}

static dt_rounded *round_it(trial *t) { return round_layer(t, &t->l); }

static dt_rounded *round_by(trial *t, int rounder)
{
    t->o.rounder = rounder;
    return round_it(t);
}

static void drop(trial *t, dt_rounded *a, dt_rounded *b)
{
    dt_rounded_free(t->ctx, a);
    dt_rounded_free(t->ctx, b);
}

static bool same_codes(const dt_rounded *a, const dt_rounded *b)
{
    return a->rows == b->rows && a->columns == b->columns &&
           memcmp(a->codes, b->codes, (size_t)(a->rows * a->columns)) == 0;
}

/* ---- codes against the reference's ---------------------------------------------------------- */

typedef struct tally {
    int64_t rows, ties;
} tally;

/* Row by row in processing order to the first difference from `codes`: a tie where the reference's
 * argument lay by a boundary, else an error. */
#define TIE 3e-5

static void compare_codes(const layer *l, const int8_t *got, const int8_t *codes,
                          const reference *want, tally *t)
{
    for (int64_t i = 0, row = 0; row < want->rows; row++) {
        const int32_t *order = want->order + row / l->rows * l->columns;
        const int64_t first = row * l->columns;
        for (i = 0; i < l->columns && got[first + order[i]] == codes[first + order[i]];) i++;
        t->rows++;
        if (i == l->columns) continue;
        const int64_t at = first + order[i];
        TEST_EACH(want->margin[at] < TIE,
                  "%s: row %d, place %d: code %d, not %d, %g off a boundary", l->name, (int)row,
                  (int)i, got[at], codes[at], want->margin[at]);
        t->ties++;
    }
}

static void compare(const trial *c, const dt_rounded *got, const reference *want, tally *t)
{
    const layer *l = &c->l;
    const bool frozen = c->o.rounding.group_scales == DT_SCALES_FROZEN;
    const size_t scales = (size_t)(want->rows * want->groups);
    const size_t columns = (size_t)(l->groups * l->columns);
    TEST_EACH(got->rows == want->rows && got->columns == want->columns &&
                  got->groups == want->groups,
              "%s: another shape", l->name);
    TEST_EACH(!frozen || memcmp(got->scale, want->scale, scales * sizeof(float)) == 0,
              "%s: other scales", l->name);
    TEST_EACH(!frozen || got->zero_point == NULL ||
                  memcmp(got->zero_point, want->zero, scales) == 0,
              "%s: other zero points", l->name);
    TEST_EACH(got->group_of == NULL ||
                  memcmp(got->group_of, want->group_of, columns * sizeof(int32_t)) == 0,
              "%s: other groups", l->name);
    compare_codes(l, got->codes, want->codes, want, t);
}

static void finish(dt_ctx *ctx, const char *what, const tally *t)
{
    printf("rounding_properties: %s: %lld rows, %lld ties\n", what, (long long)t->rows,
           (long long)t->ties);
    ck_assert_int_gt(t->rows, 0);
    ck_assert_int_le(t->ties * 100, t->rows);
    dt_ctx_free(ctx);
}

static void check_figures(const trial *c, const reference *want, bool tied)
{
    const char *name = c->l.name;
    const bool has_loss = c->o.rounder % 3 == DT_ROUND_GPTQ && !tied;
    TEST_EACH(test_near(c->report.damping, want->damping, 0, 1e-9), "%s: damping %.17g, not %.17g",
              name, c->report.damping, want->damping);
    TEST_EACH(!has_loss || test_near(c->report.loss, want->loss, 1e-12, 1e-6),
              "%s: loss %.17g, not %.17g", name, c->report.loss, want->loss);
}

START_TEST(test_reference)
{
    static const char *const names[] = { "gptq", "gpfq", "qronos", "a2gptq", "a2gpfq", "a2qronos" };
    dt_ctx *ctx = context(2);
    tally t = { 0, 0 };
    for (int i = 0; i < LAYERS; i++) {
        trial c = begin(ctx, 1000 * _i + i, _i, NULL);
        name_trial(&c, i);
        const int64_t ties = t.ties;
        dt_rounded *got = round_it(&c);
        reference want = reference_round(&c.l, &c.q, &c.o);
        compare(&c, got, &want, &t);
        check_figures(&c, &want, t.ties > ties);
        reference_free(&want);
        dt_rounded_free(ctx, got);
        end(&c);
    }
    finish(ctx, names[_i - 1], &t);
}
END_TEST

/* ---- errors and sums of codes --------------------------------------------------------------- */

static int64_t scale_at(const trial *c, const dt_rounded *r, int64_t row, int64_t column)
{
    const layer *l = &c->l;
    const bool grouped = c->q.granularity == DT_PER_GROUP;
    int64_t group = grouped ? column / c->q.group_size : 0;
    if (r->group_of != NULL) group = r->group_of[row / l->rows * l->columns + column];
    return row * r->groups + group;
}

/* A code less its zero point. */
static int code_at(const trial *c, const dt_rounded *r, int64_t row, int64_t column)
{
    const int zero = r->zero_point == NULL ? 0 : r->zero_point[scale_at(c, r, row, column)];
    return r->codes[row * r->columns + column] - zero;
}

static double image_at(const trial *c, const dt_rounded *r, int64_t row, int64_t column)
{
    const dt__small_float *real = dt__real_of(&c->q);
    const int code = code_at(c, r, row, column);
    const double q = real != NULL ? (double)dt__small_value(real, (uint8_t)code) : code;
    return q * (double)r->scale[scale_at(c, r, row, column)];
}

static bool is_dead(const layer *l, int64_t row, int64_t column)
{
    const float *x = l->xqs + (row / l->rows * l->columns + column) * l->samples;
    for (int64_t n = 0; n < l->samples; n++) {
        if (x[n] != 0) return false;
    }
    return true;
}

/* ||w X - w^ Xq||^2 of a row; `same`: ||(w - w^) Xq||^2. */
static double row_error(const trial *c, const dt_rounded *r, int64_t row, bool same)
{
    const layer *l = &c->l;
    const int64_t n = l->samples, first = row / l->rows * l->columns * n;
    double total = 0, *missing = calloc((size_t)n, sizeof *missing);
    for (int64_t k = 0; k < l->columns; k++) {
        const double w = (double)l->w[row * l->columns + k], image = image_at(c, r, row, k);
        const float *xq = l->xqs + first + k * n, *x = same ? xq : l->xs + first + k * n;
        for (int64_t i = 0; i < n; i++) missing[i] += w * (double)x[i] - image * (double)xq[i];
    }
    for (int64_t i = 0; i < n; i++) total += missing[i] * missing[i];
    free(missing);
    return total;
}

static double layer_error(const trial *c, const dt_rounded *r, bool same)
{
    double total = 0;
    for (int64_t row = 0; row < r->rows; row++) total += row_error(c, r, row, same);
    return sqrt(total);
}

/* ---- 1, 2: uncorrelated and scaled inputs --------------------------------------------------- */

/* Unit vectors: H = I. */
static void set_unit_inputs(layer *l)
{
    dt_ctx *ctx = dt_ctx_of(l->weight);
    const int64_t dims[2] = { l->columns, l->columns };
    dt_tensor_free(l->xq);
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, dims, &l->xq));
    float *x = dt__data_mut(l->xq);
    for (int64_t k = 0; k < l->xq->count; k++) x[k] = k / l->columns == k % l->columns;
    layer_unfold(l);
}

START_TEST(test_unit_inputs)
{
    const layer_wish wish = { .kind = DT_WEIGHT_LINEAR };
    dt_ctx *ctx = context(2);
    for (int i = 0; i < 60; i++) {
        trial c = begin(ctx, i, DT_ROUND_QRONOS, &wish);
        set_unit_inputs(&c.l);
        c.o = dt_rounding_defaults();
        c.o.rounding.keep_better = false;
        dt_rounded *nearest = round_it(&c);
        for (int rounder = DT_ROUND_GPTQ; rounder <= DT_ROUND_QRONOS; rounder++) {
            dt_rounded *got = round_by(&c, rounder);
            TEST_EACH(same_codes(got, nearest), "layer %d, rounder %d: not nearest", i, rounder);
            dt_rounded_free(ctx, got);
        }
        dt_rounded_free(ctx, nearest);
        end(&c);
    }
    dt_ctx_free(ctx);
}
END_TEST

static void scale_inputs(layer *l, float factor)
{
    dt_tensor *all[] = { l->xq, l->x };
    for (int i = 0; i < 2 && all[i] != NULL; i++) {
        float *x = dt__data_mut(all[i]);
        for (int64_t k = 0; k < all[i]->count; k++) x[k] *= factor;
    }
    layer_unfold(l);
}

START_TEST(test_scaled_inputs)
{
    static const float factors[] = { 0x1p-7f, 0x1p9f };
    dt_ctx *ctx = context(2);
    for (int i = 0; i < 120; i++) {
        trial c = begin(ctx, i, 1 + i % 6, NULL);
        c.o.rounding.damping_absolute = 0;
        c.o.rounding.damping_mean = DT_MEAN_LIVE;
        c.o.rounding.keep_better = i % 2 == 0;
        dt_rounded *base = round_it(&c);
        scale_inputs(&c.l, factors[i / 6 % 2]);
        dt_rounded *got = round_it(&c);
        TEST_EACH(same_codes(got, base), "layer %d, rounder %d: other codes", i, c.o.rounder);
        drop(&c, base, got);
        end(&c);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* ---- 3, 4, 5: equivalent layers ------------------------------------------------------------- */

START_TEST(test_blocks)
{
    dt_ctx *ctx = context(2);
    tally t = { 0, 0 };
    for (int i = 0; i < 120; i++) {
        trial c = begin(ctx, i, 1 + i % 6, NULL);
        const int64_t blocks[] = { 1, 32, 128, c.l.columns };
        reference want = reference_round(&c.l, &c.q, &c.o);
        for (int b = 0; b < 4; b++) {
            c.o.rounding.block = blocks[b];
            dt_rounded *got = round_it(&c);
            compare(&c, got, &want, &t);
            dt_rounded_free(ctx, got);
        }
        reference_free(&want);
        end(&c);
    }
    finish(ctx, "blocks", &t);
}
END_TEST

typedef void layer_maker(const layer *l, int64_t group, layer *out);

/* Each group of a convolution against the same as a layer of its own. */
static void compare_parts(dt_ctx *ctx, int i, bool transposed, layer_maker *make, tally *t)
{
    layer_wish wish = { .kind = DT_WEIGHT_CONV1D + i / 2 % 2, .noise = 0.15, .dead = i % 3 * 0.1 };
    if (transposed) wish.kind += DT_WEIGHT_CONV_TRANSPOSE1D - DT_WEIGHT_CONV1D;
    trial c = begin(ctx, i, 1 + i % 6, &wish);
    if (c.q.granularity == DT_PER_TENSOR) c.q.granularity = DT_PER_CHANNEL;
    if (dt__scheme_of(c.q.scheme)->settle != NULL) { /* a scale of the whole layer, too */
        c.q.scheme = DT_SCHEME_MXFP4;
        c.q.group_size = 32;
    }
    c.o.rounding.keep_zeros = false; /* zeros are counted in all groups together */
    dt_rounded *whole = round_it(&c);
    for (int64_t g = 0; g < c.l.groups; g++) {
        layer part;
        make(&c.l, g, &part);
        dt_rounded *alone = round_layer(&c, &part);
        reference want = reference_round(&part, &c.q, &c.o);
        compare_codes(&part, whole->codes + g * part.rows * part.columns, alone->codes, &want, t);
        reference_free(&want);
        dt_rounded_free(ctx, alone);
        layer_free(&part);
    }
    dt_rounded_free(ctx, whole);
    end(&c);
}

START_TEST(test_groups_are_independent)
{
    dt_ctx *ctx = context(2);
    tally t = { 0, 0 };
    for (int i = 0; i < 120; i++) compare_parts(ctx, i, i % 4 > 1, layer_group, &t);
    ck_assert_int_eq(t.ties, 0); /* the same sums in the same order */
    finish(ctx, "groups", &t);
}
END_TEST

START_TEST(test_transposed_is_linear)
{
    dt_ctx *ctx = context(2);
    tally t = { 0, 0 };
    for (int i = 0; i < 120; i++) compare_parts(ctx, i, true, layer_flat, &t);
    finish(ctx, "transposed and linear", &t);
}
END_TEST

/* The rounder reaches a transposed weight: most get codes unlike nearest's. */
START_TEST(test_transposed_changes)
{
    dt_ctx *ctx = context(2);
    int layers = 0, changed = 0;
    for (int i = 0; i < 60; i++) {
        const layer_wish wish = { .kind = DT_WEIGHT_CONV_TRANSPOSE1D + i % 2, .noise = 0.15 };
        trial c = begin(ctx, i, DT_ROUND_GPTQ, &wish);
        c.q = dt_weight_quant_defaults();
        c.o = dt_rounding_defaults();
        dt_rounded *nearest = round_it(&c);
        c.o.rounding.keep_better = false;
        dt_rounded *got = round_by(&c, DT_ROUND_GPTQ + i % 3);
        ck_assert_int_eq(c.report.changed > 0, !same_codes(got, nearest));
        layers += c.l.columns > 2;
        changed += c.l.columns > 2 && c.report.changed > 0;
        drop(&c, got, nearest);
        end(&c);
    }
    printf("rounding_properties: %d of %d transposed layers changed\n", changed, layers);
    ck_assert_int_gt(changed * 10, layers * 7);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- 6: dead columns, zeros, orders --------------------------------------------------------- */

static void check_zeros(const trial *c, const dt_rounded *r, bool kept)
{
    for (int64_t i = 0; i < r->rows * r->columns; i++) {
        const int64_t row = i / r->columns, column = i % r->columns;
        if (code_at(c, r, row, column) == 0) continue;
        TEST_EACH(!is_dead(&c->l, row, column), "%s: a dead column is not 0", c->l.name);
        TEST_EACH(!kept || c->l.w[i] != 0, "%s: a zero did not stay", c->l.name);
    }
}

START_TEST(test_zeros)
{
    static const layer_wish wishes[] = {
        { .kind = DT_WEIGHT_LINEAR, .zeros = 0.3, .dead = 0.3, .noise = 0.15 },
        { .kind = DT_WEIGHT_CONV2D, .zeros = 0.02, .dead = 0.3 },
        { .kind = DT_WEIGHT_CONV_TRANSPOSE1D, .zeros = 0.3, .dead = 0.3, .noise = 0.15 },
        { .kind = DT_WEIGHT_CONV1D, .zeros = 0.06, .dead = 1 },
    };
    dt_ctx *ctx = context(2);
    int64_t dead = 0, kept = 0;
    for (int i = 0; i < 168; i++) {
        trial c = begin(ctx, i, 1 + i % 6, &wishes[i / 6 % 4]);
        c.o.rounding.keep_zeros = true;
        dt_rounded *got = round_it(&c);
        const int64_t count = got->rows * got->columns;
        int64_t zeros = 0;
        for (int64_t k = 0; k < count; k++) zeros += c.l.w[k] == 0;
        const bool many = zeros > 0 && zeros * 20 >= count;
        ck_assert_int_eq(c.report.zeros_kept, many ? zeros : 0);
        check_zeros(&c, got, many);
        dead += c.report.dead;
        kept += c.report.zeros_kept;
        dt_rounded_free(ctx, got);
        end(&c);
    }
    ck_assert_int_gt(dead, 100);
    ck_assert_int_gt(kept, 1000);
    dt_ctx_free(ctx);
}
END_TEST

/* Order `weight` gives other codes in the same form; order `group` says which scale a column has,
 * and the dequantized values with these scales have the error of the report. */
START_TEST(test_orders)
{
    dt_ctx *ctx = context(2);
    int other = 0;
    for (int i = 0; i < 60; i++) {
        trial c = begin(ctx, i, 1 + i % 6, NULL);
        dt_rounded *all[3];
        c.q = dt_weight_quant_defaults();
        c.q.group_size = 8;
        c.o.accumulator.tile = 0;
        c.o.rounding.group_scales = DT_SCALES_FROZEN;
        for (int order = DT_ORDER_NONE; order <= DT_ORDER_GROUP; order++) {
            c.o.rounding.order = order;
            all[order] = round_it(&c);
            const double error = layer_error(&c, all[order], false);
            ck_assert_int_eq(all[order]->groups, dt__ceil_div(c.l.columns, 8));
            ck_assert_int_eq(all[order]->group_of != NULL, order == DT_ORDER_GROUP);
            TEST_EACH(test_near(c.report.error, error, 1e-6, 1e-6),
                      "layer %d, order %d: error %g, not %g", i, order, c.report.error, error);
        }
        const size_t scales = (size_t)(all[0]->rows * all[0]->groups) * sizeof(float);
        ck_assert_mem_eq(all[0]->scale, all[1]->scale, scales);
        other += !same_codes(all[0], all[1]);
        drop(&c, all[0], all[1]);
        dt_rounded_free(ctx, all[2]);
        end(&c);
    }
    ck_assert_int_gt(other, 20);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- 7: accumulators ------------------------------------------------------------------------ */

#define MOST_TILES 256

/* The inputs that make a row's sums largest (sign 1) or smallest, added up in a random order. */
static void add_up_worst(trial *c, const dt_rounded *r, const reference *tiles, int64_t row,
                         int sign)
{
    const int32_t *tile_of = tiles->tile_of + row / c->l.rows * c->l.columns;
    const dt_accumulator *a = &c->o.accumulator;
    const int64_t limit = ((int64_t)1 << (a->bits - 1)) - 1, columns = c->l.columns;
    int64_t sum[MOST_TILES] = { 0 }, left[MOST_TILES];
    for (int64_t k = 0; k < columns; k++) left[k] = k;
    for (int64_t k = columns - 1; k >= 0; k--) {
        const int64_t pick = draw(&c->random, 0, k), column = left[pick];
        const int64_t code = code_at(c, r, row, column);
        int64_t *to = &sum[tile_of[column]];
        left[pick] = left[k];
        *to += code * reference_input(a, sign * code > 0);
        TEST_EACH(*to <= limit && *to >= -limit, "%s: row %d: a sum of %lld in %d bits", c->l.name,
                  (int)row, (long long)*to, (int)a->bits);
    }
}

START_TEST(test_accumulators)
{
    dt_ctx *ctx = context(2);
    int64_t changed = 0;
    for (int i = 0; i < 240; i++) {
        trial c = begin(ctx, i, DT_ROUND_A2GPTQ + i % 3, NULL);
        c.o.rounding.keep_better = i % 2 == 0;
        name_trial(&c, i);
        dt_rounded *got = round_it(&c);
        reference nearest = reference_nearest(&c.l, &c.q, &c.o); /* which has the tiles */
        for (int64_t row = 0; row < got->rows; row++) {
            add_up_worst(&c, got, &nearest, row, 1);
            add_up_worst(&c, got, &nearest, row, -1);
        }
        TEST_EACH(c.report.accumulator_bits <= c.o.accumulator.bits, "%s: says %d bits", c.l.name,
                  (int)c.report.accumulator_bits);
        changed += c.report.changed;
        reference_free(&nearest);
        dt_rounded_free(ctx, got);
        end(&c);
    }
    ck_assert_int_gt(changed, 1000);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- 8: nearest and better ------------------------------------------------------------------ */

/* Each row is the rounder's own or nearest's, whichever has the smaller error. */
static void check_row(const trial *c, const dt_rounded *got, const dt_rounded *own,
                      const dt_rounded *nearest, int64_t row)
{
    const bool same = c->o.rounder % 3 == DT_ROUND_GPTQ;
    const size_t n = (size_t)c->l.columns;
    const int64_t at = row * c->l.columns;
    const double error = row_error(c, got, row, same);
    const double least = fmin(row_error(c, own, row, same), row_error(c, nearest, row, same));
    TEST_EACH(memcmp(got->codes + at, own->codes + at, n) == 0 ||
                  memcmp(got->codes + at, nearest->codes + at, n) == 0,
              "%s: row %d is nobody's", c->l.name, (int)row);
    TEST_EACH(error <= least * (1 + 1e-9) + 1e-12, "%s: row %d errs by %g, not %g", c->l.name,
              (int)row, error, least);
}

START_TEST(test_keep_better)
{
    dt_ctx *ctx = context(2);
    int64_t kept = 0, rows = 0;
    for (int i = 0; i < 180; i++) {
        trial c = begin(ctx, i, 1 + i % 6, NULL);
        name_trial(&c, i);
        c.o.rounding.group_scales = DT_SCALES_FROZEN;
        dt_rounded *own = round_it(&c);
        c.o.rounding.keep_better = true;
        dt_rounded *got = round_it(&c);
        reference r = reference_nearest(&c.l, &c.q, &c.o);
        dt_rounded nearest = *got;
        nearest.codes = r.codes;
        for (int64_t row = 0; row < got->rows; row++) check_row(&c, got, own, &nearest, row);
        kept += c.report.kept_nearest;
        rows += got->rows;
        reference_free(&r);
        drop(&c, got, own);
        end(&c);
    }
    printf("rounding_properties: %lld of %lld rows kept nearest\n", (long long)kept,
           (long long)rows);
    ck_assert_int_gt(kept, 0);
    dt_ctx_free(ctx);
}
END_TEST

/* Means over layers: GPTQ's error to nearest's, and Qronos' to GPTQ's. */
START_TEST(test_means)
{
    dt_ctx *ctx = context(2);
    double gptq = 0, qronos = 0;
    int layers = 0;
    for (int i = 0; layers < 100; i++) {
        const layer_wish wish = { .kind = i % 5, .noise = 0.15 };
        trial c = begin(ctx, i, DT_ROUND_GPTQ, &wish);
        double error[4], same[4];
        c.o = dt_rounding_defaults();
        c.o.rounding.keep_better = false;
        for (int rounder = DT_ROUND_NEAREST; rounder <= DT_ROUND_QRONOS; rounder++) {
            dt_rounded *got = round_by(&c, rounder);
            error[rounder] = layer_error(&c, got, false);
            same[rounder] = layer_error(&c, got, true);
            dt_rounded_free(ctx, got);
        }
        end(&c);
        if (same[DT_ROUND_NEAREST] == 0 || error[DT_ROUND_GPTQ] == 0) continue;
        gptq += same[DT_ROUND_GPTQ] / same[DT_ROUND_NEAREST];
        qronos += error[DT_ROUND_QRONOS] / error[DT_ROUND_GPTQ];
        layers++;
    }
    printf("rounding_properties: GPTQ / nearest %.3f, Qronos / GPTQ %.3f\n", gptq / layers,
           qronos / layers);
    ck_assert(gptq < 0.95 * layers);
    ck_assert(qronos < 0.97 * layers);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- 9, and Qronos is GPTQ ------------------------------------------------------------------ */

/* tr((W - W^) (2/n H + damping I) (W - W^)^T) / 2, W with dead columns 0. */
static double damped_error(const trial *c, const dt_rounded *r)
{
    double total = 0;
    for (int64_t row = 0; row < r->rows; row++) {
        total += row_error(c, r, row, true) / (double)c->l.samples;
        for (int64_t k = 0; k < r->columns; k++) {
            const double w = (double)c->l.w[row * r->columns + k];
            const double d = is_dead(&c->l, row, k) ? 0 : w - image_at(c, r, row, k);
            total += c->report.damping * d * d / 2;
        }
    }
    return total;
}

START_TEST(test_loss)
{
    dt_ctx *ctx = context(2);
    for (int i = 0; i < 120; i++) {
        trial c = begin(ctx, i, i % 2 ? DT_ROUND_GPTQ : DT_ROUND_A2GPTQ, NULL);
        layer whole = c.l;
        layer_flat(&whole, 0, &c.l); /* one group, one damping */
        c.o.rounding.keep_zeros = false;
        c.o.accumulator.diffuse = i % 2 ? DT_DIFFUSE_CLAMPED : DT_DIFFUSE_ALL;
        dt_rounded *got = round_it(&c);
        const double want = damped_error(&c, got);
        TEST_EACH(test_near(c.report.loss, want, 1e-9, 1e-6), "layer %d: loss %.17g, not %.17g", i,
                  c.report.loss, want);
        dt_rounded_free(ctx, got);
        layer_free(&whole);
        end(&c);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* Where X is Xq and the damping is the same (GPTQ's H is 2/n). */
START_TEST(test_qronos_is_gptq)
{
    dt_ctx *ctx = context(2);
    tally t = { 0, 0 };
    for (int i = 0; i < 120; i++) {
        const layer_wish wish = { .kind = i % 5, .dead = i % 3 * 0.1, .zeros = i % 2 * 0.2 };
        trial c = begin(ctx, i, DT_ROUND_QRONOS, &wish);
        c.o.rounding.damping_absolute = 0.01;
        reference want = reference_round(&c.l, &c.q, &c.o);
        dt_rounded *qronos = round_it(&c);
        c.o.rounding.damping_absolute = 0.02;
        dt_rounded *gptq = round_by(&c, DT_ROUND_GPTQ);
        compare_codes(&c.l, qronos->codes, gptq->codes, &want, &t);
        drop(&c, qronos, gptq);
        reference_free(&want);
        end(&c);
    }
    finish(ctx, "qronos and gptq", &t);
}
END_TEST

/* ---- threads -------------------------------------------------------------------------------- */

/* A layer with several blocks of rows, and several tiles of the factor. */
static void make_large(dt_ctx *ctx, layer *l)
{
    const int64_t weight[2] = { 150, 400 }, input[2] = { 500, 400 };
    dt__stream s = dt__stream_of(5, DT__FOR_USER);
    dt_tensor **all[] = { &l->weight, &l->xq, &l->x };
    *l = (layer){ .name = "large", .op = { .kind = DT_WEIGHT_LINEAR } };
    for (int k = 0; k < 3; k++) {
        TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, k == 0 ? weight : input, all[k]));
        float *x = dt__data_mut(*all[k]);
        for (int64_t i = 0; i < (*all[k])->count; i++) x[i] = (float)dt__random_unit(&s) - 0.4f;
    }
    layer_unfold(l);
}

START_TEST(test_threads)
{
    static const int threads[] = { 1, 2, 5 };
    trial c[3];
    dt_rounded *got[3];
    for (int k = 0; k < 3; k++) {
        c[k] = (trial){ .ctx = context(threads[k]), .q = dt_weight_quant_defaults() };
        make_large(c[k].ctx, &c[k].l);
        c[k].o = dt_rounding_defaults();
        c[k].o.rounder = _i;
        c[k].o.rounding.order = DT_ORDER_WEIGHT;
        c[k].o.accumulator.bits = _i >= DT_ROUND_A2GPTQ ? 12 : 0;
        c[k].o.accumulator.soft_threshold = _i == DT_ROUND_A2QRONOS;
        got[k] = round_it(&c[k]);
        const dt_round_report *a = &c[k].report, *b = &c[0].report;
        ck_assert(same_codes(got[k], got[0]));
        ck_assert(a->loss == b->loss && a->error == b->error && a->damping == b->damping);
    }
    for (int k = 0; k < 3; k++) {
        dt_rounded_free(c[k].ctx, got[k]);
        end(&c[k]);
        dt_ctx_free(c[k].ctx);
    }
}
END_TEST

Suite *test_rounding_properties_suite(void)
{
    Suite *s = suite_create("rounding_properties");
    TCase *t = tcase_create("rounding_properties");
    tcase_set_timeout(t, 600);
    tcase_add_loop_test(t, test_reference, DT_ROUND_GPTQ, DT_ROUND_A2QRONOS + 1);
    tcase_add_test(t, test_unit_inputs);
    tcase_add_test(t, test_scaled_inputs);
    tcase_add_test(t, test_blocks);
    tcase_add_test(t, test_groups_are_independent);
    tcase_add_test(t, test_transposed_is_linear);
    tcase_add_test(t, test_transposed_changes);
    tcase_add_test(t, test_zeros);
    tcase_add_test(t, test_orders);
    tcase_add_test(t, test_accumulators);
    tcase_add_test(t, test_keep_better);
    tcase_add_test(t, test_means);
    tcase_add_test(t, test_loss);
    tcase_add_test(t, test_qronos_is_gptq);
    tcase_add_loop_test(t, test_threads, DT_ROUND_GPTQ, DT_ROUND_A2QRONOS + 1);
    suite_add_tcase(s, t);
    return s;
}

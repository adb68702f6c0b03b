/* What must hold of every rounder, on random layers of all kinds: the codes of a slow independent
 * program (rounding_reference.h), and the properties of docs/rounding.md. */
#include "rounding_reference.h"

#include "core/tensor.h"

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

static dt__stream stream_of(uint64_t seed) { return dt__stream_of(seed, DT__FOR_USER); }

static int64_t draw(dt__stream *s, int64_t least, int64_t most)
{
    return least + (int64_t)dt__random_below(s, (uint64_t)(most - least + 1));
}

/* ---- random settings --------------------------------------------------------------------------- */

static dt_quant draw_quant(dt__stream *s)
{
    static const int64_t bits[] = { 2, 3, 4, 8 };
    dt_quant q = dt_weight_quant_defaults();
    q.bits = bits[draw(s, 0, 3)];
    q.rule = (int)draw(s, DT_RULE_SYMMETRIC, DT_RULE_Q4_0);
    q.granularity = (int)draw(s, DT_PER_TENSOR, DT_PER_GROUP);
    q.group_size = draw(s, 3, 16);
    q.is_unsigned = q.rule == DT_RULE_ASYMMETRIC && draw(s, 0, 1) == 1;
    if (q.rule != DT_RULE_Q4_0) return q;
    q.bits = 4;
    q.granularity = DT_PER_GROUP;
    q.group_size = 32;
    return q;
}

static void draw_accumulator(dt__stream *s, const dt_quant *q, dt_accumulator *a)
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

static dt_rounding_options draw_options(dt__stream *s, int rounder, const dt_quant *q)
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
    const bool gptq = rounder == DT_ROUND_GPTQ || rounder == DT_ROUND_A2GPTQ;
    if (gptq && grouped && o.rounding.order != DT_ORDER_WEIGHT && draw(s, 0, 2) == 0) {
        o.rounding.group_scales = DT_SCALES_REFRESH;
    }
    if (rounder >= DT_ROUND_A2GPTQ) draw_accumulator(s, q, &o.accumulator);
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

/* ---- one layer --------------------------------------------------------------------------------- */

static dt_rounded *round_layer(dt_ctx *ctx, const layer *l, const dt_quant *q,
                               const dt_rounding_options *o, dt_round_report *report)
{
    dt_rounded *out;
    const bool data = o->rounder != DT_ROUND_NEAREST;
    dt_statistics *s = data ? layer_statistics(ctx, l, l->x != NULL) : NULL;
    const dt_round_work work = { .name = l->name,
                                 .weight = l->weight,
                                 .op = &l->op,
                                 .quant = q,
                                 .options = o,
                                 .statistics = s };
    TEST_OK(ctx, dt_round(ctx, &work, &out, report));
    dt_statistics_free(s);
    return out;
}

typedef struct tally {
    int64_t rows, ties;
} tally;

/* Codes in processing order to the first difference: a tie where the reference's argument lay by a
 * boundary, else an error. */
#define TIE 3e-5

static void compare_row(const layer *l, const dt_rounded *got, const reference *want, int64_t row,
                        tally *t)
{
    const int32_t *order = want->order + row / l->rows * l->columns;
    t->rows++;
    for (int64_t j = 0; j < l->columns; j++) {
        const int64_t at = row * l->columns + order[j];
        if (got->codes[at] == want->codes[at]) continue;
        TEST_EACH(want->margin[at] < TIE,
                  "%s: row %d, place %d: code %d, not %d, %g off a boundary", l->name, (int)row,
                  (int)j, got->codes[at], want->codes[at], want->margin[at]);
        t->ties++;
        return;
    }
}

static void compare(const layer *l, const dt_rounded *got, const reference *want, bool refreshed,
                    tally *t)
{
    const size_t scales = (size_t)(want->rows * want->groups);
    TEST_EACH(got->rows == want->rows && got->columns == want->columns &&
                  got->groups == want->groups,
              "%s: another shape", l->name);
    TEST_EACH(refreshed || memcmp(got->scale, want->scale, scales * sizeof(float)) == 0,
              "%s: other scales", l->name);
    TEST_EACH(refreshed || got->zero_point == NULL ||
                  memcmp(got->zero_point, want->zero, scales) == 0,
              "%s: other zero points", l->name);
    TEST_EACH(got->group_of == NULL ||
                  memcmp(got->group_of, want->group_of,
                         (size_t)(l->groups * l->columns) * sizeof(int32_t)) == 0,
              "%s: other groups", l->name);
    for (int64_t row = 0; row < want->rows; row++) compare_row(l, got, want, row, t);
}

/* ---- the reference ------------------------------------------------------------------------------ */

static void name_case(layer *l, int i, const dt_quant *q, const dt_rounding_options *o)
{
    char text[sizeof l->name + 200];
    snprintf(
        text, sizeof text,
        "%d %s rounder %d rule %d bits %d gran %d/%d order %d mean %d zeros %d refresh %d P %d "
        "tile %d soft %d all %d",
        i, l->name, o->rounder, q->rule, (int)q->bits, q->granularity, (int)q->group_size,
        o->rounding.order, o->rounding.damping_mean, o->rounding.keep_zeros,
        o->rounding.group_scales, (int)o->accumulator.bits, (int)o->accumulator.tile,
        o->accumulator.soft_threshold, o->accumulator.diffuse);
    memcpy(l->name, text, sizeof l->name - 1);
}

static void run_random(dt_ctx *ctx, int i, int rounder, tally *t)
{
    dt__stream s = stream_of((uint64_t)(1000 * rounder + i));
    layer l;
    const layer_wish wish = draw_wish(&s);
    layer_create(ctx, &s, &wish, &l);
    const dt_quant q = draw_quant(&s);
    const dt_rounding_options o = draw_options(&s, rounder, &q);
    name_case(&l, i, &q, &o);
    dt_round_report report;
    dt_rounded *got = round_layer(ctx, &l, &q, &o, &report);
    reference want = reference_round(&l, &q, &o);
    const int64_t ties = t->ties;
    compare(&l, got, &want, o.rounding.group_scales == DT_SCALES_REFRESH, t);
    TEST_EACH(test_near(report.damping, want.damping, 0, 1e-9), "%s: damping %.17g, not %.17g",
              l.name, report.damping, want.damping);
    const bool has_loss = rounder == DT_ROUND_GPTQ || rounder == DT_ROUND_A2GPTQ;
    TEST_EACH(!has_loss || ties != t->ties || test_near(report.loss, want.loss, 1e-12, 1e-6),
              "%s: loss %.17g, not %.17g", l.name, report.loss, want.loss);
    reference_free(&want);
    dt_rounded_free(ctx, got);
    layer_free(&l);
}

START_TEST(test_reference)
{
    dt_ctx *ctx = context(2);
    tally t = { 0, 0 };
    for (int i = 0; i < LAYERS; i++) run_random(ctx, i, _i, &t);
    printf("rounding_properties: rounder %d: %lld rows, %lld ties\n", _i, (long long)t.rows,
           (long long)t.ties);
    ck_assert_int_le(t.ties * 100, t.rows);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- what follows from codes -------------------------------------------------------------------- */

static int64_t group_at(const layer *l, const dt_quant *q, const dt_rounded *r, int64_t row,
                        int64_t column)
{
    if (r->group_of != NULL) return r->group_of[row / l->rows * l->columns + column];
    return q->granularity == DT_PER_GROUP ? column / q->group_size : 0;
}

/* A code less its zero point. */
static int code_at(const layer *l, const dt_quant *q, const dt_rounded *r, int64_t row,
                   int64_t column)
{
    const int64_t at = row * r->groups + group_at(l, q, r, row, column);
    return r->codes[row * r->columns + column] - (r->zero_point == NULL ? 0 : r->zero_point[at]);
}

static double image_at(const layer *l, const dt_quant *q, const dt_rounded *r, int64_t row,
                       int64_t column)
{
    const int64_t at = row * r->groups + group_at(l, q, r, row, column);
    return code_at(l, q, r, row, column) * (double)r->scale[at];
}

/* ||w X - w^ Xq||^2 of a row; `same`: ||(w - w^) Xq||^2. `image` [columns]. */
static double row_error(const layer *l, const double *image, int64_t row, bool same)
{
    const float *w = l->w + row * l->columns;
    const int64_t at = row / l->rows * l->columns * l->samples;
    double total = 0;
    for (int64_t n = 0; n < l->samples; n++) {
        double sum = 0;
        for (int64_t k = 0; k < l->columns; k++) {
            const double xq = (double)l->xqs[at + k * l->samples + n];
            const double x = same ? xq : (double)l->xs[at + k * l->samples + n];
            sum += (double)w[k] * x - image[k] * xq;
        }
        total += sum * sum;
    }
    return total;
}

static double error_of(const layer *l, const dt_quant *q, const dt_rounded *r, int64_t row,
                       bool same)
{
    double image[256];
    for (int64_t k = 0; k < l->columns; k++) image[k] = image_at(l, q, r, row, k);
    return row_error(l, image, row, same);
}

static bool same_codes(const dt_rounded *a, const dt_rounded *b)
{
    return a->rows == b->rows && a->columns == b->columns &&
           memcmp(a->codes, b->codes, (size_t)(a->rows * a->columns)) == 0;
}

/* ---- 1, 2: sums over samples that say nothing new ------------------------------------------------ */

static const int data_rounders[] = { DT_ROUND_GPTQ, DT_ROUND_GPFQ, DT_ROUND_QRONOS };

/* A linear layer whose inputs are the unit vectors: H = I. */
START_TEST(test_unit_inputs)
{
    dt_ctx *ctx = context(2);
    for (int i = 0; i < 60; i++) {
        dt__stream s = stream_of((uint64_t)i + 1);
        const layer_wish wish = { .kind = DT_WEIGHT_LINEAR };
        layer l;
        layer_create(ctx, &s, &wish, &l);
        const int64_t dims[2] = { l.columns, l.columns };
        dt_tensor_free(l.xq);
        TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, dims, &l.xq));
        float *x = dt__data_mut(l.xq);
        for (int64_t k = 0; k < l.xq->count; k++) x[k] = k / l.columns == k % l.columns;
        layer_unfold(&l);
        const dt_quant q = draw_quant(&s);
        dt_rounding_options o = dt_rounding_defaults();
        o.rounding.keep_better = false;
        dt_rounded *nearest = round_layer(ctx, &l, &q, &o, NULL);
        for (int k = 0; k < 3; k++) {
            o.rounder = data_rounders[k];
            dt_rounded *got = round_layer(ctx, &l, &q, &o, NULL);
            TEST_EACH(same_codes(got, nearest), "layer %d, rounder %d: not nearest", i, o.rounder);
            dt_rounded_free(ctx, got);
        }
        dt_rounded_free(ctx, nearest);
        layer_free(&l);
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
        const int rounder = 1 + i % 6;
        dt__stream s = stream_of((uint64_t)i + 1);
        const layer_wish wish = draw_wish(&s);
        layer l;
        layer_create(ctx, &s, &wish, &l);
        const dt_quant q = draw_quant(&s);
        dt_rounding_options o = draw_options(&s, rounder, &q);
        o.rounding.damping_absolute = 0;
        o.rounding.damping_mean = DT_MEAN_LIVE;
        o.rounding.keep_better = i % 2 == 0;
        dt_rounded *base = round_layer(ctx, &l, &q, &o, NULL);
        scale_inputs(&l, factors[i / 6 % 2]);
        dt_rounded *got = round_layer(ctx, &l, &q, &o, NULL);
        TEST_EACH(same_codes(got, base), "layer %d, rounder %d: other codes", i, rounder);
        dt_rounded_free(ctx, got);
        dt_rounded_free(ctx, base);
        layer_free(&l);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* ---- 3, 4, 5: the same layer in other words ------------------------------------------------------ */

START_TEST(test_blocks)
{
    dt_ctx *ctx = context(2);
    tally t = { 0, 0 };
    for (int i = 0; i < 120; i++) {
        dt__stream s = stream_of((uint64_t)i + 1);
        const layer_wish wish = draw_wish(&s);
        layer l;
        layer_create(ctx, &s, &wish, &l);
        const int64_t blocks[] = { 1, 32, 128, l.columns };
        const dt_quant q = draw_quant(&s);
        dt_rounding_options o = draw_options(&s, 1 + i % 6, &q);
        reference want = reference_round(&l, &q, &o);
        for (int b = 0; b < 4; b++) {
            o.rounding.block = blocks[b];
            dt_rounded *got = round_layer(ctx, &l, &q, &o, NULL);
            compare(&l, got, &want, o.rounding.group_scales == DT_SCALES_REFRESH, &t);
            dt_rounded_free(ctx, got);
        }
        reference_free(&want);
        layer_free(&l);
    }
    printf("rounding_properties: blocks: %lld rows, %lld ties\n", (long long)t.rows,
           (long long)t.ties);
    ck_assert_int_le(t.ties * 100, t.rows);
    dt_ctx_free(ctx);
}
END_TEST

/* A group of the whole against the same as a layer. Scales of a tensor are of all groups. */
static void compare_part(const layer *l, const dt_rounded *whole, int64_t g, const dt_rounded *part,
                         const reference *want, tally *t)
{
    dt_rounded mine = *whole;
    mine.rows = part->rows;
    mine.codes = whole->codes + g * part->rows * part->columns;
    for (int64_t row = 0; row < part->rows; row++) {
        reference other = *want;
        other.codes = part->codes;
        compare_row(l, &mine, &other, row, t);
    }
}

typedef void layer_maker(const layer *l, int64_t group, layer *out);

static void run_parts(dt_ctx *ctx, int i, bool transposed, layer_maker *make, tally *t)
{
    dt__stream s = stream_of((uint64_t)i + 1);
    layer_wish wish = draw_wish(&s);
    const int flat = (int)draw(&s, 0, 1);
    wish.kind = transposed ? DT_WEIGHT_CONV_TRANSPOSE1D + flat : DT_WEIGHT_CONV1D + flat;
    layer l, part;
    layer_create(ctx, &s, &wish, &l);
    dt_quant q = draw_quant(&s);
    if (q.granularity == DT_PER_TENSOR) q.granularity = DT_PER_CHANNEL;
    dt_rounding_options o = draw_options(&s, 1 + i % 6, &q);
    o.rounding.keep_zeros = false; /* zeros are counted in all groups together */
    dt_rounded *whole = round_layer(ctx, &l, &q, &o, NULL);
    for (int64_t g = 0; g < l.groups; g++) {
        make(&l, g, &part);
        dt_rounded *alone = round_layer(ctx, &part, &q, &o, NULL);
        reference want = reference_round(&part, &q, &o);
        compare_part(&part, whole, g, alone, &want, t);
        reference_free(&want);
        dt_rounded_free(ctx, alone);
        layer_free(&part);
    }
    dt_rounded_free(ctx, whole);
    layer_free(&l);
}

START_TEST(test_groups_alone)
{
    dt_ctx *ctx = context(2);
    tally t = { 0, 0 };
    for (int i = 0; i < 120; i++) run_parts(ctx, i, i % 2 == 1, layer_group, &t);
    ck_assert_int_gt(t.rows, 500);
    ck_assert_int_eq(t.ties, 0); /* the same sums in the same order */
    dt_ctx_free(ctx);
}
END_TEST

/* A transposed convolution is the linear layer on its unfolded inputs. */
START_TEST(test_transposed_is_linear)
{
    dt_ctx *ctx = context(2);
    tally t = { 0, 0 };
    for (int i = 0; i < 120; i++) run_parts(ctx, i, true, layer_flat, &t);
    ck_assert_int_gt(t.rows, 500);
    ck_assert_int_le(t.ties * 100, t.rows);
    dt_ctx_free(ctx);
}
END_TEST

/* And the rounder reaches it: of layers whose inputs overlap, most get codes unlike nearest's. */
START_TEST(test_transposed_changes)
{
    dt_ctx *ctx = context(2);
    int layers = 0, changed = 0;
    for (int i = 0; i < 60; i++) {
        dt__stream s = stream_of((uint64_t)i + 1);
        const layer_wish wish = { .kind = DT_WEIGHT_CONV_TRANSPOSE1D + i % 2, .noise = 0.15 };
        layer l;
        layer_create(ctx, &s, &wish, &l);
        const dt_quant q = { .rule = DT_RULE_SYMMETRIC, .bits = 4, .granularity = DT_PER_CHANNEL };
        dt_rounding_options o = dt_rounding_defaults();
        dt_rounded *nearest = round_layer(ctx, &l, &q, &o, NULL);
        o.rounder = data_rounders[i % 3];
        o.rounding.keep_better = false;
        dt_round_report report;
        dt_rounded *got = round_layer(ctx, &l, &q, &o, &report);
        ck_assert_int_eq(report.changed > 0, !same_codes(got, nearest));
        layers += l.columns > 2;
        changed += l.columns > 2 && report.changed > 0;
        dt_rounded_free(ctx, got);
        dt_rounded_free(ctx, nearest);
        layer_free(&l);
    }
    printf("rounding_properties: %d of %d transposed layers changed\n", changed, layers);
    ck_assert_int_gt(changed * 10, layers * 7);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- 6: dead columns, zeros, orders -------------------------------------------------------------- */

static void check_zeros(const layer *l, const dt_quant *q, const dt_rounded *r, bool kept)
{
    for (int64_t i = 0; i < r->rows * r->columns; i++) {
        const int64_t row = i / r->columns, column = i % r->columns;
        const float *x = l->xqs + (row / l->rows * l->columns + column) * l->samples;
        bool dead = true;
        for (int64_t n = 0; n < l->samples; n++) dead &= x[n] == 0;
        TEST_EACH(!dead || code_at(l, q, r, row, column) == 0, "%s: a dead column is not 0",
                  l->name);
        TEST_EACH(!kept || l->w[i] != 0 || code_at(l, q, r, row, column) == 0,
                  "%s: a zero did not stay", l->name);
    }
}

START_TEST(test_zeros)
{
    dt_ctx *ctx = context(2);
    int64_t dead = 0, kept = 0;
    for (int i = 0; i < 150; i++) {
        dt__stream s = stream_of((uint64_t)i + 1);
        layer_wish wish = draw_wish(&s);
        wish.dead = 0.3;
        wish.zeros = i % 3 == 0 ? 0.02 : 0.3;
        layer l;
        layer_create(ctx, &s, &wish, &l);
        const dt_quant q = draw_quant(&s);
        dt_rounding_options o = draw_options(&s, 1 + i % 6, &q);
        o.rounding.keep_zeros = true;
        dt_round_report report;
        dt_rounded *got = round_layer(ctx, &l, &q, &o, &report);
        int64_t zeros = 0;
        for (int64_t k = 0; k < got->rows * got->columns; k++) zeros += l.w[k] == 0;
        const bool many = zeros * 20 >= got->rows * got->columns && zeros > 0;
        ck_assert_int_eq(report.zeros_kept, many ? zeros : 0);
        check_zeros(&l, &q, got, many);
        dead += report.dead;
        kept += report.zeros_kept;
        dt_rounded_free(ctx, got);
        layer_free(&l);
    }
    ck_assert_int_gt(dead, 100);
    ck_assert_int_gt(kept, 1000);
    dt_ctx_free(ctx);
}
END_TEST

/* Order `weight` gives other values in the same form; order `group` says which scale a column has, and
 * with these the images err as the report says. */
START_TEST(test_orders)
{
    dt_ctx *ctx = context(2);
    int other = 0;
    for (int i = 0; i < 60; i++) {
        dt__stream s = stream_of((uint64_t)i + 1);
        layer_wish wish = draw_wish(&s);
        layer l;
        layer_create(ctx, &s, &wish, &l);
        dt_quant q = dt_weight_quant_defaults();
        q.group_size = 8;
        dt_rounding_options o = dt_rounding_defaults();
        o.rounder = 1 + i % 6;
        if (o.rounder >= DT_ROUND_A2GPTQ) o.accumulator.bits = 14;
        dt_round_report report;
        dt_rounded *all[3];
        for (int order = 0; order < 3; order++) {
            o.rounding.order = order;
            all[order] = round_layer(ctx, &l, &q, &o, &report);
            ck_assert_int_eq(all[order]->groups, dt__ceil_div(l.columns, 8));
            ck_assert_int_eq(all[order]->group_of != NULL, order == DT_ORDER_GROUP);
            double error = 0;
            for (int64_t row = 0; row < all[order]->rows; row++) {
                error += error_of(&l, &q, all[order], row, false);
            }
            TEST_EACH(test_near(report.error, sqrt(error), 1e-6, 1e-6),
                      "layer %d, order %d: error %g, not %g", i, order, report.error, sqrt(error));
        }
        const size_t scales = (size_t)(all[0]->rows * all[0]->groups) * sizeof(float);
        ck_assert_mem_eq(all[0]->scale, all[1]->scale, scales);
        other += !same_codes(all[0], all[1]);
        for (int order = 0; order < 3; order++) dt_rounded_free(ctx, all[order]);
        layer_free(&l);
    }
    ck_assert_int_gt(other, 30);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- 7: accumulators ------------------------------------------------------------------------------ */

/* The worst inputs of each tile of a row, its products added up in a random order. */
static void add_up_worst(dt__stream *s, const layer *l, const dt_quant *q,
                         const dt_rounding_options *o, const dt_rounded *r, const reference *want,
                         int64_t row, int sign)
{
    const int32_t *tile_of = want->tile_of + row / l->rows * l->columns;
    const dt_accumulator *a = &o->accumulator;
    const int64_t limit = ((int64_t)1 << (a->bits - 1)) - 1;
    int64_t sum[256] = { 0 };
    int32_t columns[256];
    for (int64_t k = 0; k < l->columns; k++) columns[k] = (int32_t)k;
    for (int64_t k = l->columns - 1; k >= 0; k--) {
        const int64_t swap = draw(s, 0, k), c = columns[swap];
        columns[swap] = columns[k];
        const int64_t code = sign * code_at(l, q, r, row, c);
        int64_t *to = &sum[tile_of[c]];
        *to += sign * code * reference_input(a, code > 0);
        TEST_EACH(*to <= limit && *to >= -limit, "%s: row %d: a sum of %lld in %d bits", l->name,
                  (int)row, (long long)*to, (int)a->bits);
    }
}

START_TEST(test_accumulators)
{
    dt_ctx *ctx = context(2);
    int64_t clipped = 0;
    for (int i = 0; i < 240; i++) {
        dt__stream s = stream_of((uint64_t)i + 1);
        const layer_wish wish = draw_wish(&s);
        layer l;
        layer_create(ctx, &s, &wish, &l);
        const dt_quant q = draw_quant(&s);
        dt_rounding_options o = draw_options(&s, DT_ROUND_A2GPTQ + i % 3, &q);
        o.rounding.keep_better = i % 2 == 0;
        name_case(&l, i, &q, &o);
        dt_round_report report;
        dt_rounded *got = round_layer(ctx, &l, &q, &o, &report);
        reference nearest = reference_nearest(&l, &q, &o);
        for (int64_t row = 0; row < got->rows; row++) {
            add_up_worst(&s, &l, &q, &o, got, &nearest, row, 1);
            add_up_worst(&s, &l, &q, &o, got, &nearest, row, -1);
        }
        TEST_EACH(report.accumulator_bits <= o.accumulator.bits, "%s: says %d bits", l.name,
                  (int)report.accumulator_bits);
        clipped += report.changed;
        reference_free(&nearest);
        dt_rounded_free(ctx, got);
        layer_free(&l);
    }
    ck_assert_int_gt(clipped, 1000);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- 8: nearest and better ------------------------------------------------------------------------ */

/* With keep_better a row is the rounder's or nearest's, and of the two the one that errs less. */
START_TEST(test_keep_better)
{
    dt_ctx *ctx = context(2);
    int64_t kept = 0, rows = 0;
    for (int i = 0; i < 180; i++) {
        dt__stream s = stream_of((uint64_t)i + 1);
        const layer_wish wish = draw_wish(&s);
        layer l;
        layer_create(ctx, &s, &wish, &l);
        const dt_quant q = draw_quant(&s);
        dt_rounding_options o = draw_options(&s, 1 + i % 6, &q);
        o.rounding.group_scales = DT_SCALES_FROZEN;
        const bool same = o.rounder % 3 == DT_ROUND_GPTQ;
        dt_round_report report;
        dt_rounded *plain = round_layer(ctx, &l, &q, &o, NULL);
        o.rounding.keep_better = true;
        dt_rounded *got = round_layer(ctx, &l, &q, &o, &report);
        reference nearest = reference_nearest(&l, &q, &o);
        dt_rounded other = *got;
        other.codes = nearest.codes;
        for (int64_t row = 0; row < got->rows; row++) {
            const size_t n = (size_t)l.columns;
            const int8_t *codes = got->codes + row * l.columns;
            const double mine = error_of(&l, &q, got, row, same);
            const double theirs = error_of(&l, &q, &other, row, same);
            const double own = error_of(&l, &q, plain, row, same);
            const double slack = 1e-9 * (theirs + own) + 1e-12;
            const bool is_own = memcmp(codes, plain->codes + row * l.columns, n) == 0;
            const bool is_nearest = memcmp(codes, nearest.codes + row * l.columns, n) == 0;
            TEST_EACH(is_own || is_nearest, "layer %d: a row of nobody", i);
            TEST_EACH(mine <= theirs + slack, "layer %d: %g, nearest %g", i, mine, theirs);
            TEST_EACH(mine <= own + slack, "layer %d: %g, without %g", i, mine, own);
        }
        kept += report.kept_nearest;
        rows += got->rows;
        reference_free(&nearest);
        dt_rounded_free(ctx, got);
        dt_rounded_free(ctx, plain);
        layer_free(&l);
    }
    printf("rounding_properties: %lld of %lld rows kept nearest\n", (long long)kept,
           (long long)rows);
    ck_assert_int_gt(kept, 0);
    dt_ctx_free(ctx);
}
END_TEST

/* Means over layers of GPTQ's error to nearest's, and Qronos' to GPTQ's. */
START_TEST(test_means)
{
    dt_ctx *ctx = context(2);
    double gptq = 0, qronos = 0;
    int layers = 0;
    for (int i = 0; layers < 100; i++) {
        dt__stream s = stream_of((uint64_t)i + 1);
        layer_wish wish = { .kind = i % 5, .noise = 0.15 };
        layer l;
        layer_create(ctx, &s, &wish, &l);
        dt_quant q = draw_quant(&s);
        dt_rounding_options o = dt_rounding_defaults();
        o.rounding.keep_better = false;
        double error[4] = { 0 }, same[4] = { 0 };
        for (int k = 0; k < 4; k++) {
            o.rounder = k;
            dt_rounded *got = round_layer(ctx, &l, &q, &o, NULL);
            for (int64_t row = 0; row < got->rows; row++) {
                error[k] += error_of(&l, &q, got, row, false);
                same[k] += error_of(&l, &q, got, row, true);
            }
            dt_rounded_free(ctx, got);
        }
        layer_free(&l);
        if (same[0] == 0 || error[1] == 0) continue;
        gptq += sqrt(same[1] / same[0]);
        qronos += sqrt(error[3] / error[1]);
        layers++;
    }
    printf("rounding_properties: GPTQ / nearest %.3f, Qronos / GPTQ %.3f\n", gptq / layers,
           qronos / layers);
    ck_assert(gptq < 0.95 * layers);
    ck_assert(qronos < 0.95 * layers);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- 9, and Qronos is GPTQ ------------------------------------------------------------------------ */

/* tr((W - W^) (2/n H + damping I) (W - W^)^T) / 2, W with dead columns 0. */
static double damped_error(const layer *l, const dt_quant *q, const dt_rounded *r, double damping)
{
    double total = 0;
    for (int64_t row = 0; row < r->rows; row++) {
        total += error_of(l, q, r, row, true) / (double)l->samples;
        for (int64_t k = 0; k < l->columns; k++) {
            const float *x = l->xqs + k * l->samples;
            bool dead = true;
            for (int64_t n = 0; n < l->samples; n++) dead &= x[n] == 0;
            const double d =
                dead ? 0 : (double)l->w[row * l->columns + k] - image_at(l, q, r, row, k);
            total += damping * d * d / 2;
        }
    }
    return total;
}

START_TEST(test_loss)
{
    dt_ctx *ctx = context(2);
    for (int i = 0; i < 120; i++) {
        dt__stream s = stream_of((uint64_t)i + 1);
        const layer_wish wish = draw_wish(&s);
        layer l, one;
        layer_create(ctx, &s, &wish, &l);
        layer_flat(&l, 0, &one);
        const dt_quant q = draw_quant(&s);
        dt_rounding_options o = draw_options(&s, i % 2 ? DT_ROUND_GPTQ : DT_ROUND_A2GPTQ, &q);
        o.rounding.keep_zeros = false;
        o.accumulator.diffuse = i % 2 ? DT_DIFFUSE_CLAMPED : DT_DIFFUSE_ALL;
        dt_round_report report;
        dt_rounded *got = round_layer(ctx, &one, &q, &o, &report);
        const double want = damped_error(&one, &q, got, report.damping);
        TEST_EACH(test_near(report.loss, want, 1e-9, 1e-6), "layer %d: loss %.17g, not %.17g", i,
                  report.loss, want);
        dt_rounded_free(ctx, got);
        layer_free(&one);
        layer_free(&l);
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
        dt__stream s = stream_of((uint64_t)i + 1);
        layer_wish wish = draw_wish(&s);
        wish.noise = 0;
        layer l;
        layer_create(ctx, &s, &wish, &l);
        const dt_quant q = draw_quant(&s);
        dt_rounding_options o = draw_options(&s, DT_ROUND_QRONOS, &q);
        o.rounding.damping_absolute = 0.01;
        reference want = reference_round(&l, &q, &o);
        dt_rounded *qronos = round_layer(ctx, &l, &q, &o, NULL);
        o.rounder = DT_ROUND_GPTQ;
        o.rounding.damping_absolute = 0.02;
        dt_rounded *gptq = round_layer(ctx, &l, &q, &o, NULL);
        reference other = want;
        other.codes = gptq->codes;
        for (int64_t row = 0; row < gptq->rows; row++) compare_row(&l, qronos, &other, row, &t);
        dt_rounded_free(ctx, gptq);
        dt_rounded_free(ctx, qronos);
        reference_free(&want);
        layer_free(&l);
    }
    ck_assert_int_le(t.ties * 100, t.rows);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- threads -------------------------------------------------------------------------------------- */

/* Several strips and tiles of the factor: the same codes and figures on any number of threads. */
START_TEST(test_threads)
{
    const int64_t weight[2] = { 150, 400 }, input[2] = { 500, 400 };
    dt_rounded *first[7] = { NULL };
    dt_round_report reports[7];
    dt_ctx *contexts[3];
    for (int c = 0; c < 3; c++) {
        contexts[c] = context(1 + c * c);
        dt_ctx *ctx = contexts[c];
        dt__stream s = stream_of(5);
        layer l = { .name = "threads", .op = { .kind = DT_WEIGHT_LINEAR } };
        dt_tensor **all[] = { &l.weight, &l.xq, &l.x };
        for (int k = 0; k < 3; k++) {
            TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, k == 0 ? weight : input, all[k]));
            float *x = dt__data_mut(*all[k]);
            for (int64_t i = 0; i < (*all[k])->count; i++) x[i] = (float)dt__random_unit(&s) - 0.4f;
        }
        dt_quant q = dt_weight_quant_defaults();
        dt_rounding_options o = dt_rounding_defaults();
        o.rounding.order = DT_ORDER_WEIGHT;
        for (int k = DT_ROUND_GPTQ; k <= DT_ROUND_A2QRONOS; k++) {
            o.rounder = k;
            o.accumulator.bits = k >= DT_ROUND_A2GPTQ ? 12 : 0;
            o.accumulator.soft_threshold = k == DT_ROUND_A2QRONOS;
            dt_round_report r;
            dt_rounded *got = round_layer(ctx, &l, &q, &o, &r);
            if (c == 0) {
                first[k] = got;
                reports[k] = r;
                continue;
            }
            ck_assert(same_codes(got, first[k]));
            ck_assert(r.loss == reports[k].loss && r.error == reports[k].error &&
                      r.damping == reports[k].damping);
            dt_rounded_free(ctx, got);
        }
        for (int k = 0; k < 3; k++) dt_tensor_free(*all[k]);
    }
    for (int k = 0; k < 7; k++) dt_rounded_free(contexts[0], first[k]);
    for (int c = 0; c < 3; c++) dt_ctx_free(contexts[c]);
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
    tcase_add_test(t, test_groups_alone);
    tcase_add_test(t, test_transposed_is_linear);
    tcase_add_test(t, test_transposed_changes);
    tcase_add_test(t, test_zeros);
    tcase_add_test(t, test_orders);
    tcase_add_test(t, test_accumulators);
    tcase_add_test(t, test_keep_better);
    tcase_add_test(t, test_means);
    tcase_add_test(t, test_loss);
    tcase_add_test(t, test_qronos_is_gptq);
    tcase_add_test(t, test_threads);
    suite_add_tcase(s, t);
    return s;
}

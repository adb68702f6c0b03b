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
    a->input = (dt_ints){ 2, { range[0], range[1] } };
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

Suite *test_rounding_properties_suite(void)
{
    Suite *s = suite_create("rounding_properties");
    TCase *t = tcase_create("rounding_properties");
    tcase_set_timeout(t, 600);
    tcase_add_loop_test(t, test_reference, DT_ROUND_GPTQ, DT_ROUND_A2QRONOS + 1);
    suite_add_tcase(s, t);
    return s;
}

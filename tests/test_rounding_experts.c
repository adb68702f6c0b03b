/* Grouped weights: an expert is rounded like a separate linear layer with the rows that are routed
 * to it, with the same codes for offsets and index; an expert with too few rows is rounded to
 * nearest and named in the report. Random weights, schemes, settings and routes for each
 * rounder. */
#include "testing.h"

#include <detent/experimental/ptq.h>

#include "core/tensor.h"
#include "ptq/matrix.h"

#include <math.h>
#include <stdlib.h>

#define LAYERS 40 /* of each rounder */

static dt_ctx *context(int threads)
{
    dt_ctx *ctx;
    dt_ctx_options options = dt_ctx_defaults();
    options.threads = threads;
    options.seed = 1;
    ck_assert_int_eq(dt_ctx_create(&ctx, &options), DT_OK);
    return ctx;
}

/* ---- a grouped weight and its inputs -------------------------------------------------------- */

typedef struct grouped {
    dt_ctx *ctx;
    int64_t experts, out, in, rows, slots; /* slots 0: the index is a vector */
    dt_tensor *w, *xq, *x, *index;         /* x NULL: it is xq */
    dt_quant_spec quant;
    dt_rounding_options options;
} grouped;

static int64_t below(dt__stream *s, int64_t n) { return (int64_t)dt__random_below(s, (uint64_t)n); }

static dt_quant_spec draw_quant(dt__stream *s)
{
    static const int64_t bits[] = { 2, 4, 8 };
    dt_quant_spec q = { .scheme = (int)below(s, 3),
                        .bits = bits[below(s, 3)],
                        .granularity = (int)below(s, 3),
                        .group_size = 8 * (1 + below(s, 3)) };
    if (below(s, 4) == 0) {
        q.range = DT_RANGE_STATIC;
        q.observer = DT_OBSERVER_MSE;
    }
    return q;
}

static dt_rounding_options draw_options(dt__stream *s, int rounder, const dt_quant_spec *quant)
{
    dt_rounding_options o = dt_rounding_defaults();
    o.rounder = rounder;
    o.accumulator.bits = dt__method_of(rounder)->bounded ? 12 + below(s, 8) : 0;
    if (rounder == DT_ROUND_NEAREST) return o;
    o.rounding.keep_better = below(s, 2) == 0;
    o.rounding.keep_zeros = below(s, 2) == 0;
    o.rounding.alpha = 1e-3;
    o.rounding.order = (int)below(s, quant->granularity == DT_PER_GROUP ? 3 : 2);
    o.rounding.least_rows = below(s, 3) == 0 ? 0 : 1 + below(s, 12);
    return o;
}

/* One expert a row, or several different ones; few rows are routed to the first experts, and some
 * rows to none. */
static void draw_index(dt__stream *s, const grouped *g, int32_t *index)
{
    const int64_t slots = dt__max_i64(1, g->slots);
    for (int64_t r = 0; r < g->rows; r++) {
        const int64_t start = below(s, g->experts) * below(s, 2) + g->experts - 1;
        for (int64_t k = 0; k < slots; k++) {
            index[r * slots + k] = (int32_t)((start - k + g->experts) % g->experts);
            if (below(s, 8) == 0) index[r * slots + k] = -1;
        }
    }
}

static dt_tensor *tensor_of(dt_ctx *ctx, dt_dtype dtype, int rank, const int64_t *dims)
{
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_create(ctx, dtype, rank, dims, &x));
    return x;
}

static grouped draw_grouped(dt_ctx *ctx, uint64_t seed, int rounder)
{
    dt__stream s = dt__stream_of(seed, DT__FOR_SHUFFLE);
    grouped g = { .ctx = ctx, .experts = 1 + below(&s, 6), .out = 1 + below(&s, 20) };
    g.in = 8 + below(&s, 60);
    g.rows = 1 + below(&s, 160);
    g.slots = dt__min_i64(below(&s, 4), g.experts);
    g.quant = draw_quant(&s);
    g.options = draw_options(&s, rounder, &g.quant);
    g.w = tensor_of(ctx, DT_F32, 3, (int64_t[]){ g.experts, g.out, g.in });
    dt_fill_normal(g.w, 0, 0.3);
    for (int64_t i = 0; i < g.w->count; i++) {
        if (below(&s, 12) == 0) ((float *)dt_data_mut(g.w))[i] = 0;
    }
    g.xq = tensor_of(ctx, DT_F32, 2, (int64_t[]){ g.rows, g.in });
    dt_fill_normal(g.xq, 0, 1);
    float *x = dt_data_mut(g.xq);
    for (int64_t i = 1; i < g.xq->count; i++) x[i] += i % g.in > 0 ? 0.8f * x[i - 1] : 0;
    if (below(&s, 2) == 0) {
        g.x = tensor_of(ctx, DT_F32, 2, g.xq->dims);
        dt_fill_normal(g.x, 0, 0.1);
        for (int64_t i = 0; i < g.x->count; i++) ((float *)dt_data_mut(g.x))[i] += x[i];
    }
    g.index = tensor_of(ctx, DT_I32, g.slots > 0 ? 2 : 1, (int64_t[]){ g.rows, g.slots });
    draw_index(&s, &g, dt_data_mut(g.index));
    return g;
}

static void free_grouped(grouped *g)
{
    dt_tensor_free(g->w);
    dt_tensor_free(g->xq);
    dt_tensor_free(g->x);
    dt_tensor_free(g->index);
}

/* ---- offsets and index ---------------------------------------------------------------------- */

static dt_tensor *narrow(dt_tensor *x, int64_t first, int64_t n)
{
    dt_tensor *part = NULL;
    if (x != NULL) TEST_OK(dt_ctx_of(x), dt_tensor_narrow(x, 0, first, n, &part));
    return part;
}

/* In two batches. */
static dt_statistics *statistics_of(const grouped *g)
{
    const dt_weight_op op = { .kind = DT_WEIGHT_GROUPED_LINEAR };
    dt_statistics *s;
    TEST_OK(g->ctx, dt_statistics_create(g->ctx, &op, 3, g->w->dims, g->x != NULL, &s));
    for (int64_t at = 0, n; at < g->rows; at += n) {
        n = at == 0 && g->rows > 1 ? g->rows / 2 : g->rows - at;
        dt_tensor *xq = narrow(g->xq, at, n), *x = narrow(g->x, at, n);
        dt_tensor *index = narrow(g->index, at, n);
        TEST_OK(g->ctx, dt_statistics_add_routed(s, xq, x, &(dt_routes){ .index = index }));
        dt_tensor_free(xq);
        dt_tensor_free(x);
        dt_tensor_free(index);
    }
    return s;
}

static dt_rounded *round_together(const grouped *g, dt_statistics *s, dt_round_report *report)
{
    const dt_weight_op op = { .kind = DT_WEIGHT_GROUPED_LINEAR };
    const dt_round_work work = { .name = "experts.weight",
                                 .weight = g->w,
                                 .op = &op,
                                 .quant = &g->quant,
                                 .options = &g->options,
                                 .statistics = s };
    dt_rounded *out = NULL;
    TEST_OK(g->ctx, dt_round(g->ctx, &work, &out, report));
    return out;
}

/* The rows of x that are routed to expert e, as a tensor of their own. */
static dt_tensor *rows_of(const grouped *g, const dt_tensor *x, int64_t e)
{
    const int32_t *index = dt_data(g->index);
    const int64_t slots = dt__max_i64(1, g->slots);
    int64_t n = 0;
    for (int64_t i = 0; i < g->index->count; i++) n += index[i] == e;
    if (x == NULL || n == 0) return NULL;
    dt_tensor *part = tensor_of(g->ctx, DT_F32, 2, (int64_t[]){ n, g->in });
    float *to = dt_data_mut(part);
    for (int64_t i = 0; i < g->index->count; i++) {
        if (index[i] != e) continue;
        memcpy(to, (const float *)dt_data(x) + i / slots * g->in, (size_t)g->in * sizeof *to);
        to += g->in;
    }
    return part;
}

/* An expert as a linear layer; NULL where it has too few rows. */
static dt_rounded *round_apart(const grouped *g, int64_t e, dt_round_report *report)
{
    const dt_weight_op op = { .kind = DT_WEIGHT_LINEAR };
    const int64_t dims[] = { g->out, g->in };
    const int64_t least = g->options.rounding.least_rows;
    dt_tensor *xq = rows_of(g, g->xq, e), *x = rows_of(g, g->x, e), *w;
    const float *values = (const float *)dt_data(g->w) + e * g->out * g->in;
    dt_rounded *out = NULL;
    dt_statistics *s = NULL;
    TEST_OK(g->ctx, dt_tensor_from(g->ctx, DT_F32, 2, dims, values, &w));
    if (xq != NULL && xq->dims[0] >= (least > 0 ? least : g->in)) {
        TEST_OK(g->ctx, dt_statistics_create(g->ctx, &op, 2, dims, x != NULL, &s));
        TEST_OK(g->ctx, dt_statistics_add(s, xq, x));
        const dt_round_work work = {
            .weight = w, .quant = &g->quant, .options = &g->options, .statistics = s
        };
        TEST_OK(g->ctx, dt_round(g->ctx, &work, &out, report));
        dt_statistics_free(s);
    }
    dt_tensor_free(w);
    dt_tensor_free(xq);
    dt_tensor_free(x);
    return out;
}

/* An expert to nearest. */
static dt_rounded *round_nearest(const grouped *g, int64_t e)
{
    grouped plain = *g;
    dt_rounded *out = NULL;
    dt_tensor *w;
    const float *values = (const float *)dt_data(g->w) + e * g->out * g->in;
    plain.options = dt_rounding_defaults();
    TEST_OK(g->ctx, dt_tensor_from(g->ctx, DT_F32, 2, (int64_t[]){ g->out, g->in }, values, &w));
    const dt_round_work work = { .weight = w, .quant = &g->quant, .options = &plain.options };
    TEST_OK(g->ctx, dt_round(g->ctx, &work, &out, NULL));
    dt_tensor_free(w);
    return out;
}

/* Whether expert e of `all` is `one`; a separate expert has no order of groups if none was
 * given. */
static bool is_expert(const dt_rounded *all, int64_t e, const dt_rounded *one)
{
    const int64_t codes = one->rows * one->columns, scales = one->rows * one->groups;
    return memcmp(all->codes + e * codes, one->codes, (size_t)codes) == 0 &&
           memcmp(all->scale + e * scales, one->scale, (size_t)scales * sizeof(float)) == 0 &&
           (one->zero_point == NULL ||
            memcmp(all->zero_point + e * scales, one->zero_point, (size_t)scales) == 0) &&
           (one->group_of == NULL || memcmp(all->group_of + e * one->columns, one->group_of,
                                            (size_t)one->columns * sizeof(int32_t)) == 0);
}

typedef struct totals {
    int64_t unseen, samples, changed, kept, dead, zeros, bits;
    double error;
} totals;

static void compare_experts(const grouped *g, uint64_t seed)
{
    dt_statistics *s = statistics_of(g);
    dt_round_report report, one;
    dt_rounded *all = round_together(g, s, &report);
    totals sum = { 0 };
    const bool bounded = dt__method_of(g->options.rounder)->bounded;
    for (int64_t e = 0; e < g->experts; e++) {
        dt_rounded *own = round_apart(g, e, &one);
        if (own != NULL) {
            sum = (totals){ sum.unseen,
                            sum.samples + one.samples,
                            sum.changed + one.changed,
                            sum.kept + one.kept_nearest,
                            sum.dead + one.dead,
                            sum.zeros + one.zeros_kept,
                            dt__max_i64(sum.bits, one.accumulator_bits),
                            sum.error + one.error * one.error };
        } else {
            const bool named = report.unseen_experts.v[sum.unseen++] == e;
            TEST_EACH(named, "layer %llu: expert %lld is not named", (unsigned long long)seed,
                      (long long)e);
            if (!bounded) own = round_nearest(g, e);
        }
        TEST_EACH(own == NULL || is_expert(all, e, own), "layer %llu: expert %lld differs",
                  (unsigned long long)seed, (long long)e);
        dt_rounded_free(g->ctx, own);
    }
    TEST_EACH(report.unseen == sum.unseen && report.unseen_experts.n == sum.unseen &&
                  report.samples == sum.samples && report.changed == sum.changed &&
                  report.kept_nearest == sum.kept && report.dead == sum.dead &&
                  test_near(report.error, sqrt(sum.error), 0, 1e-12),
              "layer %llu: the report adds up to something else", (unsigned long long)seed);
    TEST_EACH(sum.unseen > 0 || report.accumulator_bits == sum.bits,
              "layer %llu: %lld bits, experts apart %lld", (unsigned long long)seed,
              (long long)report.accumulator_bits, (long long)sum.bits);
    TEST_EACH(!bounded || report.accumulator_bits <= g->options.accumulator.bits,
              "layer %llu: accumulators of %lld bits", (unsigned long long)seed,
              (long long)report.accumulator_bits);
    dt_rounded_free(g->ctx, all);
    dt_statistics_free(s);
}

START_TEST(test_experts_are_layers)
{
    dt_ctx *ctx = context(2);
    for (uint64_t seed = 0; seed < LAYERS; seed++) {
        grouped g = draw_grouped(ctx, seed * DT__METHODS + (uint64_t)_i, _i);
        if (_i == DT_ROUND_NEAREST) {
            dt_rounded *all = round_together(&g, NULL, NULL);
            for (int64_t e = 0; e < g.experts; e++) {
                dt_rounded *own = round_nearest(&g, e);
                TEST_EACH(is_expert(all, e, own), "layer %llu: nearest", (unsigned long long)seed);
                dt_rounded_free(ctx, own);
            }
            dt_rounded_free(ctx, all);
        } else {
            compare_experts(&g, seed);
        }
        free_grouped(&g);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* ---- ways to route -------------------------------------------------------------------------- */

static bool same(const dt_rounded *a, const dt_rounded *b)
{
    return memcmp(a->codes, b->codes, (size_t)(a->rows * a->columns)) == 0;
}

/* Sorted rows with offsets give the codes of the same rows with an index; threads change nothing;
 * rows without an expert are not read. */
START_TEST(test_offsets_and_index_agree)
{
    dt_ctx *ctx = context(1);
    grouped g = draw_grouped(ctx, 5, DT_ROUND_GPTQ);
    g.options.rounding.least_rows = 1;
    dt_statistics *s = statistics_of(&g), *sorted;
    dt_rounded *a = round_together(&g, s, NULL);
    const dt_weight_op op = { .kind = DT_WEIGHT_GROUPED_LINEAR };
    TEST_OK(ctx, dt_statistics_create(ctx, &op, 3, g.w->dims, g.x != NULL, &sorted));
    int64_t first[16] = { 0 }, n = 0;
    dt_tensor *parts[2][16] = { 0 };
    for (int64_t e = 0; e < g.experts; e++) {
        parts[0][e] = rows_of(&g, g.xq, e);
        parts[1][e] = rows_of(&g, g.x, e);
        first[e + 1] = n += parts[0][e] == NULL ? 0 : parts[0][e]->dims[0];
    }
    dt_tensor *x[2] = { NULL }, *offsets;
    const int64_t experts = g.experts + 1, dims[] = { n + 2, g.in };
    for (int k = 0; k < (g.x == NULL ? 1 : 2); k++) {
        x[k] = tensor_of(ctx, DT_F32, 2, dims);
        float *to = dt_data_mut(x[k]);
        for (int64_t i = n * g.in; i < x[k]->count; i++) to[i] = NAN;
        for (int64_t e = 0; e < g.experts; e++) {
            if (parts[k][e] == NULL) continue;
            memcpy(to + first[e] * g.in, dt_data(parts[k][e]),
                   (size_t)parts[k][e]->count * sizeof *to);
            dt_tensor_free(parts[k][e]);
        }
    }
    TEST_OK(ctx, dt_tensor_from(ctx, DT_I64, 1, &experts, first, &offsets));
    TEST_OK(ctx, dt__threads_set(ctx, 2));
    TEST_OK(ctx, dt_statistics_add_routed(sorted, x[0], x[1], &(dt_routes){ .offsets = offsets }));
    ck_assert_int_eq(dt_statistics_samples(sorted), n);
    dt_rounded *b = round_together(&g, sorted, NULL);
    ck_assert(same(a, b));
    dt_rounded_free(ctx, a);
    dt_rounded_free(ctx, b);
    dt_statistics_free(s);
    dt_statistics_free(sorted);
    dt_tensor_free(x[0]);
    dt_tensor_free(x[1]);
    dt_tensor_free(offsets);
    free_grouped(&g);
    dt_ctx_free(ctx);
}
END_TEST

static dt_status add(const grouped *g, dt_statistics *s, dt_routes routes)
{
    return dt_statistics_add_routed(s, g->xq, g->x, &routes);
}

START_TEST(test_bad_routes)
{
    dt_ctx *ctx = context(1);
    grouped g = draw_grouped(ctx, 5, DT_ROUND_GPTQ);
    const dt_weight_op op = { .kind = DT_WEIGHT_GROUPED_LINEAR }, linear = { 0 };
    dt_statistics *s, *plain;
    int32_t *index = dt_data_mut(g.index);
    TEST_OK(ctx, dt_statistics_create(ctx, &op, 3, g.w->dims, g.x != NULL, &s));
    TEST_OK(ctx, dt_statistics_create(ctx, &linear, 2, g.w->dims + 1, g.x != NULL, &plain));
    TEST_FAILS(ctx, DT_ERR_ARG, "routes", dt_statistics_add(s, g.xq, g.x));
    TEST_FAILS(ctx, DT_ERR_ARG, "grouped", add(&g, plain, (dt_routes){ .index = g.index }));
    TEST_FAILS(ctx, DT_ERR_ARG, "neither offsets nor index",
               add(&g, s, (dt_routes){ .index = NULL }));
    TEST_FAILS(ctx, DT_ERR_DTYPE, "index must be i32 or i64, not f32",
               add(&g, s, (dt_routes){ .index = g.xq }));
    TEST_FAILS(ctx, DT_ERR_SHAPE, "offsets", add(&g, s, (dt_routes){ .offsets = g.index }));
    const int32_t before = index[0];
    index[0] = (int32_t)g.experts;
    TEST_FAILS(ctx, DT_ERR_ARG, "index[0] is", add(&g, s, (dt_routes){ .index = g.index }));
    index[0] = before < 0 ? 0 : before;
    ((float *)dt_data_mut(g.xq))[3] = INFINITY;
    TEST_FAILS(ctx, DT_ERR_NUMERIC, "row 0, column 3", add(&g, s, (dt_routes){ .index = g.index }));
    ck_assert_int_eq(dt_statistics_samples(s), 0);
    dt_statistics_free(s);
    dt_statistics_free(plain);
    free_grouped(&g);
    dt_ctx_free(ctx);
}
END_TEST

static dt_status scenario(dt_ctx *ctx, void *user)
{
    const grouped *g = user;
    const dt_weight_op op = { .kind = DT_WEIGHT_GROUPED_LINEAR };
    dt_statistics *s = NULL;
    dt_rounded *out = NULL;
    dt_tensor *w = NULL, *xq = NULL, *index = NULL;
    dt_status status = dt_tensor_from(ctx, DT_F32, 3, g->w->dims, dt_data(g->w), &w);
    if (status == DT_OK) status = dt_tensor_from(ctx, DT_F32, 2, g->xq->dims, dt_data(g->xq), &xq);
    if (status == DT_OK) {
        status =
            dt_tensor_from(ctx, DT_I32, g->index->rank, g->index->dims, dt_data(g->index), &index);
    }
    if (status == DT_OK) status = dt_statistics_create(ctx, &op, 3, g->w->dims, false, &s);
    if (status == DT_OK) {
        status = dt_statistics_add_routed(s, xq, NULL, &(dt_routes){ .index = index });
    }
    if (status == DT_OK) {
        const dt_round_work work = {
            .weight = w, .op = &op, .quant = &g->quant, .options = &g->options, .statistics = s
        };
        status = dt_round(ctx, &work, &out, NULL);
    }
    dt_rounded_free(ctx, out);
    dt_statistics_free(s);
    dt_tensor_free(w);
    dt_tensor_free(xq);
    dt_tensor_free(index);
    return status;
}

START_TEST(test_memory_fails)
{
    dt_ctx *ctx = context(1);
    grouped g = draw_grouped(ctx, 5, DT_ROUND_GPTQ);
    g.options.rounding.least_rows = 1;
    ck_assert_int_gt(test_every_allocation(scenario, &g), 20);
    free_grouped(&g);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_rounding_experts_suite(void)
{
    Suite *s = suite_create("rounding_experts");
    TCase *c = tcase_create("experts");
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, test_experts_are_layers, 0, DT__METHODS);
    tcase_add_test(c, test_offsets_and_index_agree);
    tcase_add_test(c, test_bad_routes);
    tcase_add_test(c, test_memory_fails);
    suite_add_tcase(s, c);
    return s;
}

/* GPFQ, Qronos and bounded accumulators: golden/rounding's cases, and the largest and smallest sum
 * of every tile. */
#include "testing.h"

#include "core/tensor.h"
#include "ptq/bounds.h"
#include "rounding_golden.h"

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

/* ---- the files' cases ------------------------------------------------------------------------ */

static test_names files; /* golden/rounding */

/* Largest and smallest sums over tiles of `tile` columns, computed plainly. */
typedef struct extremes {
    int64_t high, low;
} extremes;

static int code_of(const rounding_case *c, const dt_rounded *r, int64_t row, int64_t column)
{
    const int64_t size = c->quant.granularity == DT_PER_GROUP ? c->quant.group_size : r->columns;
    const int64_t at = row * r->groups + column / size;
    return r->codes[row * r->columns + column] - (r->zero_point == NULL ? 0 : r->zero_point[at]);
}

static extremes extremes_of(const rounding_case *c, const dt_rounded *r)
{
    const dt_accumulator *a = &c->options.accumulator;
    const int64_t tile = a->tile > 0 ? a->tile : r->columns;
    extremes e = { 0, 0 };
    for (int64_t i = 0; i < r->rows * dt__ceil_div(r->columns, tile); i++) {
        const int64_t row = i % r->rows, first = i / r->rows * tile;
        int64_t high = 0, low = 0;
        for (int64_t k = first; k < dt__min_i64(first + tile, r->columns); k++) {
            const int64_t q = code_of(c, r, row, k);
            high += dt__max_i64(q * a->input.v[0], q * a->input.v[1]);
            low += dt__min_i64(q * a->input.v[0], q * a->input.v[1]);
        }
        e.high = dt__max_i64(e.high, high);
        e.low = dt__min_i64(e.low, low);
    }
    return e;
}

static void check_worst(const rounding_case *c, const dt_rounded *got, const dt_round_report *r)
{
    const char *what = c->layer->name;
    const extremes e = extremes_of(c, got);
    const int64_t limit = (int64_t)rounding_number(c, "limit");
    TEST_EACH(e.high <= limit && -e.low <= limit, "%s %s: a sum of %lld or %lld", what, c->name,
              (long long)e.high, (long long)e.low);
    TEST_EACH(r->accumulator_bits <= c->options.accumulator.bits, "%s %s: %lld bits", what, c->name,
              (long long)r->accumulator_bits);
    TEST_EACH(e.high == (int64_t)rounding_number(c, "worst_high") &&
                  e.low == (int64_t)rounding_number(c, "worst_low"),
              "%s %s: extremes %lld and %lld", what, c->name, (long long)e.high, (long long)e.low);
    TEST_EACH(r->sum_bits == (int64_t)rounding_number(c, "sum_bits"),
              "%s %s: the sum has %lld bits", what, c->name, (long long)r->sum_bits);
}

static void check_number(const rounding_case *c, const char *key, double got)
{
    const double want = rounding_number(c, key);
    TEST_EACH(isnan(want) || test_near(got, want, 0, 1e-6), "%s %s: %s is %.17g, not %.17g",
              c->layer->name, c->name, key, got, want);
}

static void run_case(const rounding_case *c, rounding_tally *tally)
{
    dt_rounded *got;
    dt_round_report report;
    TEST_OK(c->layer->ctx, rounding_run(c, &got, &report));
    const int64_t wrong = tally->wrong, ties = tally->ties;
    rounding_compare(c, got, 19, tally);
    check_number(c, "damp", report.damping);
    if (tally->wrong == wrong && tally->ties == ties) {
        check_number(c, "err", report.error);
        check_number(c, "changed", (double)report.changed);
    }
    if (c->options.accumulator.bits > 0 && tally->wrong == wrong && tally->ties == ties) {
        check_worst(c, got, &report);
    }
    dt_rounded_free(c->layer->ctx, got);
}

static bool is_ours(const rounding_case *c) { return c->options.rounder >= DT_ROUND_GPFQ; }

static void run_file(dt_ctx *ctx, const char *name)
{
    rounding_layer l;
    rounding_case c;
    rounding_tally tally = { 0, 0, 0 };
    int cases = 0;
    if (!rounding_open(ctx, name, &l)) return;
    for (int i = 0; rounding_case_at(&l, i, &c); i++) {
        if (is_ours(&c)) {
            run_case(&c, &tally);
            cases++;
        }
        rounding_case_free(&c);
    }
    rounding_close(&l);
    printf("rounding_bounds: %s: %d cases, %lld rows, %lld ties\n", name, cases,
           (long long)tally.rows, (long long)tally.ties);
    ck_assert_int_eq(tally.wrong, 0);
    ck_assert_int_le(tally.ties * 100, tally.rows);
}

START_TEST(test_files)
{
    dt_ctx *ctx = context(2);
    run_file(ctx, files.name[_i]);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- the soft threshold --------------------------------------------------------------------- */

/* theta of a case, from the weight and the scales of the file. */
static void check_theta(const rounding_case *c)
{
    const rounding_layer *l = c->layer;
    const int64_t size = c->quant.granularity == DT_PER_GROUP ? c->quant.group_size : l->columns;
    int32_t *group_of = calloc((size_t)l->columns, sizeof *group_of);
    bool *dead = calloc((size_t)l->columns, sizeof *dead);
    for (int64_t k = 0; k < l->columns; k++) {
        group_of[k] = (int32_t)(k / size);
        dead[k] = l->h[k * l->columns + k] == 0;
    }
    const dt__matrix m = { .ctx = l->ctx,
                           .rows = l->rows,
                           .columns = l->columns,
                           .weight = dt_data(l->w),
                           .quant = &c->quant,
                           .options = &c->options,
                           .dead = dead,
                           .grid = {
                               .groups = c->scales, .group_of = group_of, .scale = c->scale } };
    dt__bounds b;
    TEST_OK(l->ctx, dt__bounds_create(&m, true, &b));
    for (int64_t i = 0; i < b.tiles.count * l->rows; i++) {
        TEST_EACH(test_near(b.theta[i], (double)c->theta[i], 1e-6, 1e-6),
                  "%s %s: theta %d is %g, not %g", l->name, c->name, (int)i, b.theta[i],
                  (double)c->theta[i]);
    }
    dt__bounds_free(l->ctx, &b);
    free(group_of);
    free(dead);
}

START_TEST(test_thresholds)
{
    static const char *const linear[] = { "a2_s8", "a2_u8" };
    dt_ctx *ctx = context(2);
    rounding_layer l;
    rounding_case c;
    int cases = 0;
    for (int f = 0; f < 2; f++) {
        if (!rounding_open(ctx, linear[f], &l)) continue;
        for (int i = 0; rounding_case_at(&l, i, &c); i++) {
            if (c.theta != NULL) check_theta(&c);
            cases += c.theta != NULL;
            rounding_case_free(&c);
        }
        rounding_close(&l);
    }
    printf("rounding_bounds: %d cases with a soft threshold\n", cases);
    dt_ctx_free(ctx);
}
END_TEST

/* A group longer than the row is the row: its tile is as wide as the row, too. */
START_TEST(test_threshold_of_long_groups)
{
    enum { ROWS = 3, COLUMNS = 6 };
    static int32_t group_of[COLUMNS] = { 0 };
    static bool dead[COLUMNS] = { false };
    static float scale[ROWS] = { 0.1F, 0.2F, 0.05F };
    dt_ctx *ctx = context(1);
    dt_rounding_options o = dt_rounding_defaults();
    dt_quant_spec q = dt_weight_quant_defaults();
    float w[ROWS * COLUMNS];
    dt__bounds b[2];
    for (int i = 0; i < ROWS * COLUMNS; i++) w[i] = (i % 3 == 0 ? -0.5F : 0.6F) + 0.03F * (float)i;
    o.accumulator.bits = 10;
    o.accumulator.input = (dt_ints){ 2, { 0, 255 } };
    o.accumulator.soft_threshold = true;
    for (int i = 0; i < 2; i++) {
        q.group_size = i == 0 ? COLUMNS : 1000;
        const dt__matrix m = { .ctx = ctx,
                               .rows = ROWS,
                               .columns = COLUMNS,
                               .weight = w,
                               .quant = &q,
                               .options = &o,
                               .dead = dead,
                               .grid = { .groups = 1, .group_of = group_of, .scale = scale } };
        TEST_OK(ctx, dt__bounds_create(&m, true, &b[i]));
    }
    for (int r = 0; r < ROWS; r++) {
        TEST_EACH(b[0].theta[r] > 0 && !(b[0].theta[r] < b[1].theta[r]) &&
                      !(b[0].theta[r] > b[1].theta[r]),
                  "row %d: %g, not %g", r, b[1].theta[r], b[0].theta[r]);
    }
    for (int i = 0; i < 2; i++) dt__bounds_free(ctx, &b[i]);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- all inputs ----------------------------------------------------------------------------- */

/* The interval of allowed codes is exactly that of codes with which no sum leaves -limit ...
 * limit. */
START_TEST(test_room)
{
    for (int64_t below = 0; below <= 3; below++) {
        for (int64_t i = 0; i < 4 * 16 * 8 * 8; i++) {
            const int64_t above = i % 4, limit = 1 + i / 4 % 16, positive = i / 64 % 8;
            const int64_t negative = -(i / 512);
            const int64_t high = above * positive - below * negative;
            const int64_t low = above * negative - below * positive;
            if (below + above == 0 || high > limit || low < -limit) continue;
            const dt__bounds b = { .limit = limit, .below = below, .above = above };
            const dt__interval room = dt__interval_of(&b, positive, negative);
            TEST_EACH(room.least <= 0 && room.most >= 0, "0 must always do");
            for (int64_t q = -40; q <= 40; q++) {
                const int64_t up = q > 0 ? q * above : -q * below;
                const int64_t down = q > 0 ? q * below : -q * above;
                const bool fits = high + up <= limit && low - down >= -limit;
                TEST_EACH(fits == (q >= room.least && q <= room.most), "%d in [%d, %d], limit %d",
                          (int)q, (int)room.least, (int)room.most, (int)limit);
            }
        }
    }
}
END_TEST

#define TINY 5 /* columns */

/* All inputs of a row, one after the other; those with zeros among them are all partial sums. */
static int64_t most_of(const dt_rounded *r, int64_t row, int64_t tile, const dt_accumulator *a)
{
    const int64_t low = a->input.v[0], span = a->input.v[1] - low + 1;
    int64_t all = 1, most = 0;
    for (int k = 0; k < TINY; k++) all *= span;
    for (int64_t i = 0; i < all; i++) {
        int64_t sum = 0, digits = i;
        for (int64_t k = 0; k < TINY; k++) {
            if (k > 0 && k % tile == 0) sum = 0;
            sum += (low + digits % span) * r->codes[row * TINY + k];
            if (r->zero_point != NULL) sum -= (low + digits % span) * r->zero_point[row];
            digits /= span;
            most = dt__max_i64(most, sum < 0 ? -sum : sum);
        }
    }
    return most;
}

typedef struct tiny {
    dt_tensor *w, *x, *xq;
} tiny;

static tiny make_tiny(dt_ctx *ctx, dt__stream *s)
{
    const int64_t weight[2] = { 6, TINY }, input[2] = { 20, TINY };
    tiny t;
    dt_tensor **all[] = { &t.w, &t.x, &t.xq };
    for (int k = 0; k < 3; k++) {
        TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, k == 0 ? weight : input, all[k]));
        float *x = dt_data_mut(*all[k]);
        for (int64_t i = 0; i < (*all[k])->count; i++) x[i] = (float)dt__random_unit(s) - 0.4f;
    }
    return t;
}

static void free_tiny(tiny *t)
{
    dt_tensor_free(t->w);
    dt_tensor_free(t->x);
    dt_tensor_free(t->xq);
}

static dt_status round_tiny(dt_ctx *ctx, const tiny *t, const dt_quant_spec *q,
                            const dt_rounding_options *o, dt_rounded **out, dt_round_report *report)
{
    dt_statistics *s;
    const dt_weight_op op = { .kind = DT_WEIGHT_LINEAR };
    DT__TRY(dt_statistics_create(ctx, &op, 2, t->w->dims, true, &s));
    dt_status status = dt_statistics_add(s, t->xq, t->x);
    const dt_round_work work = {
        .name = "tiny", .weight = t->w, .quant = q, .options = o, .statistics = s
    };
    if (status == DT_OK) status = dt_round(ctx, &work, out, report);
    dt_statistics_free(s);
    return status;
}

START_TEST(test_every_input)
{
    static const int64_t ranges[][2] = { { 0, 3 }, { -2, 1 }, { -3, 0 } };
    dt_ctx *ctx = context(1);
    dt__stream s = dt__stream_of(3, DT__FOR_USER);
    for (int i = 0; i < 360; i++) {
        tiny t = make_tiny(ctx, &s);
        const dt_quant_spec q = { .scheme = i / 3 % 2 ? DT_SCHEME_ASYMMETRIC : DT_SCHEME_SYMMETRIC,
                                  .bits = 4,
                                  .granularity = DT_PER_CHANNEL };
        dt_rounding_options o = dt_rounding_defaults();
        o.rounder = DT_ROUND_A2GPTQ + i % 3;
        o.rounding.keep_better = i % 2 == 0;
        o.accumulator.bits = 2 + i / 6 % 6;
        o.accumulator.tile = i / 36 % 3 == 0 ? 0 : 1 + i / 36 % 3;
        o.accumulator.input = (dt_ints){ 2, { ranges[i % 3][0], ranges[i % 3][1] } };
        const int64_t tile = o.accumulator.tile > 0 ? o.accumulator.tile : TINY;
        dt_rounded *r;
        dt_round_report report;
        TEST_OK(ctx, round_tiny(ctx, &t, &q, &o, &r, &report));
        int64_t most = 0;
        for (int64_t row = 0; row < 6; row++) {
            most = dt__max_i64(most, most_of(r, row, tile, &o.accumulator));
        }
        const int64_t limit = ((int64_t)1 << (o.accumulator.bits - 1)) - 1;
        TEST_EACH(most <= limit, "layer %d: a sum of %d in %d bits", i, (int)most,
                  (int)o.accumulator.bits);
        int64_t needed = 1;
        while (((int64_t)1 << (needed - 1)) - 1 < most) needed++;
        TEST_EACH(report.accumulator_bits == needed, "layer %d: %d bits for a sum of %d", i,
                  (int)report.accumulator_bits, (int)most);
        dt_rounded_free(ctx, r);
        free_tiny(&t);
    }
    dt_ctx_free(ctx);
}
END_TEST

enum { GROUPS = 3, GROUP_ROWS = 2, GROUP_COLUMNS = 6 };

/* Rounds GROUPS matrices as one convolution, or one of them as a linear layer. */
static dt_round_report report_of(dt_ctx *ctx, const float *values, bool whole)
{
    const int64_t dims[] = { whole ? GROUPS * GROUP_ROWS : GROUP_ROWS, GROUP_COLUMNS, 1, 1 };
    const dt_quant_spec q = { .scheme = DT_SCHEME_SYMMETRIC,
                              .bits = 4,
                              .granularity = DT_PER_CHANNEL };
    dt_weight_op op = { .kind = DT_WEIGHT_CONV2D, .conv = dt_conv_defaults() };
    op.conv.groups = whole ? GROUPS : 1;
    dt_round_report report;
    dt_rounded *out;
    dt_tensor *w;
    TEST_OK(ctx, dt_tensor_from(ctx, DT_F32, 4, dims, values, &w));
    const dt_round_work work = { .name = "grouped", .weight = w, .op = &op, .quant = &q };
    TEST_OK(ctx, dt_round(ctx, &work, &out, &report));
    dt_rounded_free(ctx, out);
    dt_tensor_free(w);
    return report;
}

/* The bits of a convolution in groups are those of the group that needs the most. */
START_TEST(test_groups)
{
    enum { ALL = GROUPS * GROUP_ROWS * GROUP_COLUMNS, EACH = ALL / GROUPS };
    dt_ctx *ctx = context(1);
    dt__stream s = dt__stream_of(7, DT__FOR_USER);
    int places[GROUPS] = { 0 };
    for (int i = 0; i < 60; i++) {
        float w[ALL];
        int64_t bits = 0, sum = 0;
        int largest = 0;
        for (int g = 0; g < GROUPS; g++) { /* the lower the power, the larger the codes */
            const double power = 12 * dt__random_unit(&s);
            for (int k = 0; k < EACH; k++) {
                w[g * EACH + k] = (float)pow(dt__random_unit(&s), power);
            }
            const dt_round_report one = report_of(ctx, w + g * EACH, false);
            if (one.accumulator_bits > bits) largest = g;
            bits = dt__max_i64(bits, one.accumulator_bits);
            sum = dt__max_i64(sum, one.sum_bits);
        }
        places[largest]++;
        const dt_round_report all = report_of(ctx, w, true);
        TEST_EACH(all.accumulator_bits == bits && all.sum_bits == sum,
                  "layer %d: %lld and %lld bits, its groups need %lld and %lld", i,
                  (long long)all.accumulator_bits, (long long)all.sum_bits, (long long)bits,
                  (long long)sum);
    }
    for (int g = 0; g < GROUPS; g++) ck_assert_int_gt(places[g], 0);
    dt_ctx_free(ctx);
}
END_TEST

/* Where no damping makes a matrix positive definite, nearest is bounded too. */
START_TEST(test_fallback)
{
    dt_ctx *ctx = context(2);
    rounding_layer l;
    rounding_case c;
    int fallbacks = 0;
    if (!rounding_open(ctx, "not_positive", &l)) l.file = NULL;
    for (int i = 0; l.file != NULL && rounding_case_at(&l, i, &c); i++) {
        dt_rounded *got;
        dt_round_report report;
        c.options.rounder = DT_ROUND_A2GPTQ;
        c.options.accumulator.bits = 9;
        c.options.accumulator.input = (dt_ints){ 2, { -8, 7 } };
        TEST_OK(ctx, rounding_run(&c, &got, &report));
        const extremes e = extremes_of(&c, got);
        TEST_EACH(e.high <= 255 && e.low >= -255, "%s: sums of %d and %d", c.name, (int)e.high,
                  (int)e.low);
        TEST_EACH(strcmp(report.method, report.fallback ? "nearest" : "a2gptq") == 0, "%s: by %s",
                  c.name, report.method);
        fallbacks += report.fallback;
        dt_rounded_free(ctx, got);
        rounding_case_free(&c);
    }
    if (l.file != NULL) {
        ck_assert_int_gt(fallbacks, 0);
        rounding_close(&l);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* ---- mistakes and failing allocations ------------------------------------------------------- */

typedef struct mistake {
    int rounder;
    dt_accumulator accumulator;
    const char *text;
} mistake;

START_TEST(test_mistakes)
{
    static const mistake mistakes[] = {
        { DT_ROUND_A2GPTQ, { .bits = 0, .input = { 2, { 0, 1 } } }, "bits" },
        { DT_ROUND_A2GPTQ, { .bits = 1, .input = { 2, { 0, 1 } } }, "bits" },
        { DT_ROUND_A2GPFQ, { .bits = 33, .input = { 2, { 0, 1 } } }, "bits" },
        { DT_ROUND_A2QRONOS, { .bits = 16, .tile = 3, .input = { 2, { 0, 1 } } }, "tile of 3" },
        { DT_ROUND_A2QRONOS, { .bits = 16, .tile = -1, .input = { 2, { 0, 1 } } }, "tile" },
        { DT_ROUND_A2GPTQ, { .bits = 16, .input = { 2, { 1, 2 } } }, "input" },
        { DT_ROUND_A2GPTQ, { .bits = 16, .input = { 2, { 0, 0 } } }, "input" },
        { DT_ROUND_A2GPTQ, { .bits = 16, .input = { 2, { 0, 1 << 20 } } }, "input" },
        { DT_ROUND_A2GPTQ, { .bits = 16, .diffuse = 7, .input = { 2, { 0, 1 } } }, "diffuse" },
        { DT_ROUND_GPTQ, { .bits = 16, .input = { 2, { 0, 1 } } }, "a2gptq" },
    };
    dt_ctx *ctx = context(1);
    dt__stream s = dt__stream_of(3, DT__FOR_USER);
    tiny t = make_tiny(ctx, &s);
    dt_quant_spec q = dt_weight_quant_defaults();
    q.group_size = 2;
    for (int i = 0; i < DT__COUNT_OF(mistakes); i++) {
        dt_rounding_options o = dt_rounding_defaults();
        o.rounder = mistakes[i].rounder;
        o.accumulator = mistakes[i].accumulator;
        dt_rounded *r;
        TEST_FAILS(ctx, DT_ERR_CONFIG, mistakes[i].text, round_tiny(ctx, &t, &q, &o, &r, NULL));
    }
    free_tiny(&t);
    dt_ctx_free(ctx);
}
END_TEST

static dt_status bounded(dt_ctx *ctx, void *user)
{
    const int64_t weight[2] = { 6, TINY }, input[2] = { 20, TINY };
    tiny t = { NULL, NULL, NULL };
    dt_tensor **all[] = { &t.w, &t.x, &t.xq };
    dt_status status = DT_OK;
    for (int k = 0; k < 3 && status == DT_OK; k++) {
        status = dt_tensor_create(ctx, DT_F32, 2, k == 0 ? weight : input, all[k]);
        float *x = status == DT_OK ? dt_data_mut(*all[k]) : NULL;
        for (int64_t i = 0; x != NULL && i < (*all[k])->count; i++) x[i] = (float)(i % 7) - 2;
    }
    dt_quant_spec q = dt_weight_quant_defaults();
    dt_rounding_options o = dt_rounding_defaults();
    o.rounder = *(const int *)user;
    o.accumulator.bits = 10;
    o.accumulator.soft_threshold = true;
    dt_rounded *r = NULL;
    if (status == DT_OK) status = round_tiny(ctx, &t, &q, &o, &r, NULL);
    dt_rounded_free(ctx, r);
    free_tiny(&t);
    return status;
}

START_TEST(test_allocations)
{
    int rounder = _i;
    ck_assert_int_gt(test_every_allocation(bounded, &rounder), 10);
}
END_TEST

Suite *test_rounding_bounds_suite(void)
{
    Suite *s = suite_create("rounding_bounds");
    TCase *t = tcase_create("rounding_bounds");
    tcase_set_timeout(t, 300);
    test_golden_names("rounding", ".safetensors", &files);
    tcase_add_loop_test(t, test_files, 0, files.n);
    tcase_add_test(t, test_thresholds);
    tcase_add_test(t, test_threshold_of_long_groups);
    tcase_add_test(t, test_room);
    tcase_add_test(t, test_every_input);
    tcase_add_test(t, test_groups);
    tcase_add_test(t, test_fallback);
    tcase_add_test(t, test_mistakes);
    tcase_add_loop_test(t, test_allocations, DT_ROUND_A2GPTQ, DT_ROUND_A2QRONOS + 1);
    suite_add_tcase(s, t);
    return s;
}

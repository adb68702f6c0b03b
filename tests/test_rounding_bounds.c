/* GPFQ, Qronos and bounded accumulators: golden/rounding's cases, and the worst of every tile. */
#include "testing.h"

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

static const char *const files[] = {
    "a2_conv",       "a2_s8",          "a2_tconv",        "a2_u8",
    "conv_6x4x3x3",  "conv_depthwise", "conv_grouped",    "conv_strided",
    "dead",          "equal_norm",     "lin_16x96",       "lin_48x128",
    "lin_8x32",      "lin_lowrank",    "tconv_depthmult", "tconv_depthwise",
    "tconv_dilated", "tconv_groups2",  "tconv_nooverlap", "tconv_plain",
    "tconv_stride2",
};

/* Extremes over tiles that are cut every `tile` columns, by adding up. */
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
    run_file(ctx, files[_i]);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_rounding_bounds_suite(void)
{
    Suite *s = suite_create("rounding_bounds");
    TCase *t = tcase_create("rounding_bounds");
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, test_files, 0, DT__COUNT_OF(files));
    suite_add_tcase(s, t);
    return s;
}

/* Rounding of a weight by itself. Reference values: golden/rounding. */
#include "testing.h"

#include "ptq/matrix.h"
#include "rounding_golden.h"

#include <math.h>
#include <stdio.h>

static dt_ctx *context(int threads)
{
    dt_ctx *ctx;
    dt_ctx_options options = dt_ctx_defaults();
    options.threads = threads;
    ck_assert_int_eq(dt_ctx_create(&ctx, &options), DT_OK);
    return ctx;
}

static test_names files; /* golden/rounding */

/* Nearest: the files' codes, and those of a FakeQuantTensor. */
START_TEST(test_nearest)
{
    dt_ctx *ctx = context(2);
    int cases = 0;
    for (int f = 0; f < files.n; f++) {
        rounding_layer l;
        rounding_case c;
        if (!rounding_open(ctx, files.name[f], &l)) continue;
        for (int i = 0; rounding_case_at(&l, i, &c); i++) {
            rounding_tally tally = { 0, 0, 0 };
            dt_rounded *got;
            if (c.options.rounder == DT_ROUND_NEAREST) {
                TEST_OK(ctx, rounding_run(&c, &got, NULL));
                rounding_compare(&c, got, 99, &tally);
                /* the largest element of a block lies on a boundary, and a product with 1/s is not
                 * always the quotient; the files have the product */
                ck_assert_int_eq(tally.wrong, 0);
                dt_rounded_free(ctx, got);
                cases++;
            }
            rounding_case_free(&c);
        }
        rounding_close(&l);
    }
    printf("rounding: nearest: %d cases\n", cases);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- with data ------------------------------------------------------------------------------ */

typedef struct sweep {
    const char *algorithm;
    int cases;
    rounding_tally tally;
} sweep;

static void near_number(const rounding_case *c, const char *key, double got, double relative)
{
    const double want = rounding_number(c, key);
    TEST_EACH(isnan(want) || test_near(got, want, 1e-12, relative), "%s %s: %s is %.17g, not %.17g",
              c->layer->name, c->name, key, got, want);
}

/* Checks the report where the codes equal the file's. */
static void check_report(const rounding_case *c, const dt_round_report *r)
{
    const bool refreshed = c->options.rounding.group_scales == DT_SCALES_REFRESH;
    if (!r->fallback) near_number(c, "loss", r->loss, 1e-6); /* nearest has none */
    near_number(c, "damp", r->damping, 1e-6);
    near_number(c, "fallback", r->fallback, 0);
    near_number(c, "lam_used", r->damping_share, 1e-12);
    near_number(c, "err", r->error, 1e-6);
    if (refreshed) return; /* the files compare with nearest of the refreshed scales */
    near_number(c, "changed", (double)r->changed, 0);
    if (c->options.accumulator.bits > 0) return; /* and without bounds */
    near_number(c, "err_nearest", r->nearest_error, 1e-6);
}

static void run_case(const rounding_case *c, sweep *s)
{
    rounding_tally tally = { 0, 0, 0 };
    dt_round_report report;
    dt_rounded *got;
    TEST_OK(c->layer->ctx, rounding_run(c, &got, &report));
    rounding_compare(c, got, 19, &tally);
    s->cases++;
    s->tally.rows += tally.rows;
    s->tally.ties += tally.ties;
    s->tally.wrong += tally.wrong;
    if (tally.ties + tally.wrong == 0) check_report(c, &report);
    dt_rounded_free(c->layer->ctx, got);
}

/* All cases of an algorithm; at most 1 % of a file's rows may be ties. */
static void run_algorithm(sweep *s)
{
    dt_ctx *ctx = context(2);
    for (int f = 0; f < files.n; f++) {
        const rounding_tally before = s->tally;
        rounding_layer l;
        rounding_case c;
        if (!rounding_open(ctx, files.name[f], &l)) continue;
        for (int i = 0; rounding_case_at(&l, i, &c); i++) {
            if (rounding_is(&c, "alg", s->algorithm)) run_case(&c, s);
            rounding_case_free(&c);
        }
        rounding_close(&l);
        TEST_EACH(100 * (s->tally.ties - before.ties) <= s->tally.rows - before.rows,
                  "%s: too many ties", files.name[f]);
    }
    printf("rounding: %s: %d cases, %lld rows, %lld ties, %lld wrong\n", s->algorithm, s->cases,
           (long long)s->tally.rows, (long long)s->tally.ties, (long long)s->tally.wrong);
    ck_assert_int_eq(s->tally.wrong, 0);
    dt_ctx_free(ctx);
}

START_TEST(test_gptq)
{
    sweep s = { .algorithm = "gptq" }, bounded = { .algorithm = "a2gptq" };
    run_algorithm(&s);
    run_algorithm(&bounded);
}
END_TEST

START_TEST(test_defaults)
{
    const dt_rounding_options o = dt_rounding_defaults();
    ck_assert_int_eq(o.rounder, DT_ROUND_NEAREST);
    ck_assert(o.rounding.keep_better && !o.rounding.keep_zeros);
    ck_assert_int_eq(o.rounding.block, 128);
}
END_TEST

Suite *test_rounding_suite(void)
{
    Suite *s = suite_create("rounding");
    TCase *t = tcase_create("rounding");
    tcase_set_timeout(t, 300);
    tcase_add_test(t, test_defaults);
    test_golden_names("rounding", ".safetensors", &files);
    tcase_add_test(t, test_nearest);
    tcase_add_test(t, test_gptq);
    suite_add_tcase(s, t);
    return s;
}

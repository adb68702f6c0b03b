/* The time that work still takes (core/estimate.h), by a clock of the test: it is near the truth
 * from a tenth of the work on, in whatever order the kinds come, and although one was not timed
 * yet. */
#include "core/estimate.h"
#include "testing.h"

#include <math.h>
#include <stdlib.h>

enum { FLOAT_UPDATES, EVALUATIONS, QAT_UPDATES, KINDS };

typedef struct clock {
    double now, seconds[KINDS]; /* a unit of each kind takes so long */
    unsigned state;
} clock;

/* A factor of 0.9 ... 1.1: machines are not even. */
static double uneven(clock *c)
{
    c->state = c->state * 1664525 + 1013904223;
    return 0.9 + 0.2 * (double)(c->state >> 8) / (1 << 24);
}

static double do_some(clock *c, dt__work_kind *work, int kind, double amount)
{
    const double took = amount * c->seconds[kind] * uneven(c);
    c->now += took;
    dt__work_did(&work[kind], amount, took);
    return took;
}

/* A run of 200 updates in float with 10 evaluations, and 200 of QAT with 10; `ratio` is how much
 * longer an update takes in QAT. Calls `look` behind every update. */
static double run(clock *c, dt__work_kind *work, double ratio, double *left)
{
    int n = 0;
    c->seconds[QAT_UPDATES] = ratio * c->seconds[FLOAT_UPDATES];
    work[FLOAT_UPDATES] = (dt__work_kind){ .weight = 3, .planned = 200 };
    work[QAT_UPDATES] = (dt__work_kind){ .weight = 3, .planned = 200 };
    work[EVALUATIONS] = (dt__work_kind){ .weight = 1, .planned = 20 * 30 };
    for (int phase = 0; phase < 2; phase++) {
        for (int i = 1; i <= 200; i++) {
            do_some(c, work, phase == 0 ? FLOAT_UPDATES : QAT_UPDATES, 1);
            if (i % 20 == 0) do_some(c, work, EVALUATIONS, 30);
            left[n] = c->now;
            left[400 + n++] = dt__work_left(work, KINDS);
        }
    }
    return c->now;
}

START_TEST(a_tenth_is_enough)
{
    static const double ratios[] = { 0.75, 0.9, 1, 1.1, 1.3 };
    dt__work_kind work[KINDS];
    double left[800];
    clock c = { .seconds = { 0.3, 0.1 }, .state = (unsigned)_i + 1 };
    const double whole = run(&c, work, ratios[_i % 5], left);
    int looked = 0;
    for (int i = 0; i < 400; i++) {
        if (left[i] < whole / 10) continue;
        const double off = fabs(left[400 + i] - (whole - left[i]));
        ck_assert_msg(off <= 0.2 * whole, "after %.0f of %.0f: %.0f left", left[i], whole,
                      left[400 + i]);
        looked++;
    }
    ck_assert_int_gt(looked, 300);
    ck_assert_double_eq_tol(left[799], 0, 1e-9);
}
END_TEST

START_TEST(nothing_timed_is_no_time)
{
    dt__work_kind work[] = { { .weight = 1, .planned = 10 }, { .weight = 2, .planned = 10 } };
    ck_assert_double_eq(dt__work_left(work, 2), 0);
    dt__work_did(&work[0], 1, -1); /* the first, whose time is not typical */
    ck_assert_double_eq(dt__work_left(work, 2), 0);
    dt__work_did(&work[0], 2, 4);
    ck_assert_double_eq(dt__work_left(work, 2), 2 * 7 + 4 * 10);
    dt__work_did(&work[1], 4, 4);
    ck_assert_double_eq(dt__work_left(work, 2), 2 * 7 + 1 * 6);
    dt__work_did(&work[1], 9, 9); /* more than was planned */
    ck_assert_double_eq(dt__work_left(work, 2), 2 * 7);
}
END_TEST

Suite *test_estimate_suite(void)
{
    Suite *suite = suite_create("estimate");
    TCase *all = tcase_create("estimate");
    tcase_add_loop_test(all, a_tenth_is_enough, 0, 20);
    tcase_add_test(all, nothing_timed_is_no_time);
    suite_add_tcase(suite, all);
    return suite;
}

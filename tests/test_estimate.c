/* The estimate of the remaining time (core/estimate.h), by a simulated clock: from a tenth of the
 * work on it is near the truth, in whatever order the kinds of work come, and although some have
 * not been timed yet. */
#include "core/estimate.h"
#include "testing.h"

#include <math.h>
#include <stdlib.h>

typedef struct clock {
    double now, rate[DT__WORKS]; /* seconds per unit of each kind */
    unsigned state;
    dt__ledger ledger;
} clock;

static double draw(clock *c)
{
    c->state = c->state * 1664525 + 1013904223;
    return (double)(c->state >> 8) / (1 << 24);
}

/* A random factor of 0.9 ... 1.1, since speeds vary. */
static double uneven(clock *c) { return 0.9 + 0.2 * draw(c); }

static void do_some(clock *c, dt__work_of which, double amount)
{
    c->now += amount * c->rate[which] * uneven(c);
    dt__ledger_did(&c->ledger, which, amount, c->now);
}

typedef struct look {
    double when, left;
} look;

enum { LOOKS = 1000 };

static void check_looks(const look *looks, int n, double whole, int least)
{
    int looked = 0;
    for (int i = 0; i < n; i++) {
        if (looks[i].when < whole / 10) continue;
        const double off = fabs(looks[i].left - (whole - looks[i].when));
        ck_assert_msg(off <= 0.2 * whole, "after %.1f of %.1f: %.1f left", looks[i].when, whole,
                      looks[i].left);
        looked++;
    }
    ck_assert_int_ge(looked, least);
    ck_assert_double_eq_tol(looks[n - 1].left, 0, 1e-9);
}

/* A run of 200 updates in float with 10 evaluations, and 200 of QAT with 10; `ratio` is how much
 * longer an update takes in QAT. */
START_TEST(a_tenth_of_a_run_is_enough)
{
    static const double ratios[] = { 0.75, 0.9, 1, 1.1, 1.3 };
    static look looks[LOOKS];
    clock c = { .state = (unsigned)_i + 1 };
    dt__ledger *e = &c.ledger;
    int n = 0;
    c.rate[DT__TRAIN_FLOAT] = 0.3;
    c.rate[DT__TRAIN_QAT] = 0.3 * ratios[_i % 5];
    c.rate[DT__EVAL_FLOAT] = c.rate[DT__EVAL_QAT] = 0.1;
    dt__ledger_begin(e, c.now);
    dt__ledger_plan(e, DT__TRAIN_FLOAT, 200);
    dt__ledger_plan(e, DT__TRAIN_QAT, 200);
    dt__ledger_plan(e, DT__EVAL_FLOAT, 10 * 30);
    dt__ledger_plan(e, DT__EVAL_QAT, 10 * 30);
    for (int i = 1; i <= 400; i++) {
        const bool qat = i > 200;
        do_some(&c, qat ? DT__TRAIN_QAT : DT__TRAIN_FLOAT, 1);
        if (i % 20 == 0) do_some(&c, qat ? DT__EVAL_QAT : DT__EVAL_FLOAT, 30);
        looks[n++] = (look){ c.now, dt__ledger_left(e) };
    }
    check_looks(looks, n, c.now, 300);
}
END_TEST

/* Layers of random sizes, with four kinds of work each, whose speeds cannot be known from their
 * weights; a trial before measures them and does not count as work. */
START_TEST(a_trial_tells_all_rates)
{
    static const dt__work_of kinds[] = { DT__FORWARD, DT__SUMS, DT__FACTOR, DT__ROUND };
    static look looks[LOOKS];
    clock c = { .state = (unsigned)_i + 1 };
    dt__ledger *e = &c.ledger;
    double amount[20][4];
    int n = 0;
    for (int k = 0; k < 4; k++) c.rate[kinds[k]] = exp(6 * draw(&c) - 3);
    dt__ledger_begin(e, c.now);
    for (int i = 0; i < 20; i++) {
        const double size = exp(3 * draw(&c)); /* the largest is twenty times the smallest */
        for (int k = 0; k < 4; k++) {
            amount[i][k] = size * (1 + (double)k);
            dt__ledger_plan(e, kinds[k], amount[i][k]);
        }
    }
    e->trying = true;
    for (int k = 0; k < 4; k++) do_some(&c, kinds[k], 0.1);
    e->trying = false;
    ck_assert(!dt__ledger_guesses(e));
    const double began = c.now;
    for (int i = 0; i < 20; i++) {
        for (int k = 0; k < 4; k++) {
            do_some(&c, kinds[k], amount[i][k]);
            looks[n++] = (look){ c.now - began, dt__ledger_left(e) };
        }
    }
    check_looks(looks, n, c.now - began, 50);
}
END_TEST

static dt__ledger two_kinds(void)
{
    dt__ledger e;
    dt__ledger_begin(&e, 100);
    dt__ledger_plan(&e, DT__EVAL_FLOAT, 10);
    dt__ledger_plan(&e, DT__TRAIN_FLOAT, 10); /* of three times the weight */
    return e;
}

START_TEST(nothing_timed_is_no_time)
{
    dt__ledger e = two_kinds();
    ck_assert_double_lt(dt__ledger_left(&e), 0);
    dt__ledger_did(&e, DT__EVAL_FLOAT, 1, 107);
    ck_assert_double_eq(dt__ledger_left(&e), 9 * 7 + 3 * 10 * 7);
    /* the first piece, which is slow, no longer counts */
    dt__ledger_did(&e, DT__EVAL_FLOAT, 2, 111);
    ck_assert(dt__ledger_guesses(&e));
    ck_assert_double_eq(dt__ledger_left(&e), 2 * 7 + 6 * 10);
    dt__ledger_pass(&e, 200); /* of no work */
    dt__ledger_did(&e, DT__TRAIN_FLOAT, 4, 204);
    ck_assert(!dt__ledger_guesses(&e));
    ck_assert_double_eq(dt__ledger_left(&e), 2 * 7 + 1 * 6);
    dt__ledger_did(&e, DT__TRAIN_FLOAT, 9, 213); /* more than was planned */
    ck_assert_double_eq(dt__ledger_left(&e), 2 * 7);
}
END_TEST

/* A first piece that is small gives no estimate. */
START_TEST(a_small_first_piece_is_not_timed)
{
    dt__ledger e;
    dt__ledger_begin(&e, 100);
    dt__ledger_plan(&e, DT__TRAIN_FLOAT, 300);
    dt__ledger_did(&e, DT__TRAIN_FLOAT, 1, 150);
    ck_assert_double_lt(dt__ledger_left(&e), 0);
    dt__ledger_did(&e, DT__TRAIN_FLOAT, 1, 152);
    ck_assert_double_eq(dt__ledger_left(&e), 298 * 2);
    dt__ledger_did(&e, DT__TRAIN_FLOAT, 1, 156); /* nor is the second left out */
    ck_assert_double_eq(dt__ledger_left(&e), 297 * 3);
}
END_TEST

/* A kind that was not timed is estimated from the most similar kind, not from all. */
START_TEST(like_kinds_tell_each_other)
{
    dt__ledger e = two_kinds();
    dt__ledger_plan(&e, DT__EVAL_CONVERTED, 5);
    dt__ledger_did(&e, DT__TRAIN_FLOAT, 10, 110);
    dt__ledger_did(&e, DT__EVAL_FLOAT, 10, 190);
    ck_assert_double_eq(dt__ledger_left(&e), 5 * 8);
    dt__ledger_plan(&e, DT__EVAL_QAT, 1);
    dt__ledger_did(&e, DT__EVAL_QAT, 1, 193);
    ck_assert_double_eq(dt__ledger_left(&e), 5 * 3);
}
END_TEST

START_TEST(expected_work_is_planned_later)
{
    dt__ledger e = two_kinds();
    e.kind[DT__EVAL_FLOAT].expected = 20;
    dt__ledger_did(&e, DT__EVAL_FLOAT, 10, 110);
    dt__ledger_did(&e, DT__TRAIN_FLOAT, 10, 120);
    ck_assert_double_eq(dt__ledger_left(&e), 20);
    dt__ledger_plan(&e, DT__EVAL_FLOAT, 12); /* of the 20 */
    ck_assert_double_eq(dt__ledger_left(&e), 20);
    dt__ledger_plan(&e, DT__EVAL_FLOAT, 12); /* 4 more than those */
    ck_assert_double_eq(dt__ledger_left(&e), 24);
    ck_assert_double_eq(dt__ledger_units(&e), 10 + 24 + 3 * 10);
    dt__ledger_cut(&e, DT__EVAL_FLOAT);
    ck_assert_double_eq(dt__ledger_left(&e), 0);
}
END_TEST

/* Parts of a piece count as soon as they are large, and are subtracted at its end, whether they
 * were more or less than the piece. */
START_TEST(parts_belong_to_the_piece_that_ends)
{
    const double large = DT__LEDGER_PART; /* EVAL_FLOAT has weight 1 */
    dt__ledger e;
    dt__ledger_begin(&e, 100);
    dt__ledger_plan(&e, DT__EVAL_FLOAT, 8 * large);
    ck_assert(!dt__ledger_part(&e, DT__EVAL_FLOAT, 0.5 * large));
    ck_assert_double_lt(dt__ledger_left(&e), 0);
    ck_assert(dt__ledger_part(&e, DT__EVAL_FLOAT, 0.5 * large));
    dt__ledger_did_part(&e, DT__EVAL_FLOAT, 102);
    ck_assert_double_eq(dt__ledger_left(&e), 7 * 2);
    ck_assert(!dt__ledger_part(&e, DT__EVAL_FLOAT, 0.5 * large)); /* anew from there */
    dt__ledger_did(&e, DT__EVAL_FLOAT, 4 * large, 108);           /* the whole piece */
    ck_assert_double_eq(e.kind[DT__EVAL_FLOAT].done, 4 * large);
    ck_assert_double_eq(dt__ledger_left(&e), 4 * 2);
    ck_assert(dt__ledger_part(&e, DT__EVAL_FLOAT, 3 * large));
    dt__ledger_did_part(&e, DT__EVAL_FLOAT, 114);
    dt__ledger_did(&e, DT__EVAL_FLOAT, 2 * large, 115); /* it was smaller than its parts */
    ck_assert_double_eq(e.kind[DT__EVAL_FLOAT].done, 6 * large);
}
END_TEST

Suite *test_estimate_suite(void)
{
    Suite *suite = suite_create("estimate");
    TCase *all = tcase_create("estimate");
    tcase_add_loop_test(all, a_tenth_of_a_run_is_enough, 0, 20);
    tcase_add_loop_test(all, a_trial_tells_all_rates, 0, 20);
    tcase_add_test(all, nothing_timed_is_no_time);
    tcase_add_test(all, a_small_first_piece_is_not_timed);
    tcase_add_test(all, like_kinds_tell_each_other);
    tcase_add_test(all, expected_work_is_planned_later);
    tcase_add_test(all, parts_belong_to_the_piece_that_ends);
    suite_add_tcase(suite, all);
    return suite;
}

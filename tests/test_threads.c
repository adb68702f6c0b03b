/* Parallel loops (core/threads.h): every item runs once, on any number of threads; nested loops,
 * loops from several threads at once, after fork, without helper threads; waiting ends. */
#include "failing_calls.h"
#include "testing.h"

#include "core/clock.h"
#include "core/threads.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const int thread_counts[] = { 1, 2, 3, 16 };

static dt_ctx *ctx_of(int threads)
{
    dt_ctx_options o = dt_ctx_defaults();
    o.threads = threads;
    dt_ctx *ctx;
    ck_assert_int_eq(dt_ctx_create(&ctx, &o), DT_OK);
    return ctx;
}

/* ---- every item once ------------------------------------------------------------------------- */

#define MOST_ITEMS 100003

typedef struct counts {
    int64_t n;
    int threads;
    atomic_int *runs;                    /* of each item */
    atomic_int inside[DT__MOST_THREADS]; /* shares that run on a thread now */
    atomic_int bad;                      /* shares outside the loop, or two at once on one thread */
} counts;

static void count_share(const void *args, const dt__share *s)
{
    counts *c = *(counts *const *)args;
    if (s->first < 0 || s->first >= s->past || s->past > c->n || s->thread < 0 ||
        s->thread >= c->threads) {
        atomic_fetch_add(&c->bad, 1);
        return;
    }
    if (atomic_fetch_add(&c->inside[s->thread], 1) != 0) atomic_fetch_add(&c->bad, 1);
    for (int64_t i = s->first; i < s->past; i++) atomic_fetch_add(&c->runs[i], 1);
    atomic_fetch_sub(&c->inside[s->thread], 1);
}

/* How many items did not run once, and how many shares were wrong. */
static int64_t wrong_in_loop(counts *c, int64_t n, int64_t work)
{
    c->n = n;
    c->threads = dt__threads();
    for (int64_t i = 0; i < n; i++) atomic_store(&c->runs[i], 0);
    dt__parallel(n, work, count_share, &c);
    int64_t wrong = atomic_load(&c->bad);
    for (int64_t i = 0; i < n; i++) wrong += atomic_load(&c->runs[i]) != 1;
    return wrong;
}

static counts *counts_new(void)
{
    counts *c = calloc(1, sizeof *c);
    c->runs = calloc(MOST_ITEMS, sizeof *c->runs);
    return c;
}

static void counts_free(counts *c)
{
    free(c->runs);
    free(c);
}

START_TEST(every_item_runs_once)
{
    static const int64_t sizes[] = { 0, 1, 2, 3, 7, 64, 1000, MOST_ITEMS };
    static const int64_t works[] = { 0, 1, 100, DT__WORTH_A_THREAD, INT64_MAX };
    counts *c = counts_new();
    dt_ctx *ctx = ctx_of(thread_counts[_i]);
    dt__team *const before = dt__threads_enter(ctx);
    ck_assert_int_eq(dt__threads(), thread_counts[_i]);
    for (int s = 0; s < DT__COUNT_OF(sizes); s++) {
        for (int w = 0; w < DT__COUNT_OF(works); w++) {
            ck_assert_msg(wrong_in_loop(c, sizes[s], works[w]) == 0, "%d threads, n %d, work %d",
                          thread_counts[_i], s, w);
        }
    }
    dt__threads_leave(before);
    ck_assert_int_eq(dt__threads(), 1);
    dt_ctx_free(ctx);
    counts_free(c);
}
END_TEST

/* Contexts of several sizes in turn, one inside of the other, with loops of random sizes. */
START_TEST(random_loops_on_changing_teams)
{
    const test_draws draws = { .usual = 3000, .sanitized = 300 };
    counts *c = counts_new();
    dt_ctx *contexts[DT__COUNT_OF(thread_counts)];
    for (int i = 0; i < DT__COUNT_OF(contexts); i++) contexts[i] = ctx_of(thread_counts[i]);
    dt__stream random = dt__stream_of(7, DT__FOR_USER);
    for (int64_t i = 0; i < test_count(draws); i++) {
        const uint64_t outer = dt__random_below(&random, DT__COUNT_OF(contexts));
        const uint64_t inner = dt__random_below(&random, DT__COUNT_OF(contexts));
        const int64_t n = (int64_t)dt__random_below(&random, 1000);
        const int64_t work = (int64_t)dt__random_below(&random, DT__WORTH_A_THREAD);
        dt__team *const before = dt__threads_enter(contexts[outer]);
        ck_assert_int_eq(wrong_in_loop(c, n, work), 0);
        dt__team *const between = dt__threads_enter(contexts[inner]);
        ck_assert_int_eq(wrong_in_loop(c, n, 4 * work), 0);
        dt__threads_leave(between);
        ck_assert_int_eq(dt__threads(), thread_counts[outer]);
        dt__threads_leave(before);
    }
    for (int i = 0; i < DT__COUNT_OF(contexts); i++) dt_ctx_free(contexts[i]);
    counts_free(c);
}
END_TEST

/* ---- helpers --------------------------------------------------------------------------------- */

#define TEAM 3

typedef struct gathering {
    atomic_int arrived, alone, blocked;
} gathering;

/* Waits until every thread has an item, as long as a busy machine may take. */
static void gather(const void *args, const dt__share *s)
{
    gathering *g = *(gathering *const *)args;
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    if (s->thread > 0 && sigismember(&blocked, SIGTERM)) atomic_fetch_add(&g->blocked, 1);
    atomic_fetch_add(&g->arrived, 1);
    const double end = dt__seconds() + 60;
    while (atomic_load(&g->arrived) < TEAM && dt__seconds() < end) {
    }
    if (atomic_load(&g->arrived) < TEAM) atomic_fetch_add(&g->alone, 1);
}

static void expect_all_threads(dt_ctx *ctx)
{
    gathering g = { 0 }, *to = &g;
    dt__team *const before = dt__threads_enter(ctx);
    dt__parallel(TEAM, DT__WORTH_A_THREAD, gather, &to);
    dt__threads_leave(before);
    ck_assert_int_eq(g.alone, 0);
    ck_assert_int_eq(g.blocked, TEAM - 1);
}

/* Also after they slept. */
START_TEST(all_threads_take_part_and_block_signals)
{
    dt_ctx *ctx = ctx_of(TEAM);
    for (int i = 0; i < 5; i++) {
        expect_all_threads(ctx);
        nanosleep(&(struct timespec){ 0, i * 5000000 }, NULL);
    }
    static const dt__waiting ways[] = { DT__WAIT_ACTIVE, DT__WAIT_PASSIVE, DT__WAIT_BY_EVIDENCE };
    for (int i = 0; i < DT__COUNT_OF(ways); i++) {
        dt__team *const before = dt__threads_enter(ctx);
        dt__team *const team = dt__team_enter(before);
        dt__team_wait(team, ways[i]);
        expect_all_threads(ctx);
    }
    dt_ctx_free(ctx);
}
END_TEST

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

START_TEST(helpers_sleep_while_the_program_waits)
{
    dt_ctx *ctx = ctx_of(TEAM);
    expect_all_threads(ctx);
    nanosleep(&(struct timespec){ 0, 20000000 }, NULL);
    const double before = cpu_seconds();
    nanosleep(&(struct timespec){ 0, 300000000 }, NULL);
    ck_assert_double_lt(cpu_seconds() - before, 0.03);
    dt_ctx_free(ctx);
}
END_TEST

/* Every start of a thread fails. */
START_TEST(loops_run_without_helpers)
{
    failing_call fails = { .i = FAILING_FIND, .kinds = FAILING_SYSTEM, .lasts = true };
    counts *c = counts_new();
    int64_t wrong = 0;
    for (; fails.i < 1; fails.i++) { /* a pass that finds the call, and one where it fails */
        dt_ctx *ctx = ctx_of(16);
        dt__team *const before = dt__threads_enter(ctx);
        failing_begin(fails);
        wrong += wrong_in_loop(c, 1000, DT__WORTH_A_THREAD);
        const bool failed = failing_end();
        wrong += wrong_in_loop(c, MOST_ITEMS, 100);
        dt__threads_leave(before);
        dt_ctx_free(ctx);
        ck_assert_int_eq(failing_found(), 1);
        ck_assert_int_eq(failed, fails.i == 0);
        fails.error = EAGAIN;
    }
    ck_assert_int_eq(wrong, 0);
    counts_free(c);
}
END_TEST

/* ---- loops at once --------------------------------------------------------------------------- */

typedef struct nested {
    atomic_int bad;
    atomic_int inner_items;
} nested;

static void inner(const void *args, const dt__share *s)
{
    nested *x = *(nested *const *)args;
    if (s->thread != 0) atomic_fetch_add(&x->bad, 1);
    atomic_fetch_add(&x->inner_items, (int)(s->past - s->first));
}

static void outer(const void *args, const dt__share *s)
{
    nested *x = *(nested *const *)args;
    if (dt__threads() != 1) atomic_fetch_add(&x->bad, 1);
    for (int64_t i = s->first; i < s->past; i++) {
        dt__parallel(100, DT__WORTH_A_THREAD, inner, args);
    }
}

START_TEST(loops_inside_of_loops_run_alone)
{
    nested x = { 0 }, *to = &x;
    dt_ctx *ctx = ctx_of(thread_counts[_i]);
    dt__team *const before = dt__threads_enter(ctx);
    if (thread_counts[_i] > 1) {
        dt__parallel(50, DT__WORTH_A_THREAD, outer, &to);
        ck_assert_int_eq(x.bad, 0);
        ck_assert_int_eq(x.inner_items, 50 * 100);
    }
    ck_assert_int_eq(dt__threads(), thread_counts[_i]);
    dt__threads_leave(before);
    dt_ctx_free(ctx);
}
END_TEST

typedef struct user_thread {
    dt_ctx *ctx;
    int64_t wrong;
} user_thread;

static void *use_library(void *argument)
{
    user_thread *u = argument;
    const test_draws draws = { .usual = 300, .sanitized = 50 };
    counts *c = counts_new();
    dt__team *const before = dt__threads_enter(u->ctx);
    for (int64_t i = 0; i < test_count(draws); i++) {
        u->wrong += wrong_in_loop(c, 3000, DT__WORTH_A_THREAD / 16);
    }
    dt__threads_leave(before);
    counts_free(c);
    return NULL;
}

/* Each with a context of its own, then all with one: while its team is busy, the others' loops run
 * alone. */
START_TEST(several_threads_at_once)
{
    for (int shared = 0; shared < 2; shared++) {
        user_thread users[4] = { { 0 } };
        pthread_t threads[4];
        for (int i = 0; i < 4; i++) {
            users[i].ctx = shared && i > 0 ? users[0].ctx : ctx_of(TEAM);
            ck_assert_int_eq(pthread_create(&threads[i], NULL, use_library, &users[i]), 0);
        }
        for (int i = 0; i < 4; i++) {
            pthread_join(threads[i], NULL);
            ck_assert_int_eq(users[i].wrong, 0);
        }
        for (int i = 0; i < (shared ? 1 : 4); i++) dt_ctx_free(users[i].ctx);
    }
}
END_TEST

/* ---- processes ------------------------------------------------------------------------------- */

static dt_ctx *volatile left_open; /* at exit */

static void use_in_child(dt_ctx *ctx)
{
    alarm(60);
    counts *c = counts_new();
    dt__team *const before = dt__threads_enter(ctx);
    for (int i = 0; i < 100; i++) {
        if (wrong_in_loop(c, 1000, DT__WORTH_A_THREAD) != 0) test_leave(1);
    }
    dt__threads_leave(before);
    counts_free(c);
}

/* The child uses and frees what it inherited, and frees it without use; the parent goes on. */
START_TEST(children_have_threads_of_their_own)
{
#ifdef TEST_TSAN
    test_skip("threads in a child: a sanitizer of threads refuses them");
    return;
#endif
    dt_ctx *ctx = ctx_of(TEAM);
    expect_all_threads(ctx);
    if (TEST_EMULATED)
        test_skip("threads in a child: qemu-user 7.2 ends in an assertion of its own");
    for (int uses = 0; uses < 2 - TEST_EMULATED; uses++) {
        const pid_t child = fork();
        if (child == 0) {
            if (uses) use_in_child(ctx);
            dt_ctx_free(ctx);
            test_leave(0);
        }
        int status = -1;
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_int_eq(status, 0);
        expect_all_threads(ctx);
    }
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(programs_end_while_helpers_wait)
{
    static const long pauses[] = { 0, 20000000 }; /* they spin, they sleep */
    const pid_t child = fork();
    if (child == 0) {
        left_open = ctx_of(TEAM);
        use_in_child(left_open);
        nanosleep(&(struct timespec){ 0, pauses[_i] }, NULL);
        exit(0);
    }
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
END_TEST

/* ---- evidence -------------------------------------------------------------------------------- */

#define MS ((int64_t)1000000)

START_TEST(disturbances_in_a_row_make_threads_sleep)
{
    dt__evidence e;
    dt__evidence_init(&e, DT__WAIT_BY_EVIDENCE);
    int64_t now = 1000000 * MS;
    dt__note_disturbance(&e, now);
    dt__note_disturbance(&e, now + 100 * MS); /* one now and then is none */
    ck_assert(!dt__is_contended(&e, now + 100 * MS));
    dt__note_disturbance(&e, now + 104 * MS);
    ck_assert(dt__is_contended(&e, now + 105 * MS));
    ck_assert(!dt__is_contended(&e, now + 150 * MS)); /* not for long at first */
    int64_t longest = 0;
    for (now += 104 * MS; longest < 300 * MS;) { /* again and again right after */
        int64_t calm = 0;
        while (dt__is_contended(&e, now + calm)) calm += MS;
        ck_assert_int_gt(calm, longest);
        longest = calm;
        now += calm;
        dt__note_disturbance(&e, now);
        dt__note_disturbance(&e, now);
    }
    ck_assert(dt__is_contended(&e, now + 300 * MS));
    ck_assert(!dt__is_contended(&e, now + 1000 * MS)); /* it is tried again */
    e.waiting = DT__WAIT_ACTIVE;
    ck_assert(!dt__is_contended(&e, now));
    e.waiting = DT__WAIT_PASSIVE;
    ck_assert(dt__is_contended(&e, now + 1000 * MS));
}
END_TEST

Suite *test_threads_suite(void)
{
    Suite *s = suite_create("threads");
    TCase *loops = tcase_create("loops");
    const int counts_of_threads = DT__COUNT_OF(thread_counts);
    tcase_set_timeout(loops, 120);
    tcase_add_loop_test(loops, every_item_runs_once, 0, counts_of_threads);
    tcase_add_loop_test(loops, loops_inside_of_loops_run_alone, 0, counts_of_threads);
    tcase_add_test(loops, random_loops_on_changing_teams);
    tcase_add_test(loops, all_threads_take_part_and_block_signals);
    tcase_add_test(loops, helpers_sleep_while_the_program_waits);
    tcase_add_test(loops, loops_run_without_helpers);
    tcase_add_test(loops, several_threads_at_once);
    tcase_add_test(loops, children_have_threads_of_their_own);
    tcase_add_loop_test(loops, programs_end_while_helpers_wait, 0, 2);
    tcase_add_test(loops, disturbances_in_a_row_make_threads_sleep);
    suite_add_tcase(s, loops);
    return s;
}

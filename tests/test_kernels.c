/* Every kernel of every set that runs here against plain C: the same bits on the same operands, on
 * several numbers of threads, with nothing written or read outside. The kernels are those of
 * kernels.inc; one without a case fails. With DETENT_TESTS=all it also times each, and prints rows:
 *     kernel, set, ns of plain C, ns of the set, how many times as fast. */
#include "kernels_run.h"
#include "taken_sets.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const names[] = {
#define DT__KERNEL(name, arguments) #name,
#define DT__KERNEL_F32(name, result, arguments) #name,
#include "kernels/kernels.inc"
#undef DT__KERNEL
#undef DT__KERNEL_F32
};

static const char *kernel_name(int i) { return names[i]; }

static const kernel_case *find(const kernel_case *list, const char *name)
{
    while (list->name != NULL && strcmp(list->name, name) != 0) list++;
    return list->name == NULL ? NULL : list;
}

static const kernel_case *case_of(const char *name)
{
    const kernel_case *k = find(kernel_cases_float, name);
    if (k == NULL) k = find(kernel_cases_integer, name);
    if (k == NULL) k = find(kernel_cases_gradients, name);
    return k != NULL ? k : find(kernel_cases_bf16, name);
}

/* The running kernel, for the message of a crash by an access outside its operands. */
static char doing[160];

static void say_and_die(int number)
{
    if (write(STDERR_FILENO, doing, strlen(doing)) < 0) _exit(2);
    signal(number, SIG_DFL);
    raise(number);
}

typedef struct pair {
    kernel_run plain, other;
    dt_ctx *ctx[3]; /* with 1, 2 and 3 threads */
} pair;

/* One of so many rounds is run, the first of which differs from kernel to kernel, and one of so
 * many numbers of threads, which differs from set to set and round to round. Of each kind of values
 * a sanitizer gets a round or two; an emulator, the only place where its sets run, two or three. */
#ifdef DETENT_EMULATE
static const test_draws steps = { .usual = 1, .sanitized = 6 };
#else
static const test_draws steps = { .usual = 1, .quick = 2, .sanitized = 12 };
#endif
static const test_draws thread_steps = { .usual = 1, .quick = 2, .sanitized = 3 };

static const int thread_counts[] = { 1, 2, 3 };

/* Runs the case on thread_counts[t] threads. */
static void run_on(const pair *p, int t, const kernel_case *k, kernel_run *r)
{
    dt__team *const before = dt__threads_enter(p->ctx[t]);
    k->run(r);
    dt__threads_leave(before);
}

static void compare(pair *p, const kernel_case *k, int index, int round)
{
    const dt__kernel_set *set = dt__kernel_set_at(index);
    const int step = (int)test_count(thread_steps);
    for (int t = (index + round / 3) % step; t < DT__COUNT_OF(thread_counts); t += step) {
        snprintf(doing, sizeof doing,
                 "kernel %s, set %s, round %d, %d threads touched what is "
                 "none of its operands\n",
                 k->name, set->name, round, thread_counts[t]);
        kernel_begin(&p->other, set->f32, round, 0xc3);
        run_on(p, t, k, &p->other);
        char message[200];
        TEST_EACH(kernel_same(&p->plain, &p->other, k->within, message),
                  "kernel %s, set %s, round %d, %d threads: %s", k->name, set->name, round,
                  thread_counts[t], message);
    }
}

/* With every repetition. Emulated and sanitized kernels have no time worth a line. */
static void show_time(pair *p, const kernel_case *k)
{
    if (!test_all()) return;
#if !defined DETENT_EMULATE && !defined TEST_SANITIZED
    kernel_begin(&p->plain, &dt__kernels_ref_f32, KERNELS_TIMED, 0x3c);
    k->run(&p->plain);
    const dt__kernel_set *set;
    for (int i = 1; (set = dt__kernel_set_at(i)) != NULL; i++) {
        if (!dt__kernel_set_runs(set)) continue;
        kernel_begin(&p->other, set->f32, KERNELS_TIMED, 0x3c);
        k->run(&p->other);
        printf("%-24s %-12s %9.0f %9.0f %7.2f\n", k->name, set->name, p->plain.ns, p->other.ns,
               p->plain.ns / p->other.ns);
    }
#else
    (void)p;
    (void)k;
#endif
}

START_TEST(every_set_equals_plain_c)
{
    const kernel_case *k = case_of(names[_i]);
    ck_assert_msg(k != NULL, "kernel %s of kernels.inc has no case in tests/kernels_*.c",
                  names[_i]);
    pair p;
    kernel_open(&p.plain);
    kernel_open(&p.other);
    for (int t = 0; t < DT__COUNT_OF(p.ctx); t++) {
        dt_ctx_options o = dt_ctx_defaults();
        o.threads = thread_counts[t];
        ck_assert_int_eq(dt_ctx_create(&p.ctx[t], &o), DT_OK);
    }
    void (*const before)(int) = signal(SIGSEGV, say_and_die);
    const int step = (int)test_count(steps);
    for (int round = _i % step; round < KERNELS_ROUNDS; round += step) {
        kernel_begin(&p.plain, &dt__kernels_ref_f32, round, 0x3c);
        k->run(&p.plain);
        const dt__kernel_set *set;
        for (int i = 0; (set = dt__kernel_set_at(i)) != NULL; i++) {
            if (test_takes_set(set)) compare(&p, k, i, round);
        }
    }
    signal(SIGSEGV, before);
    show_time(&p, k);
    kernel_close(&p.plain);
    kernel_close(&p.other);
    for (int t = 0; t < DT__COUNT_OF(p.ctx); t++) dt_ctx_free(p.ctx[t]);
}
END_TEST

START_TEST(every_case_has_a_kernel)
{
    const kernel_case *const lists[] = { kernel_cases_float, kernel_cases_integer,
                                         kernel_cases_gradients, kernel_cases_bf16 };
    for (int l = 0; l < DT__COUNT_OF(lists); l++) {
        for (const kernel_case *k = lists[l]; k->name != NULL; k++) {
            int found = 0;
            for (int i = 0; i < DT__COUNT_OF(names); i++) found += strcmp(names[i], k->name) == 0;
            TEST_EACH(found == 1 && case_of(k->name) == k, "%s", k->name);
        }
    }
}
END_TEST

/* ---- the comparison finds differences -------------------------------------------------------- */

static void neg_but_the_last(int64_t n, const void *x, void *y)
{
    dt__kernels_ref_f32.neg(n > 0 ? n - 1 : 0, x, y);
}

static void neg_and_before(int64_t n, const void *x, void *y)
{
    dt__kernels_ref_f32.neg(n, x, y);
    ((float *)y)[-1] = 0;
}

static void neg_of_zero_is_zero(int64_t n, const void *x, void *y)
{
    for (int64_t i = 0; i < n; i++) {
        const float v = ((const float *)x)[i];
        ((float *)y)[i] = v == 0 ? 0 : -v;
    }
}

static void neg_and_behind(int64_t n, const void *x, void *y)
{
    dt__kernels_ref_f32.neg(n, x, y);
    ((volatile float *)y)[n] = 0;
}

static void neg_by_eights(int64_t n, const void *x, void *y)
{
    const volatile float *in = x;
    float sum = 0;
    for (int64_t i = 0; i < dt__round_up(n, 8); i++) sum += in[i];
    dt__kernels_ref_f32.neg(n, x, y);
    (void)sum;
}

/* Whether a round detects `bad`. */
static bool is_noticed(void (*bad)(int64_t, const void *, void *))
{
    const kernel_case *k = case_of("neg");
    dt__kernels table = dt__kernels_ref_f32;
    table.neg = bad;
    pair p;
    char message[200];
    bool same = true;
    kernel_open(&p.plain);
    kernel_open(&p.other);
    for (int t = 0; t < DT__COUNT_OF(p.ctx); t++) {
        dt_ctx_options o = dt_ctx_defaults();
        o.threads = thread_counts[t];
        ck_assert_int_eq(dt_ctx_create(&p.ctx[t], &o), DT_OK);
    }
    for (int round = 0; round < KERNELS_ROUNDS && same; round++) {
        kernel_begin(&p.plain, &dt__kernels_ref_f32, round, 0x3c);
        k->run(&p.plain);
        kernel_begin(&p.other, &table, round, 0xc3);
        k->run(&p.other);
        same = kernel_same(&p.plain, &p.other, 0, message);
    }
    for (int t = 0; t < DT__COUNT_OF(p.ctx); t++) dt_ctx_free(p.ctx[t]);
    kernel_close(&p.plain);
    kernel_close(&p.other);
    return !same;
}

START_TEST(wrong_kernels_are_noticed)
{
    ck_assert(!is_noticed(dt__kernels_ref_f32.neg));
    ck_assert(is_noticed(neg_but_the_last));
    ck_assert(is_noticed(neg_and_before));
    ck_assert(is_noticed(neg_of_zero_is_zero));
}
END_TEST

START_TEST(reaching_behind_an_operand_is_fatal)
{
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); /* a sanitizer's own handler would exit */
        is_noticed(_i == 0 ? neg_and_behind : neg_by_eights);
        test_leave(0);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}
END_TEST

Suite *test_kernels_suite(void)
{
    Suite *s = suite_create("kernels");
    TCase *c = tcase_create("equivalence");
    tcase_add_named_test(c, every_set_equals_plain_c, DT__COUNT_OF(names), kernel_name);
    tcase_add_test(c, every_case_has_a_kernel);
    tcase_add_test(c, wrong_kernels_are_noticed);
    tcase_add_loop_test(c, reaching_behind_an_operand_is_fatal, 0, 2);
    suite_add_tcase(s, c);
    return s;
}

/* Every public function with one bad argument: each pointer NULL, each number at its extremes, each
 * tensor of another dtype, rank or context, or without elements. Functions and arguments are read
 * from the headers (misuse.awk). No call may end the process or take long, and an error of a call
 * that has a context leaves a message there. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "testing.h"

#include "misuse.h"

#include "core/core.h"

#include <math.h>
#include <stdio.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "misuse_calls.inc"

/* Arguments that say how much memory of the caller's another argument has. */
static const char *const lengths[] = {
#include "misuse_lengths.inc"
};

/* ---- what is tried of an argument ------------------------------------------------------------ */

static const int64_t integers[] = { INT64_MIN, -1,        0,        (int64_t)1 << 40,
                                    INT64_MAX, INT32_MIN, INT32_MAX };
static const double reals[] = { NAN, INFINITY, -INFINITY, -1, 0, 1e308 };

/* Bad value i of argument `at`; false where there are no more. */
static bool choose(const misuse_call *c, int at, int i, misuse *m)
{
    const char kind = c->kinds[at];
    *m = (misuse){ .bad = at };
    if (kind == 'p' || kind == 't') {
        m->wrong = i == 0 ? MISUSE_NULL : (misuse_wrong)(MISUSE_DTYPE + i - 1);
        return i == 0 || (kind == 't' && m->wrong <= MISUSE_CONTEXT);
    }
    m->wrong = MISUSE_INTEGER;
    if (kind == 'i' && i < DT__COUNT_OF(integers)) m->integer = integers[i];
    else if (kind == 'd' && i < DT__COUNT_OF(reals)) m->real = reals[i];
    else return false;
    return true;
}

static const char *name_at(const misuse_call *c, int at, char name[64])
{
    const char *from = c->names;
    for (int i = 0; i < at; i++) from = strchr(from, ',') + 1;
    snprintf(name, 64, "%.*s", (int)strcspn(from, ","), from);
    return name;
}

static bool is_length(const misuse_call *c, int at)
{
    char name[64], whole[160];
    snprintf(whole, sizeof whole, "%s.%s", c->name, name_at(c, at, name));
    for (int i = 0; i < DT__COUNT_OF(lengths); i++) {
        if (strcmp(lengths[i], whole) == 0) return true;
    }
    return false;
}

/* ---- calls in a process of their own --------------------------------------------------------- */

typedef struct tally {
    int64_t next; /* the call to try */
    int64_t good, calls, nulls, refused, other, taken, silent, unmade;
    char text[128]; /* of the running call */
} tally;

static void judge(const misuse_call *c, const misuse *m, tally *t)
{
    t->calls++;
    t->nulls += m->wrong == MISUSE_NULL;
    dt_ctx *ctx = m->ctx;
    const dt_status told = ctx == NULL ? DT_OK : dt_error_status(ctx);
    const dt_status status = c->result == 's' ? m->status : told;
    if (status == DT_OK) t->taken++;
    else if (status == DT_ERR_ARG) t->refused++;
    else t->other++;
    const bool said = ctx != NULL && dt_error(ctx)[0] != '\0';
    const bool elsewhere = m->other != NULL && dt_error(m->other)[0] != '\0';
    const bool mute = c->result == 's' && status != DT_OK && ctx != NULL && !said && !elsewhere &&
                      m->wrong != MISUSE_NULL;
    t->silent += mute;
    if (mute) printf("misuse: %s: no message\n", t->text);
}

/* False where an argument cannot be made. */
static bool call_with(const misuse_call *c, misuse *m)
{
    if (setjmp(m->back) != 0) return false;
    c->call(m);
    return true;
}

/* Functions that free what other functions made, which is not made here. */
static bool frees(const misuse_call *c)
{
    return strcmp(c->name, "dt_text_free") == 0 || strcmp(c->name, "dt_rounded_free") == 0;
}

/* First with good arguments alone. */
static void run_calls(const misuse_call *c, tally *t)
{
    int64_t n = 1;
    if (t->next == 0 && frees(c)) t->next = 1;
    if (t->next == 0) {
        misuse m = { .bad = -1 };
        t->next = 1;
        snprintf(t->text, sizeof t->text, "%s", c->name);
        alarm(20);
        if (call_with(c, &m)) t->good++;
    }
    for (int at = 0; c->kinds[at] != '\0'; at++) {
        misuse m;
        char name[64];
        if (c->kinds[at] == 'i' && is_length(c, at)) continue;
        for (int i = 0; choose(c, at, i, &m); i++, n++) {
            if (n < t->next) continue;
            t->next = n + 1;
            snprintf(t->text, sizeof t->text, "%s, %s: %d", c->name, name_at(c, at, name), i);
            alarm(20);
            if (call_with(c, &m)) judge(c, &m, t);
            else t->unmade++;
        }
    }
}

/* How many calls of the function ended their process. */
static int deaths_of(const misuse_call *c, tally *t)
{
    int deaths = 0;
    for (t->next = 0;;) {
        fflush(NULL);
        const pid_t child = fork();
        ck_assert_int_ge(child, 0);
        if (child == 0) {
            run_calls(c, t);
            test_leave(0);
        }
        int status;
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return deaths;
        printf("misuse: %s: died of %d\n", t->text,
               WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status));
        deaths++;
    }
}

START_TEST(no_call_ends_the_process)
{
    char folder[TEST_PATH];
    test_folder(folder);
    ck_assert_int_eq(chdir(folder), 0);
    tally *t = mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(t != MAP_FAILED);
    memset(t, 0, sizeof *t);
    int deaths = 0, functions = 0, faulty = 0;
    for (const misuse_call *c = misuse_calls; c->name != NULL; c++, functions++) {
        const int died = deaths_of(c, t);
        deaths += died;
        faulty += died > 0;
    }
    printf("misuse: %d functions, %lld called with good arguments, %lld calls, %lld of them with a "
           "NULL: %lld refused as arguments, "
           "%lld with another error, %lld taken; %lld not made for lack of an object; %lld without "
           "a message, %d "
           "died in %d functions\n",
           functions, (long long)t->good, (long long)t->calls, (long long)t->nulls,
           (long long)t->refused, (long long)t->other, (long long)t->taken, (long long)t->unmade,
           (long long)t->silent, deaths, faulty);
    ck_assert_int_eq(deaths, 0);
    ck_assert_int_eq(t->silent, 0);
    munmap(t, sizeof *t);
}
END_TEST

/* The harness counts a function that ends its process, and continues behind it. */
static void strike(misuse *m)
{
    const char *text = misuse_pointer(m, 0, "char", 1);
    if (text == NULL) raise(SIGSEGV);
    if (misuse_integer(m, 1) < 0) abort();
}

START_TEST(deaths_are_counted)
{
    static const misuse_call c = { "strike", strike, "pi", "text,n", '-' };
    tally *t = mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(t != MAP_FAILED);
    memset(t, 0, sizeof *t);
    ck_assert_int_eq(deaths_of(&c, t), 4); /* the NULL, and three negative numbers */
    ck_assert_int_eq(t->calls, 4);
    munmap(t, sizeof *t);
}
END_TEST

Suite *test_misuse_suite(void)
{
    Suite *suite = suite_create("misuse");
    TCase *c = tcase_create("misuse");
    tcase_set_timeout(c, 600);
    tcase_add_test(c, no_call_ends_the_process);
    tcase_add_test(c, deaths_are_counted);
    suite_add_tcase(suite, c);
    return suite;
}

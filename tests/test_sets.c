/* The choice of kernels: instruction sets of the processor, DETENT_CPU, the mask of a context. */
#include "testing.h"

#include "kernels/sets.h"

#include <stdio.h>
#include <stdlib.h>

#define ALL                                                                                        \
    (DT_CPU_AVX2 | DT_CPU_AVX_VNNI | DT_CPU_AVX512_VNNI | DT_CPU_AVX512_BF16 | DT_CPU_AMX_INT8 |   \
     DT_CPU_NEON_DOT | DT_CPU_PLAIN)
#define FIRST (DT_CPU_AVX2 | DT_CPU_NEON_DOT) /* every set but plain C needs one of these */

static dt_ctx *context(uint64_t mask)
{
    dt_ctx_options o = dt_ctx_defaults();
    o.cpu_mask = mask;
    dt_ctx *ctx = NULL;
    ck_assert_int_eq(dt_ctx_create(&ctx, &o), DT_OK);
    return ctx;
}

/* The set that a context with this mask gets, with DETENT_CPU as it is. */
static const char *chosen(uint64_t mask)
{
    dt_ctx *ctx = context(mask);
    TEST_OK(ctx, dt__kernels_open(ctx));
    const dt__kernel_set *set = dt__kernel_set_of(ctx);
    ck_assert_ptr_nonnull(set);
    ck_assert(dt__kernels_of(ctx, DT_F64) == &dt__kernels_ref_f64);
    const char *name = set->name;
    dt_ctx_free(ctx);
    return name;
}

/* The best set within a mask, of the first `count`; 0 is every set. */
static const char *best(uint64_t mask, int count)
{
    const char *name = NULL;
    const dt__kernel_set *set;
    mask = mask == 0 ? UINT64_MAX : mask | DT_CPU_PLAIN;
    for (int i = 0; i < count && (set = dt__kernel_set_at(i)) != NULL; i++) {
        if ((set->needs & ~mask) == 0 && dt__kernel_set_runs(set)) name = set->name;
    }
    return name;
}

static const uint64_t masks[] = { 0,
                                  DT_CPU_PLAIN,
                                  DT_CPU_AVX2,
                                  DT_CPU_AVX_VNNI,
                                  DT_CPU_AVX512_VNNI,
                                  DT_CPU_AMX_INT8,
                                  DT_CPU_AVX512_BF16,
                                  DT_CPU_NEON_DOT,
                                  DT_CPU_AVX2 | DT_CPU_AVX_VNNI,
                                  DT_CPU_AVX2 | DT_CPU_AVX512_VNNI,
                                  DT_CPU_AVX2 | DT_CPU_AVX512_VNNI | DT_CPU_AVX512_BF16,
                                  ALL,
                                  UINT64_MAX,
                                  ~(uint64_t)ALL };

START_TEST(a_context_gets_the_best_set_of_its_mask)
{
    unsetenv("DETENT_CPU");
    for (int i = 0; i < DT__COUNT_OF(masks); i++) {
        ck_assert_str_eq(chosen(masks[i]), best(masks[i], DT__MOST_SETS));
    }
    ck_assert_str_eq(chosen(0), chosen(UINT64_MAX));
    ck_assert_str_eq(chosen(DT_CPU_PLAIN), "plain");
    ck_assert_str_eq(chosen(~(uint64_t)FIRST), "plain");
}
END_TEST

/* How many sets the name allows: those up to it, or all if it is of another processor. */
static int up_to(const char *name)
{
    const dt__kernel_set *set;
    for (int i = 0; (set = dt__kernel_set_at(i)) != NULL; i++) {
        if (strcmp(set->name, name) == 0) return i + 1;
    }
    return DT__MOST_SETS;
}

START_TEST(the_environment_is_a_ceiling)
{
    static const char *const names[] = { "plain",       "avx2",     "avx-vnni", "avx512-vnni",
                                         "avx512-bf16", "amx-int8", "neon-dot" };
    for (int n = 0; n < DT__COUNT_OF(names); n++) {
        setenv("DETENT_CPU", names[n], 1);
        for (int i = 0; i < DT__COUNT_OF(masks); i++) {
            ck_assert_str_eq(chosen(masks[i]), best(masks[i], up_to(names[n])));
        }
    }
    ck_assert_int_eq(up_to("plain"), 1);
    setenv("DETENT_CPU", "", 1);
    ck_assert_str_eq(chosen(UINT64_MAX), best(UINT64_MAX, DT__MOST_SETS));
    unsetenv("DETENT_CPU");
}
END_TEST

/* An error at the first call that would compute, and at the next one; none after the name is
 * corrected. */
START_TEST(an_unknown_name_is_an_error)
{
    static const char *const bad[] = { "avx",      "AVX2", "avx2 ",     "avx512",
                                       "avx_vnni", "-",    "plain,avx2" };
    for (int i = 0; i < DT__COUNT_OF(bad); i++) {
        setenv("DETENT_CPU", bad[i], 1);
        dt_ctx *ctx = context(UINT64_MAX);
        dt_tape *t = NULL;
        char quoted[32];
        snprintf(quoted, sizeof quoted, "DETENT_CPU is '%s'", bad[i]);
        TEST_FAILS(ctx, DT_ERR_ARG, quoted, dt__kernels_open(ctx));
        TEST_FAILS(ctx, DT_ERR_ARG, "avx512-bf16, amx-int8 or neon-dot", dt_tape_create(ctx, &t));
        ck_assert_ptr_null(t);
        unsetenv("DETENT_CPU");
        TEST_OK(ctx, dt_tape_create(ctx, &t));
        dt_tape_free(t);
        dt_ctx_free(ctx);
    }
}
END_TEST

START_TEST(sets_are_whole_and_in_order)
{
    const dt__kernel_set *set;
    int count = 0;
    for (; (set = dt__kernel_set_at(count)) != NULL; count++) {
        const char *const *entries = (const char *const *)(const void *)set->f32;
        for (size_t i = 0; i < offsetof(dt__kernels, vectors) / sizeof *entries; i++) {
            ck_assert_ptr_nonnull(entries[i]);
        }
        ck_assert_int_eq(set->f32->vectors, count > 0);
        ck_assert((set->needs & ~(uint64_t)ALL) == 0);
        ck_assert_int_eq(set->needs == DT_CPU_PLAIN, count == 0);
        ck_assert(count == 0 || (set->needs & FIRST) != 0);
        ck_assert_int_eq(dt__kernel_set_runs(set), (set->needs & ~dt__cpu_offers()) == 0);
    }
    ck_assert_int_ge(count, 1);
    ck_assert_int_le(count, DT__MOST_SETS);
    ck_assert_ptr_null(dt__kernel_set_at(-1));
    ck_assert_str_eq(dt__kernel_set_at(0)->name, "plain");
}
END_TEST

#if defined __x86_64__ && defined __linux__ && !defined DETENT_EMULATE
static bool has_all(const char *flags, const char *const *wanted)
{
    for (; *wanted != NULL; wanted++) {
        char word[32];
        snprintf(word, sizeof word, " %s ", *wanted);
        if (strstr(flags, word) == NULL) return false;
    }
    return true;
}

/* Linux lists what the processor has and the kernel saves. Old kernels do not know the name
 * avx_vnni, so it is checked only where it is listed. */
START_TEST(offers_agree_with_the_system)
{
    static const char *const avx2[] = { "avx", "avx2", "fma", "f16c", NULL };
    static const char *const vnni[] = { "avx2", "avx_vnni", NULL };
    static const char *const avx512[] = { "avx2",     "fma",      "avx512f",     "avx512bw",
                                          "avx512dq", "avx512vl", "avx512_vnni", NULL };
    static const char *const bf16[] = { "avx512_vnni", "avx512_bf16", NULL };
    static const char *const amx[] = { "avx512_vnni", "amx_tile", "amx_int8", NULL };
    if (!test_file_exists("/proc/cpuinfo")) return;
    char *text = test_read_file("/proc/cpuinfo", NULL), *flags = strstr(text, "\nflags");
    if (flags != NULL) {
        char *end = strchr(flags + 1, '\n');
        if (end != NULL) *end = ' '; /* so that the last word ends with a space, too */
        if (end != NULL) end[1] = 0;
        const uint64_t offers = dt__cpu_offers();
        ck_assert_int_eq((offers & DT_CPU_AVX2) != 0, has_all(flags, avx2));
        ck_assert_int_eq((offers & DT_CPU_AVX512_VNNI) != 0, has_all(flags, avx512));
        ck_assert_int_eq((offers & DT_CPU_AVX512_BF16) != 0, has_all(flags, bf16));
        if ((offers & DT_CPU_AMX_INT8) != 0) ck_assert(has_all(flags, amx));
        if (has_all(flags, vnni)) ck_assert((offers & DT_CPU_AVX_VNNI) != 0);
    }
    free(text);
}
END_TEST
#endif

#if defined __aarch64__ && defined __linux__
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* Whether a process that runs udot lives on. */
static bool udot_runs(void)
{
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        signal(SIGILL, SIG_DFL);
        __asm__ volatile(".inst 0x6e809400" ::: "v0"); /* udot v0.4s, v0.16b, v0.16b */
        _exit(0);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    if (WIFEXITED(status)) return true;
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGILL);
    return false;
}

START_TEST(offers_agree_with_the_processor)
{
    ck_assert_int_eq((dt__cpu_offers() & DT_CPU_NEON_DOT) != 0, udot_runs());
}
END_TEST
#endif

Suite *test_sets_suite(void)
{
    Suite *s = suite_create("sets");
    TCase *c = tcase_create("choice");
    tcase_add_test(c, a_context_gets_the_best_set_of_its_mask);
    tcase_add_test(c, the_environment_is_a_ceiling);
    tcase_add_test(c, an_unknown_name_is_an_error);
    tcase_add_test(c, sets_are_whole_and_in_order);
#if defined __x86_64__ && defined __linux__ && !defined DETENT_EMULATE
    tcase_add_test(c, offers_agree_with_the_system);
#endif
#if defined __aarch64__ && defined __linux__
    tcase_add_test(c, offers_agree_with_the_processor);
#endif
    suite_add_tcase(s, c);
    return s;
}

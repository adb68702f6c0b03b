/* detent-bench: rows and their fields, options, and refusals. No test checks a time. */
#include "testing.h"

#include "bench/account.h"
#include "bench/bench.h"
#include "bench/nets.h"
#include "kernels/kernels.h"
#include "kernels/sets.h"

#include <jansson.h>

#include <math.h>
#include <stdlib.h>

#define BENCH "'" DETENT_BINARY_DIR "/detent-bench' "

/* ---- the program ---------------------------------------------------------------------------- */

typedef struct usage_case {
    const char *arguments;
    int status;
    const char *words; /* among what both streams show */
} usage_case;

static const usage_case usage_cases[] = {
    { "--help", 0, "usage: detent-bench [OPTIONS]" },
    { "a b", 2, "'a' is not an option, or lacks its value\nusage: detent-bench" },
    { "--quick --only", 2, "'--only' is not an option, or lacks its value" },
    { "--only limit", 2, "there is no part 'limit'; did you mean 'limits'?" },
    { "--only limits,,step", 2, "there is no part ''; --help lists them" },
    { "--only zebra", 2, "there is no part 'zebra'" },
    { "--threads 0", 2, "--threads must be 1 to 1024, got '0'" },
    { "--threads 1025", 2, "1 to 1024" },
    { "--threads 99999999999999999999", 2, "1 to 1024" },
    { "--threads 1x", 2, "1 to 1024" },
    { "--repeat -1", 2, "--repeat must be 1 to 1000, got '-1'" },
    { "--repeat ''", 2, "1 to 1000" },
    { "--quik", 2, "'--quik' is not an option" },
    { "--quick --only limits 2>&1 > /dev/full #", 1, "standard output cannot be written" },
};

START_TEST(usage)
{
    const usage_case *c = &usage_cases[_i];
    char *output = NULL;
    const int status = test_shell(&output, BENCH "%s 2>&1", c->arguments);
    ck_assert_msg(status == c->status, "detent-bench %s: %d: %s", c->arguments, status, output);
    ck_assert_msg(strstr(output, c->words) != NULL, "detent-bench %s: %s", c->arguments, output);
    free(output);
}
END_TEST

static bool is_number_or_null(const json_t *v) { return json_is_number(v) || json_is_null(v); }

/* Every field is there; a limit's name and share come together. */
static void check_row(const json_t *row)
{
    const char *name = json_string_value(json_object_get(row, "name"));
    ck_assert_ptr_nonnull(name);
    ck_assert_msg(json_is_string(json_object_get(row, "unit")), "%s", name);
    ck_assert_msg(json_is_integer(json_object_get(row, "repetitions")), "%s", name);
    static const char *const numbers[] = { "value", "low", "high" };
    for (int i = 0; i < 3; i++) {
        ck_assert_msg(json_is_number(json_object_get(row, numbers[i])), "%s: %s", name, numbers[i]);
    }
    const double value = json_number_value(json_object_get(row, "value"));
    ck_assert_msg(value > 0, "%s is %g", name, value);
    ck_assert_msg(json_number_value(json_object_get(row, "low")) <= value, "%s", name);
    ck_assert_msg(json_number_value(json_object_get(row, "high")) >= value, "%s", name);
    const json_t *share = json_object_get(row, "share_of_limit");
    ck_assert_msg(is_number_or_null(share), "%s", name);
    ck_assert_msg(json_is_null(share) == json_is_null(json_object_get(row, "limit")), "%s", name);
    json_t *ratios = json_object_get(row, "ratio_to"), *ratio;
    const char *to;
    ck_assert_msg(json_is_object(ratios) || json_is_null(ratios), "%s", name);
    json_object_foreach(ratios, to, ratio) ck_assert_msg(json_is_number(ratio), "%s: %s", name, to);
}

/* How many names of the rows begin so. */
static int count_rows(const json_t *rows, const char *begin)
{
    int n = 0;
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        const char *name = json_string_value(json_object_get(row, "name"));
        n += strncmp(name, begin, strlen(begin)) == 0;
    }
    return n;
}

/* Each thread count's parts of a step add to their sum. */
static void check_parts_of(const json_t *rows, const char *step)
{
    for (int threads = 1; threads <= 2; threads++) {
        double sum = 0, parts = 0;
        char end[16];
        size_t i;
        json_t *row;
        snprintf(end, sizeof end, "/t%d", threads);
        json_array_foreach(rows, i, row)
        {
            const char *name = json_string_value(json_object_get(row, "name"));
            const size_t length = strlen(name);
            if (strncmp(name, step, strlen(step)) != 0) continue;
            const char *rest = name + strlen(step); /* the step itself is "t1" */
            if (strcmp(name + length - strlen(end), end) != 0 || strchr(rest, '/') == NULL)
                continue;
            const double value = json_number_value(json_object_get(row, "value"));
            if (strncmp(rest, "sum/", 4) == 0) sum = value;
            else parts += value;
        }
        ck_assert_msg(sum > 0 && fabs(parts - sum) <= 1e-9 * sum, "%s: parts %g, sum %g", step,
                      parts, sum);
    }
}

static json_t *json_of(const char *before, const char *arguments)
{
    char *output = NULL;
    const int status = test_shell(&output, "%s " BENCH "%s 2>/dev/null", before, arguments);
    ck_assert_msg(status == 0, "detent-bench %s: %d", arguments, status);
    json_error_t error;
    json_t *root = json_loads(output, 0, &error);
    ck_assert_msg(root != NULL, "%s: %s", error.text, output);
    free(output);
    return root;
}

START_TEST(json_has_every_row_and_field)
{
    json_t *root = json_of("", "--quick --explain --threads 2 --json --repeat 1");
    const json_t *machine = json_object_get(root, "machine"), *rows = json_object_get(root, "rows");
    static const char *const facts[] = { "processor",     "kernels", "openblas",
                                         "openblas_core", "detent",  "compiler" };
    for (int i = 0; i < 6; i++) {
        ck_assert_msg(json_is_string(json_object_get(machine, facts[i])), "%s", facts[i]);
    }
    ck_assert_int_eq(json_integer_value(json_object_get(machine, "threads")), 2);
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row) check_row(row);
    static const char *const parts[] = { "limits/",    "products/", "quantize/",
                                         "optimizer/", "step/",     "convolutions/",
                                         "rounding/",  "language/", "growth/" };
    for (int k = 0; k < DT__COUNT_OF(parts); k++) ck_assert_int_gt(count_rows(rows, parts[k]), 5);
    ck_assert_int_eq(count_rows(rows, "limits/int8-plain/t"), 2);
    check_parts_of(rows, "step/64-32-10/b16/float/");
    check_parts_of(rows, "step/64-32-10/b16/qat/");
    json_decref(root);
}
END_TEST

START_TEST(parts_repetitions_and_kernels_are_chosen)
{
    json_t *root = json_of("DETENT_CPU=plain", "--quick --threads 1 --repeat 4 --json "
                                               "--only step,quantize");
    const json_t *rows = json_object_get(root, "rows"), *machine = json_object_get(root, "machine");
    ck_assert_str_eq(json_string_value(json_object_get(machine, "kernels")), "plain");
    const size_t n = json_array_size(rows);
    ck_assert_int_eq((int)n, count_rows(rows, "step/") + count_rows(rows, "quantize/"));
    const json_t *first = json_array_get(rows, 0);
    ck_assert_int_eq(json_integer_value(json_object_get(first, "repetitions")), 4);
    ck_assert_int_eq(test_shell(NULL, "DETENT_CPU=zebra " BENCH "--quick 2>/dev/null"), 2);
    json_decref(root);
}
END_TEST

START_TEST(the_core_of_the_environment_is_ignored)
{
    char *output = NULL;
    json_t *plain = json_of("unset OPENBLAS_CORETYPE;", "--quick --threads 1 --json --only limits");
    json_t *named =
        json_of("OPENBLAS_CORETYPE=Prescott", "--quick --threads 1 --json --only limits");
    const json_t *a = json_object_get(plain, "machine"), *b = json_object_get(named, "machine");
    const char *core[] = { json_string_value(json_object_get(a, "openblas_core")),
                           json_string_value(json_object_get(b, "openblas_core")) };
    ck_assert(core[0] != NULL && core[1] != NULL);
#if !defined TEST_SANITIZED /* those link to OpenBLAS, which then starts before main */
    ck_assert_str_eq(core[0], core[1]);
#endif
    json_decref(plain);
    json_decref(named);
    ck_assert_int_eq(test_shell(&output, "OPENBLAS_CORETYPE=Prescott " BENCH
                                         "--quick --only limits 2>&1 >/dev/null"),
                     0);
    ck_assert_str_eq(output, "detent-bench: OPENBLAS_CORETYPE is 'Prescott', which is ignored\n");
    free(output);
}
END_TEST

/* ---- the library ---------------------------------------------------------------------------- */

/* Stops at a given row. */
typedef struct counter {
    int rows, stop;
} counter;

static dt_status count(void *user, const dt_bench_row *row)
{
    counter *c = user;
    ck_assert_ptr_nonnull(row->name);
    return ++c->rows == c->stop ? DT_ERR_IO : DT_OK;
}

/* A sink that fails at the stop-th piece of text. */
static dt_status count_text(void *user, const char *text, size_t bytes)
{
    counter *c = user;
    ck_assert_uint_eq(strlen(text), bytes);
    return ++c->rows == c->stop ? DT_ERR_IO : DT_OK;
}

static dt_ctx *context(int threads)
{
    dt_ctx *ctx;
    dt_ctx_options o = dt_ctx_defaults();
    o.threads = threads;
    TEST_OK(NULL, dt_ctx_create(&ctx, &o));
    return ctx;
}

START_TEST(a_sink_may_stop)
{
    dt_ctx *ctx = context(1);
    dt_bench_options o = dt_bench_defaults();
    o.quick = true;
    for (unsigned part = 1; part < DT_BENCH_ALL; part *= 2) {
        o.parts = part;
        counter c = { .stop = 2 };
        ck_assert_int_eq(dt_bench(ctx, &o, count, &c), DT_ERR_IO);
        ck_assert_int_eq(c.rows, 2);
    }
    o.parts = DT_BENCH_STEP | DT_BENCH_EXPERTS | DT_BENCH_LANGUAGE | DT_BENCH_BACKWARD;
    o.explain = true;
    o.repeat = 1;
    counter rows = { 0 };
    TEST_OK(ctx, dt_bench(ctx, &o, count, &rows));
    for (int stop = 1; stop <= rows.rows; stop += (int)test_count((test_draws){ 1, 9, 1 })) {
        counter c = { .stop = stop };
        ck_assert_int_eq(dt_bench(ctx, &o, count, &c), DT_ERR_IO);
        ck_assert_int_eq(c.rows, stop);
    }
    o.parts = DT_BENCH_DEVICE;
    for (int stop = 1; stop < 3; stop++) {
        counter c = { .stop = stop };
        ck_assert_int_eq(dt_bench_write(ctx, &o, true, count_text, &c), DT_ERR_IO);
        c.rows = 0;
        ck_assert_int_eq(dt_bench_write(ctx, &o, false, count_text, &c), DT_ERR_IO);
    }
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(bad_options_are_refused)
{
    dt_ctx *ctx = context(1);
    counter c = { 0 };
    const dt_bench_options bad[] = {
        { .parts = 0 },
        { .parts = DT_BENCH_ALL + 1 },
        { .parts = DT_BENCH_STEP, .repeat = -1 },
        { .parts = DT_BENCH_STEP, .repeat = 1001 },
    };
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(dt_bench(ctx, &bad[i], count, &c), DT_ERR_ARG);
        ck_assert_int_eq(strncmp(dt_error(ctx), "bench: ", 7), 0);
    }
    ck_assert_int_eq(dt_bench(ctx, NULL, NULL, NULL), DT_ERR_ARG);
    ck_assert_int_eq(c.rows, 0);
    dt_ctx_free(ctx);
}
END_TEST

/* A rival that supports one shape. */
static void *open_rival(void *user, int threads, const int64_t mnk[3])
{
    return threads == 1 && mnk[0] == 16 ? user : NULL;
}
static void *open_rival_conv(void *user, int threads, const dt_bench_conv *conv)
{
    return threads == 1 && conv->groups == 1 ? user : NULL;
}
static void run_rival(void *product) { ++*(int *)product; }
static void close_rival(void *product) { *(int *)product = -*(int *)product; }

static dt_status find_rival(void *user, const dt_bench_row *row)
{
    int *found = user;
    for (int i = 0; i < row->n_ratios; i++) *found += strcmp(row->ratio_to[i].to, "rival") == 0;
    *found += 100 * (strstr(row->name, "/m16/n256/k256/rival/t1") != NULL);
    *found += 1000 * (strncmp(row->name, "convolutions/", 13) == 0 &&
                      strstr(row->name, "/rival/t1") != NULL);
    return DT_OK;
}

START_TEST(a_rival_is_measured)
{
    dt_ctx *ctx = context(1);
    int runs = 0, found = 0;
    dt_bench_options o = dt_bench_defaults();
    o.parts = DT_BENCH_PRODUCTS;
    o.quick = true;
    o.rival = (dt_bench_rival){ .name = "rival",
                                .open = open_rival,
                                .open_conv = open_rival_conv,
                                .run = run_rival,
                                .close = close_rival,
                                .user = &runs };
    TEST_OK(ctx, dt_bench(ctx, &o, find_rival, &found));
    ck_assert_int_lt(runs, 0);    /* run, and closed */
    ck_assert_int_eq(found, 104); /* its own row, and a ratio of each form */
    o.parts = DT_BENCH_CONVOLUTIONS;
    found = runs = 0;
    TEST_OK(ctx, dt_bench(ctx, &o, find_rival, &found));
    ck_assert_int_lt(runs, 0);
    ck_assert_int_eq(found, 1003);
    dt_ctx_free(ctx);
}
END_TEST

/* The list of a network's convolutions matches its parameters, and each can run alone. */
static void check_net(const dt__net *net, int64_t parameters)
{
    dt_ctx *ctx = context(2);
    dt_module *m;
    TEST_OK(ctx, net->create(ctx, &m));
    ck_assert_int_eq((int)dt_param_count(m), (int)parameters);
    dt__bench b = { .user = ctx, .ctx = ctx };
    dt__convs convs;
    TEST_OK(ctx, dt__convs_make(&b, net, 2, &convs));
    int64_t sum = (net->features + 1) * net->classes;
    for (int i = 0; i < convs.n; i++) {
        const dt__conv *c = &convs.conv[i];
        sum += c->out * c->in / c->groups * dt__conv_taps(c) + 2 * c->out; /* and its norm's */
    }
    ck_assert_int_eq((int)sum, (int)parameters);
    TEST_OK(ctx, dt__convs_run(&convs));
    dt__convs_free(&convs);
    dt_module_free(m);
    dt_ctx_free(ctx);
}

START_TEST(networks_have_the_convolutions_listed)
{
    check_net(&dt__net_cnn, 32378);
    check_net(&dt__net_resnet20, 269722);
    check_net(&dt__net_dscnn, 6060);
    check_net(&dt__net_mobilenet, 8250);
}
END_TEST

/* Convolutions go to oneDNN, or to plain C, as they do without an account. */
START_TEST(an_account_leaves_convolutions_where_they_are)
{
    dt_ctx *ctx = context(1);
    dt_tape *t;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt__bench b = { .user = ctx, .ctx = ctx };
    const dt__kernels *before = ctx->kernels[DT_F32];
    dt__account *a;
    TEST_OK(ctx, dt__account_create(&b, ctx, t, &a));
    ck_assert_ptr_ne(ctx->kernels[DT_F32], before);
    ck_assert_int_eq(ctx->kernels[DT_F32]->vectors, before->vectors);
    ck_assert_int_eq(before->vectors, before != dt__kernel_set_at(0)->f32); /* plain C */
    dt__account_free(&b, a);
    ck_assert_ptr_eq(ctx->kernels[DT_F32], before);
    dt_tape_free(t);
    dt_ctx_free(ctx);
}
END_TEST

static dt_status no_row(void *user, const dt_bench_row *row)
{
    (void)user;
    return row->value > 0 ? DT_OK : DT_ERR_NUMERIC;
}

static dt_status scenario(dt_ctx *ctx, void *user)
{
    dt_bench_options o = dt_bench_defaults();
    o.quick = o.explain = true;
    o.repeat = 1;
    o.parts = *(unsigned *)user;
    return dt_bench(ctx, &o, no_row, NULL);
}

START_TEST(memory_may_fail)
{
    unsigned part = 1U << _i;
    if (part == DT_BENCH_WAITING && !test_every_site()) return; /* which sleeps at each pass */
    if (_i % test_failures((test_draws){ 1, 5, 1 }) != 0) return;
    ck_assert_int_gt(test_every_allocation(scenario, &part), 3);
}
END_TEST

Suite *test_bench_suite(void)
{
    Suite *suite = suite_create("bench");
    TCase *all = tcase_create("bench");
    tcase_set_timeout(all, 300);
    tcase_add_loop_test(all, usage, 0, (int)(sizeof usage_cases / sizeof usage_cases[0]));
    tcase_add_test(all, json_has_every_row_and_field);
    tcase_add_test(all, parts_repetitions_and_kernels_are_chosen);
    tcase_add_test(all, the_core_of_the_environment_is_ignored);
    tcase_add_test(all, a_sink_may_stop);
    tcase_add_test(all, bad_options_are_refused);
    tcase_add_test(all, a_rival_is_measured);
    tcase_add_test(all, networks_have_the_convolutions_listed);
    tcase_add_test(all, an_account_leaves_convolutions_where_they_are);
    tcase_add_loop_test(all, memory_may_fail, 0, 13);
    suite_add_tcase(suite, all);
    return suite;
}

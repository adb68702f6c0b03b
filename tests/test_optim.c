/* Optimizers, schedules and clipping: reference values step by step, state of each parameter,
 * groups, and writes that are refused. */
#include "testing.h"

#include "core/text/glob.h"
#include "nn/module.h"

#include <detent/experimental/io.h>
#include <detent/experimental/optim.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static dt_ctx *ctx;
static dt_tape *t;

static void setup(void)
{
    ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK);
    TEST_OK(ctx, dt_tape_create(ctx, &t));
}

static void teardown(void)
{
    dt_tape_free(t);
    dt_ctx_free(ctx);
}

static const dt_module_type bag = { .name = "bag" };

static dt_module *bag_create(void)
{
    dt_module *m;
    TEST_OK(ctx, dt_module_create(ctx, &bag, 0, &m));
    return m;
}

static dt_tensor *ones(int rank, const int64_t *dims)
{
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, rank, dims, &x));
    TEST_OK(ctx, dt_fill(x, 1.0));
    return x;
}

/* A module with parameters a [2], b [2, 2] and c [3], all ones. */
static dt_module *three_params(void)
{
    dt_module *m = bag_create();
    TEST_OK(ctx, dt_module_add_param(m, "a", ones(1, (const int64_t[]){ 2 })));
    TEST_OK(ctx, dt_module_add_param(m, "b", ones(2, (const int64_t[]){ 2, 2 })));
    TEST_OK(ctx, dt_module_add_param(m, "c", ones(1, (const int64_t[]){ 3 })));
    return m;
}

/* Makes every element of the gradient of x `value`. */
static void give_gradient(dt_tensor *x, double value)
{
    dt_tensor *g;
    TEST_OK(ctx, dt_tensor_create(ctx, x->dtype, x->rank, x->dims, &g));
    TEST_OK(ctx, dt_fill(g, value));
    dt_grad_clear(x);
    x->grad = g;
}

static double first(dt_module *m, const char *path)
{
    dt_tensor *x = dt_param(m, path);
    return x->dtype == DT_F32 ? (double)*(const float *)dt_data(x) : *(const double *)dt_data(x);
}

/* ---- reference values ------------------------------------------------------------------------ */

static void compare(const dt_file *f, const dt_tensor *got, const char *name, double relative)
{
    dt_tensor *want;
    TEST_OK(ctx, dt_file_load(f, name, got->dtype, &want));
    ck_assert_int_eq(want->count, got->count);
    double largest = 0.0;
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t i = 0; i < want->count; i++) {
            const bool wide = got->dtype == DT_F64;
            const double b = wide ? ((const double *)dt_data(want))[i]
                                  : (double)((const float *)dt_data(want))[i];
            const double a =
                wide ? ((const double *)dt_data(got))[i] : (double)((const float *)dt_data(got))[i];
            if (pass == 0) largest = fmax(largest, fabs(b));
            else TEST_NEAR(a, b, relative * largest + 1e-13, 0.0);
        }
    }
    dt_tensor_free(want);
}

static double setting(const dt_file *f, int number, const char *key)
{
    char name[64];
    snprintf(name, sizeof name, "c%d.%s", number, key);
    const char *text = dt_file_meta(f, name);
    if (text == NULL) return 0.0;
    return strcmp(text, "true") == 0 ? 1.0 : strtod(text, NULL);
}

static const struct {
    const char *name;
    int rule;
} stepped[] = { { "sgd_step", DT_SGD }, { "adam_step", DT_ADAM }, { "adamw_step", DT_ADAMW } };

/* The number of a case: "c2" is 2. */
static int number_of(const char *name) { return atoi(name + 1); }

static const struct {
    const char *slot, *letter;
} letters[] = { { "momentum", "buf" }, { "exp_avg", "m" }, { "exp_avg_sq", "v" } };

typedef struct checking {
    const dt_file *file;
    int number, step;
    double relative;
} checking;

static dt_status check_state(void *user, const char *slot, const char *path, dt_tensor *x)
{
    const checking *c = user;
    ck_assert_str_eq(path, "p");
    if (strcmp(slot, "step") == 0) {
        ck_assert_double_eq(dt_item(x), c->step);
        return DT_OK;
    }
    for (size_t i = 0; i < sizeof letters / sizeof letters[0]; i++) {
        if (strcmp(letters[i].slot, slot) != 0) continue;
        char name[64];
        snprintf(name, sizeof name, "c%d.out.%s%d", c->number, letters[i].letter, c->step);
        compare(c->file, x, name, c->relative);
        return DT_OK;
    }
    ck_abort_msg("unknown slot %s", slot);
    return DT_OK;
}

static dt_optimizer_options read_options(const dt_file *f, int rule, int number)
{
    return (dt_optimizer_options){
        .name = rule,
        .lr = setting(f, number, "lr"),
        .decay = DT_DECAY_ALL,
        .weight_decay = setting(f, number, "weight_decay"),
        .momentum = setting(f, number, "momentum"),
        .dampening = setting(f, number, "dampening"),
        .nesterov = setting(f, number, "nesterov") != 0.0,
        .beta1 = setting(f, number, "beta1"),
        .beta2 = setting(f, number, "beta2"),
        .eps = setting(f, number, "eps"),
    };
}

static void run_steps(const dt_file *f, int rule, int number, dt_dtype dtype)
{
    const double relative = dtype == DT_F64 ? 1e-10 : 1e-5;
    char name[64];
    snprintf(name, sizeof name, "c%d.in.p", number);
    dt_module *m = bag_create();
    dt_tensor *p;
    TEST_OK(ctx, dt_file_load(f, name, dtype, &p));
    TEST_OK(ctx, dt_module_add_param(m, "p", p));
    const dt_optimizer_options options = read_options(f, rule, number);
    dt_optimizer *o;
    TEST_OK(ctx, dt_optimizer_create(m, &options, &o));
    const int steps = (int)setting(f, number, "steps");
    for (int i = 0; i < steps; i++) {
        dt_grad_clear(p);
        snprintf(name, sizeof name, "c%d.in.g%d", number, i);
        TEST_OK(ctx, dt_file_load(f, name, dtype, &p->grad));
        TEST_OK(ctx, dt_optimizer_step(o, t, options.lr));
        snprintf(name, sizeof name, "c%d.out.p%d", number, i + 1);
        compare(f, p, name, relative);
        checking c = { f, number, i + 1, relative };
        TEST_OK(ctx, dt_optimizer_visit(o, check_state, &c));
    }
    ck_assert_int_eq(dt_optimizer_updates(o), steps);
    dt_optimizer_free(o);
    dt_module_free(m);
}

START_TEST(steps_equal_the_reference)
{
    char path[TEST_PATH], name[64];
    snprintf(name, sizeof name, "ops/%s.safetensors", stepped[_i].name);
    if (!test_golden(path, name)) return;
    dt_file *f;
    TEST_OK(ctx, dt_file_open(ctx, path, &f));
    test_names cases;
    test_list(dt_file_meta(f, "cases"), &cases);
    ck_assert_int_gt(cases.n, 0);
    for (int i = 0; i < cases.n; i++) {
        run_steps(f, stepped[_i].rule, number_of(cases.name[i]), DT_F64);
        run_steps(f, stepped[_i].rule, number_of(cases.name[i]), DT_F32);
    }
    dt_file_close(f);
}
END_TEST

static void clip_case(const dt_file *f, int number, dt_dtype dtype)
{
    const double relative = dtype == DT_F64 ? 1e-10 : 1e-5;
    dt_module *m = bag_create();
    char name[64], own[16];
    int n = 0;
    for (;; n++) {
        snprintf(name, sizeof name, "c%d.in.g%d", number, n);
        if (dt_file_find(f, name) == NULL) break;
        dt_tensor *g, *p;
        TEST_OK(ctx, dt_file_load(f, name, dtype, &g));
        TEST_OK(ctx, dt_tensor_create(ctx, dtype, g->rank, g->dims, &p));
        snprintf(own, sizeof own, "g%d", n);
        TEST_OK(ctx, dt_module_add_param(m, own, p));
        p->grad = g;
    }
    double norm;
    TEST_OK(ctx, dt_clip_grad_norm(m, t, setting(f, number, "max_norm"), &norm));
    snprintf(name, sizeof name, "c%d.out.norm", number);
    dt_tensor *want;
    TEST_OK(ctx, dt_file_load(f, name, DT_F64, &want));
    TEST_NEAR(norm, dt_item(want), 0.0, dtype == DT_F64 ? 1e-12 : 1e-6);
    dt_tensor_free(want);
    for (int i = 0; i < n; i++) {
        snprintf(own, sizeof own, "g%d", i);
        snprintf(name, sizeof name, "c%d.out.g%d", number, i);
        compare(f, dt_grad(dt_param(m, own)), name, relative);
    }
    dt_module_free(m);
}

START_TEST(clipping_equals_the_reference)
{
    char path[TEST_PATH];
    if (!test_golden(path, "ops/clip_grad_norm.safetensors")) return;
    dt_file *f;
    TEST_OK(ctx, dt_file_open(ctx, path, &f));
    test_names cases;
    test_list(dt_file_meta(f, "cases"), &cases);
    ck_assert_int_gt(cases.n, 0);
    for (int i = 0; i < cases.n; i++) {
        clip_case(f, number_of(cases.name[i]), DT_F64);
        clip_case(f, number_of(cases.name[i]), DT_F32);
    }
    dt_file_close(f);
}
END_TEST

/* A setting of a schedule; 0 where the file does not say. */
static double rate_setting(const dt_file *f, const char *name, const char *key)
{
    char path[96];
    snprintf(path, sizeof path, "%s.%s", name, key);
    const char *text = dt_file_meta(f, path);
    return text == NULL ? 0.0 : strtod(text, NULL);
}

static bool rate_is(const dt_file *f, const char *name, const char *key, const char *value)
{
    char path[96];
    snprintf(path, sizeof path, "%s.%s", name, key);
    const char *text = dt_file_meta(f, path);
    return text != NULL && strcmp(text, value) == 0;
}

/* Formulas that detent has not, and in part not with these settings. */
static const char *const other_formulas[] = {
    "constant_hf",        "cosine_hf",       "cosine_min", "cosine_peak_once",
    "cosine_restarts_hf", "inverse_sqrt_hf", "linear_hf",  "linear_torch",
    "one_cycle",          "polynomial_hf",   "wsd_hf",
};

static bool has_other_formula(const dt_file *f, const char *name)
{
    for (int i = 0; i < (int)(sizeof other_formulas / sizeof other_formulas[0]); i++) {
        if (rate_is(f, name, "kind", other_formulas[i])) return true;
    }
    return false;
}

/* PyTorch's phases of one cycle end at rise * T - 1 and at T - 1. */
static dt_schedule one_cycle(const dt_file *f, const char *name, double total)
{
    const double first = 1 / rate_setting(f, name, "div");
    return (dt_schedule){ .name = DT_ONE_CYCLE,
                          .total_steps = (int64_t)total - 1,
                          .rise = (rate_setting(f, name, "rise") * total - 1) / (total - 1),
                          .start = first,
                          .floor = first / rate_setting(f, name, "final_div") };
}

static dt_ints milestones_of(const dt_file *f, const char *name)
{
    char path[96];
    test_names list;
    dt_ints out = { 0 };
    snprintf(path, sizeof path, "%s.milestones", name);
    test_list(dt_file_meta(f, path), &list);
    for (int i = 0; i < list.n; i++) out.v[out.n++] = strtoll(list.name[i], NULL, 10);
    return out;
}

/* The schedule of the file's formula and settings; false where detent has none. */
static bool schedule_of(const dt_file *f, const char *name, double base, dt_schedule *out)
{
    static const struct {
        const char *kind;
        int ours;
    } kinds[] = { { "constant", DT_CONSTANT },
                  { "step", DT_STEP },
                  { "exponential", DT_STEP },
                  { "linear", DT_LINEAR },
                  { "cosine", DT_COSINE },
                  { "cosine_torch", DT_COSINE },
                  { "multistep", DT_MULTISTEP },
                  { "cosine_restarts_torch", DT_COSINE_RESTARTS },
                  { "polynomial_torch", DT_POLYNOMIAL },
                  { "wsd", DT_WARMUP_STABLE_DECAY } };
    const double total = rate_setting(f, name, "total"), decay = rate_setting(f, name, "decay"),
                 warmup = rate_setting(f, name, "warmup"), every = rate_setting(f, name, "every"),
                 first = rate_setting(f, name, "first"), floor = rate_setting(f, name, "floor");
    if (rate_is(f, name, "anneal", "cos") && rate_is(f, name, "three_phase", "false")) {
        *out = one_cycle(f, name, total);
        return true;
    }
    int i = 0;
    while (i < (int)(sizeof kinds / sizeof kinds[0]) && !rate_is(f, name, "kind", kinds[i].kind))
        i++;
    if (i == (int)(sizeof kinds / sizeof kinds[0])) return false;
    *out = (dt_schedule){
        .name = kinds[i].ours,
        .warmup_steps = (int64_t)warmup,
        .total_steps =
            (int64_t)(decay > 0 ? warmup + rate_setting(f, name, "stable") + decay : total),
        .decay_steps = (int64_t)decay,
        .every = (int64_t)(every > 0   ? every
                           : first > 0 ? first
                                       : 1),
        .growth = (int64_t)rate_setting(f, name, "factor"),
        .gamma = rate_setting(f, name, "gamma"),
        .power = rate_setting(f, name, "power"),
        .floor = floor > 0 ? floor : rate_setting(f, name, "lowest") / base,
        .milestones = milestones_of(f, name),
    };
    return true;
}

START_TEST(schedules_equal_the_reference)
{
    char path[TEST_PATH];
    if (!test_golden(path, "nets/schedules.safetensors")) return;
    dt_file *f;
    int compared = 0;
    TEST_OK(ctx, dt_file_open(ctx, path, &f));
    const double base = strtod(dt_file_meta(f, "base_lr"), NULL);
    for (int64_t i = 0; i < dt_file_count(f); i++) {
        const char *name = dt_file_at(f, i)->name;
        dt_schedule ours;
        dt_tensor *want;
        if (!schedule_of(f, name, base, &ours)) {
            TEST_EACH(has_other_formula(f, name), "%s: a formula that the test does not know",
                      name);
            continue;
        }
        TEST_OK(ctx, dt_file_load(f, name, DT_F64, &want));
        const double *rate = dt_data(want);
        for (int64_t k = 0; k < want->count; k++) {
            TEST_EACH(test_near(dt_schedule_rate(&ours, base, k), rate[k], 0.0, 1e-12),
                      "%s: rate %lld is %.17g, not %.17g", name, (long long)k,
                      dt_schedule_rate(&ours, base, k), rate[k]);
        }
        dt_tensor_free(want);
        compared++;
    }
    ck_assert_int_ge(compared, 10);
    dt_file_close(f);
}
END_TEST

START_TEST(schedules_at_their_ends)
{
    dt_schedule s = { .name = DT_COSINE, .warmup_steps = 4, .total_steps = 10, .floor = 0.25 };
    ck_assert_double_eq(dt_schedule_rate(&s, 2.0, 0), 0.5);
    ck_assert_double_eq(dt_schedule_rate(&s, 2.0, 3), 2.0);
    ck_assert_double_eq(dt_schedule_rate(&s, 2.0, 4), 2.0);
    TEST_NEAR(dt_schedule_rate(&s, 2.0, 10), 0.5, 1e-15, 0.0);
    TEST_NEAR(dt_schedule_rate(&s, 2.0, 1000000), 0.5, 1e-15, 0.0);
    s.total_steps = 4; /* nothing after the warmup */
    TEST_NEAR(dt_schedule_rate(&s, 2.0, 4), 0.5, 1e-15, 0.0);
    s.name = 17;
    ck_assert_double_eq(dt_schedule_rate(&s, 2.0, 9), 2.0);
}
END_TEST

/* The formulas of optim.h, each written a second time as a recurrence from update to update. */
typedef struct walk {
    double rate, down;
    int64_t left, length; /* of a cycle */
} walk;

START_TEST(schedules_equal_their_recurrences)
{
    const double pi = acos(-1.0);
    const int64_t warmup = 3, total = 43;
    const dt_schedule restarts = {
        .name = DT_COSINE_RESTARTS, .warmup_steps = 3, .every = 5, .growth = 3, .floor = 0.2
    };
    const dt_schedule even = { .name = DT_COSINE_RESTARTS, .every = 4, .growth = 1 };
    const dt_schedule each = { .name = DT_COSINE_RESTARTS, .every = 1, .growth = 1 };
    const dt_schedule down = {
        .name = DT_WARMUP_STABLE_DECAY, .warmup_steps = 3, .total_steps = 43, .floor = 0.5
    };
    const dt_schedule cycle = { .name = DT_ONE_CYCLE,
                                .warmup_steps = 3,
                                .total_steps = 43,
                                .rise = 0.25,
                                .start = 0.1,
                                .floor = 0.01 };
    const dt_schedule poly = {
        .name = DT_POLYNOMIAL, .warmup_steps = 3, .total_steps = 43, .floor = 0.1, .power = 3
    };
    walk c = { .left = 5, .length = 5 }, w = { .rate = 1 };
    for (int64_t i = warmup; i < total + 5; i++) {
        const double done = (double)(i - warmup) / (double)(total - warmup);
        if (c.left == 0) c.left = c.length *= 3;
        const double u = 1 - (double)c.left-- / (double)c.length;
        TEST_NEAR(dt_schedule_rate(&restarts, 3, i), 3 * (0.6 + 0.4 * cos(pi * u)), 1e-12, 0);
        TEST_NEAR(dt_schedule_rate(&even, 2, i), 1 + cos(pi * (double)(i % 4) / 4), 1e-12, 0);
        TEST_NEAR(dt_schedule_rate(&each, 2, i), 2, 0, 0); /* always at a cycle's begin */
        TEST_NEAR(dt_schedule_rate(&down, 1, i), w.rate, 1e-12, 0);
        if (i >= 39 && i < 43) w.rate -= 0.125; /* a tenth of 40 updates */
        const double rise = sin(pi * done / 0.5), fall = cos(pi * (done - 0.25) / 1.5);
        const double ends = done < 0.25 ? 0.1 + 0.9 * rise * rise
                            : done < 1  ? 0.01 + 0.99 * fall * fall
                                        : 0.01;
        TEST_NEAR(dt_schedule_rate(&cycle, 1, i), ends, 1e-12, 0);
        const double rest = done < 1 ? 1 - done : 0;
        TEST_NEAR(dt_schedule_rate(&poly, 1, i), 0.1 + 0.9 * rest * rest * rest, 1e-12, 0);
    }
    ck_assert_double_eq(dt_schedule_rate(&restarts, 3, 1), 2);
    /* Cycle 38 of 5 * 3^38 updates begins after 5 (3^38 - 1) / 2; three times as many overflow. */
    const int64_t power = 1350851717672992089, last = INT64_MAX - 3;
    const double left = (double)(last - warmup - 5 * (power / 2)), u = left / (5 * (double)power);
    TEST_NEAR(dt_schedule_rate(&restarts, 1, last), 0.6 + 0.4 * cos(pi * u), 1e-12, 0);
}
END_TEST

/* PyTorch's ReduceLROnPlateau(mode="min", factor=0.5, patience=1, threshold=0.05,
 * threshold_mode="abs", cooldown=1, min_lr=0.2) by hand; its patience is ours less 1. */
START_TEST(a_plateau_reduces_the_rate)
{
    static const struct {
        double loss, factor;
    } seen[] = { { 2, 1 },      { 1, 1 },     { 0.97, 1 },   { 1.2, 0.5 },  { 1.2, 0.5 },
                 { 1.2, 0.5 },  { 0.9, 0.5 }, { 0.86, 0.5 }, { NAN, 0.25 }, { 0.9, 0.25 },
                 { 0.9, 0.25 }, { 0.9, 0.2 }, { 0.1, 0.2 } };
    const dt_schedule s = { .name = DT_PLATEAU,
                            .gamma = 0.5,
                            .floor = 0.2,
                            .patience = 2,
                            .least_improvement = 0.05,
                            .cooldown = 1 };
    dt_plateau p = { 0 };
    for (size_t i = 0; i < sizeof seen / sizeof seen[0]; i++) {
        const double before = dt_plateau_factor(&s, &p);
        const bool reduced = dt_plateau_take(&s, &p, seen[i].loss);
        ck_assert_double_eq(dt_plateau_factor(&s, &p), seen[i].factor);
        ck_assert(reduced == (before != seen[i].factor));
    }
    ck_assert_double_eq(p.best, 0.1);
    ck_assert_double_eq(dt_schedule_rate(&s, 3, 7), 3);
    const dt_schedule other = { .name = DT_COSINE, .gamma = 0.5 };
    ck_assert_double_eq(dt_plateau_factor(&other, &p), 1);
}
END_TEST

/* Lion beside its formula in double, with values in which the sign changes. */
START_TEST(lion_equals_its_formula)
{
    dt_optimizer_options options = dt_optimizer_defaults();
    options.name = DT_LION;
    options.beta1 = 0.75;
    options.beta2 = 0.5;
    options.weight_decay = 0.5;
    dt_module *m = three_params();
    dt_optimizer *o;
    TEST_OK(ctx, dt_optimizer_create(m, &options, &o));
    double p = 1, mean = 0;
    const double g[] = { 1, -0.25, -4, 0, 8, -32 }, lr = 0.125;
    for (int i = 0; i < 6; i++) {
        give_gradient(dt_param(m, "b"), g[i]);
        TEST_OK(ctx, dt_optimizer_step(o, t, lr));
        const double towards = 0.75 * mean + 0.25 * g[i];
        p += -lr * 0.5 * p - lr * (towards > 0 ? 1 : towards < 0 ? -1 : 0);
        mean = 0.5 * mean + 0.5 * g[i];
        TEST_NEAR(first(m, "b"), p, 1e-6, 0);
    }
    ck_assert_double_eq(first(m, "a"), 1);
    options.beta2 = 1;
    dt_optimizer *none;
    TEST_FAILS(ctx, DT_ERR_ARG, "lion: beta1", dt_optimizer_create(m, &options, &none));
    dt_optimizer_free(o);
    dt_module_free(m);
}
END_TEST

/* ---- groups and decay ------------------------------------------------------------------------ */

START_TEST(globs)
{
    static const struct {
        const char *pattern, *path;
        bool matches;
    } cases[] = {
        { "*", "", true },
        { "*", "layers.0.weight", true },
        { "", "", true },
        { "", "a", false },
        { "layers.*", "layers.0.weight", true },
        { "*.weight", "layers.0.weight", true },
        { "*.weight", "weight", false },
        { "layers.?.weight", "layers.0.weight", true },
        { "layers.?.weight", "layers.10.weight", false },
        { "?", "", false },
        { "l*0*t", "layers.0.weight", true },
        { "*a*b*c", "xxaxxbxxbc", true },
        { "*a*b*c", "xxaxxbxxbcd", false },
        { "**head**", "head", true },
        { "head", "heads", false },
        { "a*a", "a", false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ck_assert_msg(dt__glob_match(cases[i].pattern, cases[i].path) == cases[i].matches,
                      "'%s' and '%s'", cases[i].pattern, cases[i].path);
    }
}
END_TEST

START_TEST(groups_scale_rate_and_decay)
{
    dt_module *m = three_params();
    dt_optimizer_options options = {
        .name = DT_SGD, .lr = 1, .weight_decay = 0.5, .decay = DT_DECAY_ALL
    };
    dt_optimizer *o;
    TEST_OK(ctx, dt_optimizer_create(m, &options, &o));
    TEST_OK(ctx, dt_optimizer_group(o, "?", 2.0, 1.0));
    TEST_OK(ctx, dt_optimizer_group(o, "b", 0.5, 0.0));
    TEST_FAILS(ctx, DT_ERR_ARG, "bias", dt_optimizer_group(o, "*bias", 1.0, 1.0));
    TEST_FAILS(ctx, DT_ERR_ARG, "factors", dt_optimizer_group(o, "*", -1.0, 1.0));
    TEST_FAILS(ctx, DT_ERR_ARG, "factors", dt_optimizer_group(o, "*", 1.0, (double)NAN));
    TEST_FAILS(ctx, DT_ERR_ARG, "NULL", dt_optimizer_group(o, NULL, 1.0, 1.0));
    give_gradient(dt_param(m, "a"), 1.0);
    give_gradient(dt_param(m, "b"), 1.0);
    TEST_OK(ctx, dt_optimizer_step(o, t, 0.125));
    ck_assert_double_eq(first(m, "a"), 1.0 - 0.25 * 1.5);
    ck_assert_double_eq(first(m, "b"), 1.0 - 0.0625);
    ck_assert_double_eq(first(m, "c"), 1.0); /* no gradient, no update */
    dt_optimizer_free(o);
    dt_module_free(m);
}
END_TEST

/* Groups of the options: the last match counts; later ones by dt_optimizer_group come behind. */
START_TEST(averages_follow_their_parameters)
{
    dt_optimizer_options options = dt_optimizer_defaults();
    options.name = DT_SGD;
    options.weight_decay = 0;
    dt_module *m = three_params();
    dt_optimizer *o;
    TEST_OK(ctx, dt_optimizer_create(m, &options, &o));
    TEST_FAILS(ctx, DT_ERR_STATE, "made without averages", dt_optimizer_average(o, t, 1));
    dt_optimizer_free(o);
    dt_tape_reset(t);
    options.average = true;
    TEST_OK(ctx, dt_optimizer_create(m, &options, &o));
    double mean = 0;
    for (int i = 0; i < 4; i++) {
        give_gradient(dt_param(m, "b"), 1);
        TEST_OK(ctx, dt_optimizer_step(o, t, 0.25));
        TEST_OK(ctx, dt_optimizer_average(o, t, i == 0 ? 1 : 0.5));
        mean = i == 0 ? first(m, "b") : 0.5 * (mean + first(m, "b"));
    }
    const double last = first(m, "b");
    TEST_OK(ctx, dt_optimizer_swap_average(o, t));
    ck_assert_double_eq(first(m, "b"), mean);
    ck_assert_double_eq(first(m, "a"), 1);
    TEST_OK(ctx, dt_optimizer_swap_average(o, t));
    ck_assert_double_eq(first(m, "b"), last);
    dt_optimizer_free(o);
    dt_module_free(m);
}
END_TEST

START_TEST(groups_of_the_options)
{
    dt_optimizer_options options = dt_optimizer_defaults();
    options.name = DT_SGD;
    options.weight_decay = 0;
    options.n_groups = 4;
    options.groups[0] = (dt_parameter_group){ "?", 0.5, 1, false };
    options.groups[1] = (dt_parameter_group){ "b", 2, 1, false };
    options.groups[2] = (dt_parameter_group){ "c", 1, 1, true };
    options.groups[3] = (dt_parameter_group){ "none.yet", 1, 1, true };
    dt_module *m = three_params();
    dt_optimizer *o;
    TEST_OK(ctx, dt_optimizer_create(m, &options, &o));
    ck_assert(!dt_requires_grad(dt_param(m, "c")) && dt_requires_grad(dt_param(m, "a")));
    give_gradient(dt_param(m, "a"), 1);
    give_gradient(dt_param(m, "b"), 1);
    TEST_OK(ctx, dt_optimizer_step(o, t, 0.125));
    ck_assert_double_eq(first(m, "a"), 1 - 0.0625);
    ck_assert_double_eq(first(m, "b"), 1 - 0.25);
    ck_assert_double_eq(first(m, "c"), 1);
    dt_optimizer_free(o);
    options.groups[1].rate = -1;
    TEST_FAILS(ctx, DT_ERR_ARG, "group 'b': factors -1", dt_optimizer_create(m, &options, &o));
    options.n_groups = DT_MAX_GROUPS + 1;
    TEST_FAILS(ctx, DT_ERR_ARG, "17 groups", dt_optimizer_create(m, &options, &o));
    dt_module_free(m);
}
END_TEST

START_TEST(matrices_alone_decay)
{
    dt_module *m = three_params();
    dt_optimizer *o;
    dt_optimizer_options options = dt_optimizer_defaults();
    options.weight_decay = 0.5;
    TEST_OK(ctx, dt_optimizer_create(m, &options, &o));
    give_gradient(dt_param(m, "a"), 0.0);
    give_gradient(dt_param(m, "b"), 0.0);
    TEST_OK(ctx, dt_optimizer_step(o, t, 0.5));
    ck_assert_double_eq(first(m, "a"), 1.0);
    ck_assert_double_eq(first(m, "b"), 0.75);
    dt_optimizer_free(o);
    dt_module_free(m);
}
END_TEST

/* ---- following the module -------------------------------------------------------------------- */

static void halve(dt_tensor *x)
{
    float *p = dt_data_mut(x);
    for (int64_t i = 0; i < x->count; i++) p[i] *= 0.5f;
}

static dt_status count_slots(void *user, const char *slot, const char *path, dt_tensor *x)
{
    (void)slot;
    (void)path;
    (void)x;
    ++*(int *)user;
    return DT_OK;
}

START_TEST(later_parameters_join)
{
    dt_module *m = three_params();
    dt_optimizer_options options = dt_optimizer_defaults();
    options.weight_decay = 0.5;
    options.decay = DT_DECAY_ALL;
    dt_optimizer *o;
    TEST_OK(ctx, dt_optimizer_create(m, &options, &o));
    for (int i = 0; i < 10; i++) {
        give_gradient(dt_param(m, "a"), 1.0);
        TEST_OK(ctx, dt_optimizer_step(o, t, 0.001));
    }
    const double a = first(m, "a");
    dt_module *part = bag_create();
    dt_tensor *scale = ones(1, (const int64_t[]){ 2 });
    scale->no_decay = true;
    scale->project = halve;
    TEST_OK(ctx, dt_module_add_param(part, "scale", scale));
    TEST_OK(ctx, dt_module_add(m, "part", part));
    dt_grad_clear(dt_param(m, "a"));
    give_gradient(scale, 1.0);
    TEST_OK(ctx, dt_optimizer_step(o, t, 0.25));
    /* The first step of a parameter is the learning rate, at any update; then the projection is
     * applied. */
    TEST_NEAR(first(m, "part.scale"), 0.5 * 0.75, 1e-6, 0.0);
    ck_assert_double_eq(first(m, "a"), a);
    int slots = 0;
    TEST_OK(ctx, dt_optimizer_visit(o, count_slots, &slots));
    ck_assert_int_eq(slots, 4 * 3);
    dt_module_free(part); /* and they leave */
    slots = 0;
    TEST_OK(ctx, dt_optimizer_visit(o, count_slots, &slots));
    ck_assert_int_eq(slots, 3 * 3);
    dt_optimizer_free(o);
    dt_module_free(m);
}
END_TEST

START_TEST(a_tied_parameter_has_one_state)
{
    dt_module *m = bag_create();
    TEST_OK(ctx, dt_module_add_param(m, "a", ones(1, (const int64_t[]){ 2 })));
    TEST_OK(ctx, dt_module_add_param(m, "b", ones(1, (const int64_t[]){ 2 })));
    dt_optimizer *o;
    TEST_OK(ctx, dt_optimizer_create(m, NULL, &o));
    int slots = 0;
    TEST_OK(ctx, dt_optimizer_visit(o, count_slots, &slots));
    ck_assert_int_eq(slots, 2 * 3);
    TEST_OK(ctx, dt_module_tie(m, "b", "a"));
    slots = 0;
    TEST_OK(ctx, dt_optimizer_visit(o, count_slots, &slots));
    ck_assert_int_eq(slots, 3);
    give_gradient(dt_param(m, "b"), 3.0);
    double norm;
    TEST_OK(ctx, dt_clip_grad_norm(m, t, 0.0, &norm));
    TEST_NEAR(norm, sqrt(18.0), 0.0, 1e-12);
    TEST_OK(ctx, dt_optimizer_step(o, t, 0.25));
    TEST_NEAR(first(m, "a"), 0.75, 1e-6, 0.0);
    dt_optimizer_free(o);
    dt_module_free(m);
}
END_TEST

/* The 1e-6 that is added to the norm: with a limit of 1e-6 a gradient of that norm is halved. */
START_TEST(clipping_of_small_gradients_is_guarded)
{
    dt_module *m = three_params();
    give_gradient(dt_param(m, "a"), 1e-6 / sqrt(2.0));
    const dt_tensor *g = dt_grad(dt_param(m, "a"));
    const double before = (double)*(const float *)dt_data(g);
    TEST_OK(ctx, dt_clip_grad_norm(m, t, 1e-6, NULL));
    TEST_NEAR((double)*(const float *)dt_data(g), 0.5 * before, 0.0, 1e-5);
    dt_module_free(m);
}
END_TEST

/* Clipped gradients, or the factor on the way: the same bits. */
START_TEST(a_gradient_factor_equals_a_clipped_gradient)
{
    dt_optimizer_options options = dt_optimizer_defaults();
    options.name = _i;
    options.momentum = 0.5;
    dt_module *m[2] = { three_params(), three_params() };
    double norm[2], factor;
    for (int k = 0; k < 2; k++) {
        dt_optimizer *o;
        TEST_OK(ctx, dt_optimizer_create(m[k], &options, &o));
        for (int i = 1; i <= 3; i++) {
            give_gradient(dt_param(m[k], "a"), 0.3 * i);
            give_gradient(dt_param(m[k], "b"), -0.7 * i);
            if (k == 0) {
                TEST_OK(ctx, dt_clip_grad_norm(m[k], t, 0.9, &norm[k]));
                TEST_OK(ctx, dt_optimizer_step(o, t, 0.1));
                continue;
            }
            TEST_OK(ctx, dt_clip_factor(m[k], t, 0.9, &norm[k], &factor));
            TEST_OK(ctx, dt_optimizer_step_scaled(o, t, 0.1, factor));
        }
        dt_optimizer_free(o);
    }
    ck_assert_double_eq(norm[0], norm[1]);
    ck_assert(factor < 0.3);
    ck_assert_mem_eq(dt_data(dt_param(m[0], "a")), dt_data(dt_param(m[1], "a")), 2 * 4);
    ck_assert_mem_eq(dt_data(dt_param(m[0], "b")), dt_data(dt_param(m[1], "b")), 4 * 4);
    TEST_OK(ctx, dt_clip_factor(m[0], t, 1e-320, NULL, &factor));
    ck_assert(factor > 0.0);
    dt_optimizer *o;
    TEST_OK(ctx, dt_optimizer_create(m[0], &options, &o));
    TEST_FAILS(ctx, DT_ERR_ARG, "the factor 0", dt_optimizer_step_scaled(o, t, 0.1, 0.0));
    dt_optimizer_free(o);
    dt_module_free(m[0]);
    dt_module_free(m[1]);
}
END_TEST

START_TEST(state_written_from_outside_counts)
{
    dt_module *m = three_params();
    dt_optimizer *o;
    dt_optimizer_options options = { .name = DT_SGD, .lr = 1, .momentum = 0.5 };
    TEST_OK(ctx, dt_optimizer_create(m, &options, &o));
    dt_optimizer_set_updates(o, 41);
    give_gradient(dt_param(m, "a"), 1.0);
    TEST_OK(ctx, dt_optimizer_step(o, t, 0.0));
    ck_assert_int_eq(dt_optimizer_updates(o), 42);
    give_gradient(dt_param(m, "a"), 1.0);
    TEST_OK(ctx, dt_optimizer_step(o, t, 1.0));
    ck_assert_double_eq(first(m, "a"), 1.0 - 1.5);
    dt_optimizer_free(o);
    dt_module_free(m);
}
END_TEST

/* ---- refused steps --------------------------------------------------------------------------- */

static dt_status kept_value(dt_tape *tape, dt_tensor *x, dt_tensor **dense, dt__codes **codes)
{
    (void)tape;
    *codes = NULL;
    dt__retain(x);
    *dense = x;
    return DT_OK;
}

static size_t print_name(const dt_tensor *x, char *text, size_t size)
{
    (void)x;
    return (size_t)snprintf(text, size, "packed");
}

/* Like a converted parameter it cannot be written. */
static const dt__kind read_only = { .name = "packed", .value = kept_value, .print = print_name };

START_TEST(nothing_is_written_before_all_is_checked)
{
    dt_module *m = three_params();
    dt_optimizer *o;
    TEST_OK(ctx, dt_optimizer_create(m, NULL, &o));
    give_gradient(dt_param(m, "a"), 1.0);
    dt_param(m, "c")->kind = &read_only;
    TEST_FAILS(ctx, DT_ERR_STATE, "c is a packed tensor", dt_optimizer_step(o, t, 0.1));
    ck_assert_double_eq(first(m, "a"), 1.0);
    dt_tape_reset(t);
    dt_param(m, "c")->kind = NULL;
    dt_param(m, "c")->storage->frozen = true;
    TEST_FAILS(ctx, DT_ERR_STATE, "frozen", dt_optimizer_step(o, t, 0.1));
    dt_tape_reset(t);
    dt_param(m, "c")->storage->frozen = false;
    ck_assert_double_eq(first(m, "a"), 1.0);
    ck_assert_int_eq(dt_optimizer_updates(o), 0);
    TEST_OK(ctx, dt_optimizer_step(o, t, 0.1));
    ck_assert_double_lt(first(m, "a"), 1.0);
    dt_optimizer_free(o);
    dt_module_free(m);
}
END_TEST

/* An op, loading and the optimizer give the same message for a tensor that cannot be written. */
static void all_refuse(dt_module *m, const char *words)
{
    dt_tensor *a = dt_param(m, "a"), *other = NULL;
    dt_optimizer *o;
    TEST_OK(ctx, dt_tensor_create(ctx, a->dtype, a->rank, a->dims, &other));
    dt_named from[3] = { { "a", other }, { "b", dt_param(m, "b") }, { "c", dt_param(m, "c") } };
    dt_add_(t, a, other, 1.0);
    ck_assert_int_eq(dt_tape_status(t), DT_ERR_STATE);
    ck_assert_msg(strstr(dt_error(ctx), words) != NULL, "the op: %s", dt_error(ctx));
    TEST_FAILS(ctx, DT_ERR_STATE, words, dt_module_load(m, from, 3));
    dt_tape *another;
    TEST_OK(ctx, dt_tape_create(ctx, &another));
    TEST_OK(ctx, dt_optimizer_create(m, NULL, &o));
    TEST_FAILS(ctx, DT_ERR_STATE, words, dt_optimizer_step(o, another, 0.1));
    dt_optimizer_free(o);
    dt_tape_free(another);
    dt_tensor_free(other);
    dt_tape_reset(t);
}

START_TEST(refused_writes_have_the_same_message_everywhere)
{
    dt_module *m = three_params();
    dt_tensor *a = dt_param(m, "a");
    give_gradient(a, 1.0);
    a->kind = &read_only;
    all_refuse(m, "a packed tensor: it was converted and is read-only");
    a->kind = NULL;
    a->storage->frozen = true;
    all_refuse(m, " belongs to a frozen model");
    a->storage->frozen = false;
    a->storage->dequantized = true;
    all_refuse(m, " is a view of dequantized values; write dt_inner(w)");
    a->storage->dequantized = false;
    ck_assert_ptr_nonnull(dt_mul(t, a, a));
    all_refuse(m, " is still needed by a recorded ");
    dt_module_free(m);
}
END_TEST

START_TEST(a_recorded_pass_refuses_the_step)
{
    dt_module *m = three_params();
    dt_optimizer *o;
    TEST_OK(ctx, dt_optimizer_create(m, NULL, &o));
    give_gradient(dt_param(m, "a"), 1.0);
    ck_assert_ptr_nonnull(dt_mul(t, dt_param(m, "a"), dt_param(m, "a")));
    TEST_FAILS(ctx, DT_ERR_STATE, "still needed", dt_optimizer_step(o, t, 0.1));
    ck_assert_int_eq(dt_tape_status(t), DT_ERR_STATE);
    dt_tape_reset(t);
    TEST_OK(ctx, dt_optimizer_step(o, t, 0.1));
    dt_optimizer_free(o);
    dt_module_free(m);
}
END_TEST

/* If a field that a schedule needs is 0, the rate is NaN, which no step accepts; other fields do
 * not matter. */
START_TEST(schedules_of_zeros)
{
    static const struct {
        int name;
        bool ends, steps, counts, power; /* fields that it needs */
    } kinds[] = {
        { .name = DT_CONSTANT },
        { .name = DT_STEP, .steps = true, .counts = true },
        { .name = DT_LINEAR, .ends = true },
        { .name = DT_COSINE, .ends = true },
        { .name = DT_MULTISTEP, .steps = true },
        { .name = DT_COSINE_RESTARTS, .counts = true },
        { .name = DT_POLYNOMIAL, .ends = true, .power = true },
        { .name = DT_ONE_CYCLE, .ends = true },
        { .name = DT_WARMUP_STABLE_DECAY, .ends = true },
        { .name = DT_PLATEAU, .steps = true },
    };
    for (int i = 0; i < DT__COUNT_OF(kinds); i++) {
        for (int set = 0; set < 16; set++) {
            const dt_schedule s = { .name = kinds[i].name,
                                    .total_steps = set & 1 ? 30 : 0,
                                    .gamma = set & 2 ? 0.5 : 0,
                                    .every = set & 4 ? 7 : 0,
                                    .power = set & 8 ? 2 : 0,
                                    .milestones = { 1, { 9 } },
                                    .rise = 0.3,
                                    .warmup_steps = set % 3 };
            const bool whole = (!kinds[i].ends || set & 1) && (!kinds[i].steps || set & 2) &&
                               (!kinds[i].counts || set & 4) && (!kinds[i].power || set & 8);
            for (int64_t k = 0; k < 35; k++) {
                const double rate = dt_schedule_rate(&s, 0.125, k);
                ck_assert_msg(whole ? rate >= 0 && rate <= 0.125 : isnan(rate),
                              "%d, fields %d, update %d: %g", i, set, (int)k, rate);
            }
            const dt_plateau p = { .reductions = 2 };
            ck_assert(isnan(dt_plateau_factor(&s, &p)) == (s.name == DT_PLATEAU && !whole));
        }
    }
}
END_TEST

START_TEST(bad_options)
{
    static const struct {
        dt_optimizer_options o;
        const char *says;
    } cases[] = {
        { { .name = DT_OWN_OPTIMIZER + 1 }, "no optimizer 5" },
        { { .name = -1 }, "no optimizer -1" },
        { { .name = DT_SGD, .lr = -1 }, "lr -1" },
        { { .name = DT_SGD, .lr = INFINITY }, "lr inf" },
        { { .name = DT_SGD, .weight_decay = -1 }, "weight_decay" },
        { { .name = DT_SGD, .decay = 2 }, "decay 2" },
        { { .name = DT_SGD, .momentum = 1 }, "momentum" },
        { { .name = DT_SGD, .momentum = 0.5, .dampening = 2 }, "dampening" },
        { { .name = DT_SGD, .nesterov = true }, "nesterov" },
        { { .name = DT_ADAM, .beta1 = 1 }, "beta1" },
        { { .name = DT_ADAMW, .beta2 = -0.5 }, "beta2" },
        { { .name = DT_ADAMW, .eps = -1 }, "eps" },
        { { .name = DT_ADAM }, "eps 0 at least" },
        { { .name = DT_ADAMW, .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999 }, "eps 0 at least" },
        { { .name = DT_SGD, .n_groups = 1, .groups = { { .match = "a" } } }, "rate 0 trains" },
        { { .name = DT_LION,
            .n_groups = 2,
            .groups = { { "a", 1, 1, false }, { .match = "*", .weight_decay = 1 } } },
          "group '*': rate 0 trains" },
    };
    dt_module *m = three_params();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        dt_optimizer *o = (void *)&m;
        TEST_FAILS(ctx, DT_ERR_ARG, cases[i].says, dt_optimizer_create(m, &cases[i].o, &o));
        ck_assert_ptr_null(o);
    }
    dt_optimizer *o;
    TEST_OK(ctx, dt_optimizer_create(m, NULL, &o));
    TEST_FAILS(ctx, DT_ERR_ARG, "rate", dt_optimizer_step(o, t, -0.1));
    dt_tape_reset(t);
    TEST_FAILS(ctx, DT_ERR_ARG, "rate", dt_optimizer_step(o, t, (double)NAN));
    TEST_FAILS(ctx, DT_ERR_ARG, "rate", dt_clip_grad_norm(m, t, 1.0, NULL)); /* the tape's error */
    dt_tape_reset(t);
    TEST_FAILS(ctx, DT_ERR_ARG, "NaN", dt_clip_grad_norm(m, t, (double)NAN, NULL));
    dt_optimizer_free(o);
    dt_optimizer_free(NULL);
    dt_module_free(m);
}
END_TEST

START_TEST(clipping_leaves_gradients_with_infinite_norm)
{
    dt_module *m = three_params();
    double norm = -1.0;
    TEST_OK(ctx, dt_clip_grad_norm(m, t, 1.0, &norm)); /* no gradient at all */
    ck_assert_double_eq(norm, 0.0);
    give_gradient(dt_param(m, "a"), 3.0);
    give_gradient(dt_param(m, "c"), (double)NAN);
    TEST_OK(ctx, dt_clip_grad_norm(m, t, 1.0, &norm));
    ck_assert(isnan(norm));
    ck_assert_double_eq(*(const float *)dt_data(dt_grad(dt_param(m, "a"))), 3.0);
    give_gradient(dt_param(m, "c"), (double)INFINITY);
    TEST_OK(ctx, dt_clip_grad_norm(m, t, 1.0, &norm));
    ck_assert(isinf(norm));
    ck_assert_double_eq(*(const float *)dt_data(dt_grad(dt_param(m, "a"))), 3.0);
    give_gradient(dt_param(m, "c"), 3e38); /* its square exceeds f32 */
    TEST_OK(ctx, dt_clip_grad_norm(m, t, 1.0, &norm));
    ck_assert(isfinite(norm));
    dt_module_free(m);
}
END_TEST

Suite *test_optim_suite(void)
{
    Suite *s = suite_create("optim");
    TCase *c = tcase_create("optim");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, steps_equal_the_reference, 0, (int)(sizeof stepped / sizeof stepped[0]));
    tcase_add_test(c, clipping_equals_the_reference);
    tcase_add_test(c, schedules_equal_the_reference);
    tcase_add_test(c, schedules_at_their_ends);
    tcase_add_test(c, schedules_equal_their_recurrences);
    tcase_add_test(c, a_plateau_reduces_the_rate);
    tcase_add_test(c, lion_equals_its_formula);
    tcase_add_test(c, groups_of_the_options);
    tcase_add_test(c, averages_follow_their_parameters);
    tcase_add_test(c, globs);
    tcase_add_test(c, groups_scale_rate_and_decay);
    tcase_add_test(c, matrices_alone_decay);
    tcase_add_test(c, later_parameters_join);
    tcase_add_test(c, a_tied_parameter_has_one_state);
    tcase_add_test(c, clipping_of_small_gradients_is_guarded);
    tcase_add_loop_test(c, a_gradient_factor_equals_a_clipped_gradient, DT_SGD, DT_LION + 1);
    tcase_add_test(c, state_written_from_outside_counts);
    tcase_add_test(c, nothing_is_written_before_all_is_checked);
    tcase_add_test(c, refused_writes_have_the_same_message_everywhere);
    tcase_add_test(c, a_recorded_pass_refuses_the_step);
    tcase_add_test(c, bad_options);
    tcase_add_test(c, schedules_of_zeros);
    tcase_add_test(c, clipping_leaves_gradients_with_infinite_norm);
    suite_add_tcase(s, c);
    return s;
}

/* The search for bits: the knapsack against all combinations, bytes as they turn out, budgets that
 * cannot be met, interruption. */
#include "testing.h"

#include "sweep/search.h"

#include <stdio.h>
#include <stdlib.h>

#define DETENT "'" DETENT_BINARY_DIR "/detent' "

static dt_ctx *ctx;
static char folder[TEST_PATH], dir[TEST_PATH];

static void setup(void)
{
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    test_folder(folder);
    test_join(dir, folder, "search");
}

static void teardown(void) { dt_ctx_free(ctx); }

/* ---- the choice ----------------------------------------------------------------------------- */

static uint32_t below(uint32_t *state, uint32_t n)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % n;
}

#define LAYERS 4

static void draw(dt__search *s, uint32_t *state)
{
    s->fixed = 10 + below(state, 20);
    for (int i = 0; i < LAYERS; i++) {
        dt__search_layer *l = &s->layer[i];
        *l = (dt__search_layer){ .n = 1 + (int)below(state, 5) };
        for (int k = 0; k < l->n; k++) {
            l->choice[k].bytes = 1 + below(state, 60);
            l->choice[k].cost = (double)below(state, 1000) / 1000 - 0.1;
        }
    }
}

/* The least cost of all combinations that fit. */
static double least_cost(const dt__search *s, int layer, int64_t left)
{
    double best = layer == LAYERS ? 0 : 1e9;
    for (int k = 0; layer < LAYERS && k < s->layer[layer].n; k++) {
        const dt__choice *c = &s->layer[layer].choice[k];
        if (c->bytes > left) continue;
        const double cost = c->cost + least_cost(s, layer + 1, left - c->bytes);
        if (cost < best) best = cost;
    }
    return best;
}

START_TEST(the_choice_is_the_best_of_all)
{
    dt__search_layer layer[LAYERS];
    dt__search s = { .ctx = ctx, .layer = layer, .n = LAYERS };
    uint32_t state = 7;
    int met = 0;
    for (int i = 0; i < 300; i++) {
        draw(&s, &state);
        const int64_t budget = s.fixed + 4 + below(&state, 240);
        bool fits;
        TEST_OK(ctx, dt__search_choose(&s, budget, &fits));
        int64_t least, most, bytes = s.fixed;
        dt__search_bounds(&s, &least, &most);
        TEST_EACH(fits == (budget >= least), "case %d", i);
        if (!fits) continue;
        double cost = 0;
        for (int k = 0; k < LAYERS; k++) {
            bytes += layer[k].choice[layer[k].chosen].bytes;
            cost += layer[k].choice[layer[k].chosen].cost;
        }
        const double wanted = least_cost(&s, 0, budget - s.fixed);
        TEST_EACH(bytes <= budget, "case %d: %lld bytes of %lld", i, (long long)bytes,
                  (long long)budget);
        TEST_EACH(test_near(cost, wanted, 1e-9, 0), "case %d: %g, not %g", i, cost, wanted);
        met++;
    }
    ck_assert_int_gt(met, 150);
}
END_TEST

/* With units of several bytes what is chosen still fits. */
START_TEST(large_budgets_are_kept)
{
    dt__search_layer layer[LAYERS];
    dt__search s = { .ctx = ctx, .layer = layer, .n = LAYERS };
    uint32_t state = 11;
    draw(&s, &state);
    for (int i = 0; i < LAYERS; i++) {
        for (int k = 0; k < layer[i].n; k++) layer[i].choice[k].bytes *= 1000003;
    }
    int64_t least, most;
    dt__search_bounds(&s, &least, &most);
    for (int64_t budget = least; budget < most; budget += (most - least) / 7 + 1) {
        bool fits;
        int64_t bytes = s.fixed;
        TEST_OK(ctx, dt__search_choose(&s, budget, &fits));
        ck_assert(fits);
        for (int i = 0; i < LAYERS; i++) bytes += layer[i].choice[layer[i].chosen].bytes;
        ck_assert_int_le(bytes, budget);
    }
}
END_TEST

/* ---- searches ------------------------------------------------------------------------------- */

static const char recipe[] =
    "run: {dir: unset, seed: 3, report: false}\n"
    "model: {family: mlp, sizes: [784, 16, 16, 10]}\n"
    "data: {format: digits, train_count: 160, test_count: 40, validation: 0.2}\n"
    "train: {epochs: 3, batch_size: 32, checkpoint: {every_steps: 3}}\n"
    "qat:\n"
    "  preset: int8-dynamic-int4-weight\n"
    "  start_step: 6\n"
    "  rules: [{match: head, activation: {quantize: false}}]\n";

static dt_status search(const char *text, const char *override, int64_t budget,
                        const dt_sweep_control *control, dt_search_summary *s)
{
    const dt_recipe_source source = { .path = "r.yaml",
                                      .text = text,
                                      .bytes = strlen(text),
                                      .overrides = &override,
                                      .n_overrides = override != NULL };
    const dt_search_options o = { .budget = budget, .dir = dir };
    return dt_search(ctx, &source, &o, control, s);
}

START_TEST(bytes_are_those_of_the_model)
{
    dt_search_summary s;
    int64_t costs = 0;
    TEST_OK(ctx, search(recipe, NULL, 6400, NULL, &s));
    ck_assert_int_eq(s.n_layers, 3);
    ck_assert_str_eq(s.layer[0].path, "layers.0");
    ck_assert_int_eq(s.uniform_bits, 2);
    ck_assert_int_eq(s.uniform_bytes[2], s.uniform_run_bytes);
    ck_assert_int_eq(s.bytes, s.automatic_run_bytes);
    ck_assert_int_le(s.bytes, 6400);
    ck_assert_int_ge(s.bytes, s.least);
    ck_assert_int_eq(s.automatic.n, 1);
    ck_assert_str_eq(s.metric.name, "accuracy");
    ck_assert_str_eq(s.metric.result_on, "test");
    double chosen = 0, uniform = 0;
    for (int64_t i = 0; i < s.n_layers; i++) {
        chosen += s.layer[i].cost;
        uniform += s.layer[i].uniform_cost;
        costs += s.layer[i].uniform_cost > 0;
    }
    ck_assert_int_gt(costs, 0);
    ck_assert_double_le(chosen, uniform);
    dt_search_summary_free(&s);
}
END_TEST

START_TEST(a_dry_run_writes_nothing)
{
    dt_search_summary s;
    const dt_recipe_source source = { .path = "r.yaml", .text = recipe, .bytes = strlen(recipe) };
    const dt_search_options o = { .budget = 100000, .dir = dir, .dry_run = true };
    TEST_OK(ctx, dt_search(ctx, &source, &o, NULL, &s));
    ck_assert_int_lt(s.least, s.uniform_bytes[2]);
    ck_assert_int_lt(s.uniform_bytes[2], s.uniform_bytes[4]);
    ck_assert_int_eq(s.uniform_bytes[3], 0);
    ck_assert_int_lt(s.uniform_bytes[4], s.uniform_bytes[8]);
    ck_assert_int_eq(s.uniform_bits, 8);
    ck_assert(!test_file_exists(dir));
    dt_search_summary_free(&s);
}
END_TEST

static const struct {
    const char *override;
    int64_t budget;
    const char *message;
} refused[] = {
    { NULL, 10, "a budget of 10 bytes cannot be met; the least possible is " },
    { "~qat", 9000, "no `qat`" },
    { "qat.start_step=0", 9000, "no float weights" },
    { "adapters={rank: 2}", 9000, "adapters" },
    { "train.epochs=none", 9000, "'train.epochs' requires an integer" },
};

START_TEST(errors_come_before_any_run)
{
    dt_search_summary s;
    TEST_FAILS(ctx, DT_ERR_CONFIG, refused[_i].message,
               search(recipe, refused[_i].override, refused[_i].budget, NULL, &s));
    ck_assert(!test_file_exists(dir));
    dt_search_summary_free(&s);
}
END_TEST

typedef struct stopper {
    int64_t calls, stop_at;
} stopper;

static bool stop(void *user)
{
    stopper *k = user;
    return ++k->calls == k->stop_at;
}

static char *best_of(const char *name)
{
    char path[TEST_PATH];
    test_join(path, folder, name);
    test_join(path, path, "best.yaml");
    return test_read_file(path, NULL);
}

START_TEST(an_interrupted_search_ends_the_same)
{
    dt_search_summary whole, s;
    TEST_OK(ctx, search(recipe, NULL, 6400, NULL, &whole));
    test_join(dir, folder, "parts");
    dt_status status = DT_ERR_INTERRUPTED;
    int interrupted = 0;
    for (; status == DT_ERR_INTERRUPTED; interrupted++) {
        stopper k = { .stop_at = 6 };
        const dt_sweep_control control = { .stop = stop, .user = &k };
        ck_assert_int_lt(interrupted, 50);
        status = search(recipe, NULL, 6400, &control, &s);
        if (status != DT_OK) dt_search_summary_free(&s);
    }
    TEST_OK(ctx, status);
    ck_assert_int_ge(interrupted, 4);
    ck_assert_double_eq(s.automatic.mean, whole.automatic.mean);
    ck_assert_double_eq(s.uniform.mean, whole.uniform.mean);
    for (int64_t i = 0; i < s.n_layers; i++) {
        ck_assert_int_eq(s.layer[i].bits, whole.layer[i].bits);
        ck_assert_double_eq(s.layer[i].cost, whole.layer[i].cost);
    }
    char *a = best_of("search"), *b = best_of("parts");
    ck_assert_str_eq(strstr(a, "seed:"), strstr(b, "seed:"));
    free(a);
    free(b);
    dt_search_summary_free(&whole);
    dt_search_summary_free(&s);
}
END_TEST

static dt_status dry(dt_ctx *c, void *user)
{
    dt_search_summary s;
    const dt_recipe_source source = { .path = "r.yaml", .text = recipe, .bytes = strlen(recipe) };
    const dt_search_options o = { .budget = 100000, .dir = dir, .dry_run = true };
    (void)user;
    const dt_status status = dt_search(c, &source, &o, NULL, &s);
    dt_search_summary_free(&s);
    return status;
}

START_TEST(memory_may_run_out) { test_every_allocation(dry, NULL); }
END_TEST

START_TEST(the_program_searches)
{
    char path[TEST_PATH];
    char *output = NULL;
    test_join(path, folder, "r.yaml");
    test_write_text(path, recipe);
    ck_assert_int_eq(test_shell(&output,
                                "cd %s && " DETENT "search r.yaml --budget 6400 --seeds 2 --quiet "
                                "&& " DETENT "train unset-search/best.yaml --quiet",
                                folder),
                     0);
    ck_assert_ptr_nonnull(strstr(output, "uniform, 2 bits"));
    ck_assert_ptr_nonnull(strstr(output, " ± "));
    ck_assert_ptr_nonnull(strstr(output, "same_bits_as_qat: true"));
    free(output);
    ck_assert_int_eq(
        test_shell(&output, "cd %s && " DETENT "search r.yaml --budget 6k 2>&1", folder), 2);
    ck_assert_ptr_nonnull(strstr(output, "should be a number of bytes"));
    free(output);
}
END_TEST

Suite *test_search_suite(void)
{
    Suite *suite = suite_create("search");
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, setup, teardown);
    tcase_set_timeout(all, 120);
    tcase_add_test(all, the_choice_is_the_best_of_all);
    tcase_add_test(all, large_budgets_are_kept);
    tcase_add_test(all, bytes_are_those_of_the_model);
    tcase_add_test(all, a_dry_run_writes_nothing);
    tcase_add_loop_test(all, errors_come_before_any_run, 0,
                        (int)(sizeof refused / sizeof refused[0]));
    tcase_add_test(all, an_interrupted_search_ends_the_same);
    tcase_add_test(all, memory_may_run_out);
    tcase_add_test(all, the_program_searches);
    suite_add_tcase(suite, all);
    return suite;
}

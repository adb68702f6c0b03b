/* Sweeps: valid and invalid descriptions, random draws, runs that fail or are interrupted,
 * successive halving, results over seeds. */
#include "testing.h"

#include <detent/experimental/report.h>
#include <detent/experimental/sweep.h>

#include <jansson.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define DETENT "'" DETENT_BINARY_DIR "/detent' "

static dt_ctx *ctx;
static char folder[TEST_PATH], dir_text[TEST_PATH + 16];

static void setup(void)
{
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    test_folder(folder);
}

static void teardown(void) { dt_ctx_free(ctx); }

/* Twelve updates of little work. */
static const char recipe[] =
    "run: {dir: unset, seed: 3, report: false}\n"
    "model: {family: mlp, sizes: [784, 8, 10]}\n"
    "data: {format: digits, train_count: 108, test_count: 40, validation: 0.1}\n"
    "train: {epochs: 4, batch_size: 32, checkpoint: {every_steps: 2}}\n"
    "qat: {preset: int8-dynamic-int4-weight, start_step: 4}\n";

static const char *more; /* an override of the recipe; NULL: none */

/* A sweep below the test's folder, in `name`. */
static dt_status read_sweep(dt_ctx *c, const char *name, const char *text, dt_sweep **out)
{
    char path[TEST_PATH];
    test_join(path, folder, name);
    snprintf(dir_text, sizeof dir_text, "run.dir=%s", path);
    const char *const overrides[] = { dir_text, more };
    const dt_sweep_source source = { .recipe = { .path = "r.yaml",
                                                 .text = recipe,
                                                 .bytes = strlen(recipe),
                                                 .overrides = overrides,
                                                 .n_overrides = more == NULL ? 1 : 2 },
                                     .path = "s.yaml",
                                     .text = text,
                                     .bytes = strlen(text) };
    return dt_sweep_read(c, &source, out);
}

/* ---- descriptions --------------------------------------------------------------------------- */

static const struct {
    const char *text, *error;
} bad[] = {
    { "", "s.yaml:1:1: error: a sweep is a map with keys such as `keys:`" },
    { "method: grid\n", "s.yaml:1:1: error: missing key 'keys'" },
    { "metod: grid\nkeys: {run.seed: [1]}\n", "s.yaml:1:1: error: unknown key 'metod' in the sweep"
                                              " (did you mean 'method'?)" },
    { "method: rndom\n", "s.yaml:1:9: error: 'method' has no choice 'rndom'" },
    { "keys: [1]\n", "s.yaml:1:7: error: 'keys' must be keys of the recipe" },
    { "keys: {}\n", "s.yaml:1:7: error: 'keys' must be keys of the recipe" },
    { "keys:\n  run.seed: []\n", "s.yaml:2:13: error: 'run.seed' has no values" },
    { "keys:\n  run.seed: [3, 4, 3]\n", "s.yaml:2:20: error: 'run.seed' has the value 3 twice" },
    { "keys:\n  run.seed: 3\n", "s.yaml:2:13: error: 'run.seed' requires a list of values" },
    { "keys:\n  run.dir: [a]\n", "s.yaml:2:3: error: 'run.dir' is set by the sweep itself" },
    { "model: {}\nkeys: {run.seed: [1]}\n", "unknown key 'model' in the sweep (its keys: " },
    { "keys:\n  run.sede: [1]\n", "s.yaml:2:3: error: unknown key 'sede' in 'run' (did you mean "
                                  "'seed'?)" },
    { "keys:\n  train.optimizer.lr: [1e-3, fast]\n",
      "s.yaml:2:30: error: 'train.optimizer.lr' requires a number, not 'fast'" },
    { "keys:\n  qat.weight.bits: [2, 40]\n", "s.yaml:2:24: error: 'qat.weight.bits' must be from" },
    { "keys:\n  model.sizes.x: [2]\n", "s.yaml:2:3: error: 'model.sizes.x': a list on the way" },
    { "keys:\n  run.seed: {from: 1, to: 2}\n", "s.yaml:2:13: error: a grid requires a list" },
    { "method: random\nruns: 2\nkeys:\n  run.seed: {from: 3, to: 2}\n",
      "s.yaml:4:13: error: 'run.seed' requires 'from' below 'to'" },
    { "method: random\nruns: 2\nkeys:\n  run.seed: {from: 3}\n",
      "s.yaml:4:13: error: missing key 'to'" },
    { "method: random\nruns: 2\nkeys:\n  run.seed: {from: 0, to: 9, scale: log}\n",
      "requires 'from' above 0" },
    { "method: random\nkeys: {run.seed: [1]}\n",
      "s.yaml:1:9: error: method 'random' requires 'runs'" },
    { "runs: 3\nkeys: {run.seed: [1]}\n", "s.yaml:1:7: error: a grid has as many runs as" },
    { "metric: acuracy\nkeys: {run.seed: [1]}\n",
      "s.yaml:1:9: error: no task has a metric 'acuracy'; expected one such as" },
    { "metric: psnr_mean_of_images\nkeys: {run.seed: [1]}\n",
      "s.yaml:1:9: error: recipe 001 has no metric 'psnr_mean_of_images'; it has accuracy, " },
    { "most_runs: 3\nkeys: {run.seed: [1, 2], train.epochs: [1, 2]}\n",
      "s.yaml:2:7: error: 4 recipes: more runs than 'most_runs' allows, 3" },
    { "seeds: 2\nmost_runs: 3\nkeys: {run.seed: [1, 2]}\n", "2 recipes of several seeds: more" },
    { "method: halving\nruns: 4\nkeys: {train.epochs: [1, 2]}\n",
      "s.yaml:3:8: error: halving changes 'train.epochs' itself" },
    { "method: halving\nruns: 4\nrungs: 10\nkeys: {run.seed: [1, 2]}\n",
      "s.yaml:3:8: error: the first two of 10 rungs would train equally long" },
    { "method: halving\nruns: 4\nrungs: 2\nkeys:\n  train.schedule.name: [linear]\n"
      "  train.schedule.total_steps: [4]\n"
      "  train.schedule.warmup_steps: [3]\n",
      "'train.schedule.warmup_steps' is 1, but 'train.schedule.total_steps' ends it at 1 (in rung "
      "1 "
      "of recipe 001 of the sweep)" },
    { "method: halving\nruns: 4\nkeys: {train: [{batch_size: 8}, {epochs: 2}]}\n",
      "s.yaml:3:8: error: halving changes 'train.epochs' itself" },
    { "keys: {run: [{seed: 1}, {dir: a}]}\n",
      "s.yaml:1:8: error: 'run.dir' is set by the sweep itself" },
    { "keys: {train.optimizer.lr: [1e-3], train.optimizer: [{name: lion}]}\n",
      "s.yaml:1:36: error: 'train.optimizer.lr' and 'train.optimizer': a value of one would" },
    { "keys: {train.optimizer: [{name: lion}], train.optimizer.lr: [1e-3]}\n",
      "s.yaml:1:41: error: 'train.optimizer' and 'train.optimizer.lr': a value of one would" },
    { "keys: {run.seed: [1, 2]}\nexclude: {run.seed: 1}\n",
      "s.yaml:2:10: error: 'exclude' must be a list of rules" },
    { "keys: {run.seed: [1, 2]}\nexclude: []\n", "s.yaml:2:10: error: 'exclude' must be a list" },
    { "keys: {run.seed: [1, 2]}\nexclude: [3]\n", "s.yaml:2:11: error: a rule of 'exclude' must" },
    { "keys: {run.seed: [1, 2]}\nexclude: [{}]\n", "s.yaml:2:11: error: a rule of 'exclude' must" },
    { "keys: {run.seed: [1, 2]}\nexclude: [{run.sed: 1}]\n",
      "s.yaml:2:12: error: 'exclude' names 'run.sed', which is none of the sweep's keys" },
    { "keys: {run.seed: [1, 2]}\nexclude: [{run.seed: 3}]\n",
      "s.yaml:2:22: error: 'run.seed' has no value '3' to exclude" },
    { "keys: {run.seed: [1, 2]}\nexclude: [{run.seed: [2, 4]}]\n",
      "s.yaml:2:26: error: 'run.seed' has no value '4' to exclude" },
    { "keys: {run.seed: [1, 2]}\nexclude: [{run.seed: [2, 1]}]\n",
      "s.yaml:2:10: error: the rules exclude all recipes" },
    { "keys: {run.seed: [1], qat.weight.range: [learned],\n  qat.weight.scheme: [asymmetric]}\n",
      "a learned range requires scheme symmetric" },
    { "folds: 1\n", "s.yaml:1:8: error: 'folds' must be 0, or at least 2" },
    { "folds: 2\nseeds: 3\n", "s.yaml:1:8: error: 'folds' and 'seeds' both repeat runs" },
    { "folds: 3\n", "'data.split' belongs to tensors" },
    { "seeds: 2\nkeys: {run.seed: [9223372036854775807]}\n",
      "recipe 001 has run.seed 9223372036854775807, which leaves no 2 seeds" },
};

START_TEST(errors_come_before_any_run)
{
    dt_sweep *s;
    ck_assert_int_eq(read_sweep(ctx, "bad", bad[_i].text, &s), DT_ERR_CONFIG);
    const char *first = dt_sweep_error_at(s, 0);
    ck_assert_msg(strstr(first, bad[_i].error) != NULL, "%s", first);
    ck_assert_int_ne(dt_sweep_run(s, NULL), DT_OK);
    dt_sweep_free(s);
}
END_TEST

/* Values that exclude each other refuse only their own recipe; rules exclude combinations. */
START_TEST(combinations_that_cannot_be_are_left_out)
{
    const char *text = "keys:\n  qat.weight.range: [dynamic, learned]\n"
                       "  qat.weight.scheme: [symmetric, asymmetric]\n"
                       "  train.optimizer.lr: [1e-3, 2e-3, 4e-3]\n"
                       "exclude:\n  - {train.optimizer.lr: 0.002, qat.weight.range: learned}\n"
                       "  - {train.optimizer.lr: [4e-3], qat.weight.scheme: symmetric}\n";
    dt_sweep *s;
    TEST_OK(ctx, read_sweep(ctx, "left", text, &s));
    ck_assert_int_eq(dt_sweep_excluded(s), 2 + 2);
    ck_assert_int_eq(dt_sweep_row_count(s), 12 - 4);
    int64_t refused = 0;
    for (int64_t i = 0; i < dt_sweep_row_count(s); i++) {
        const dt_sweep_row *row = dt_sweep_row_at(s, i);
        const bool wrong =
            strcmp(row->value[0], "learned") == 0 && strcmp(row->value[1], "asymmetric") == 0;
        ck_assert_int_eq(row->refused != NULL, wrong);
        if (wrong) ck_assert_ptr_nonnull(strstr(row->refused, "requires scheme symmetric"));
        refused += wrong;
    }
    ck_assert_int_eq(refused, 2);
    ck_assert_int_eq(dt_sweep_run_count(s), 8 - 2);
    dt_sweep_free(s);
}
END_TEST

/* Draws that a rule excludes are drawn anew. */
START_TEST(excluded_draws_are_drawn_anew)
{
    const char *text = "method: random\nruns: 9\nkeys: {run.seed: [1, 2, 3],\n"
                       "  train.optimizer.lr: {from: 1e-4, to: 1e-2}}\nexclude: [{run.seed: 2}]\n";
    dt_sweep *s;
    TEST_OK(ctx, read_sweep(ctx, "drawn", text, &s));
    ck_assert_int_eq(dt_sweep_row_count(s), 9);
    ck_assert_int_gt(dt_sweep_excluded(s), 0);
    for (int64_t i = 0; i < 9; i++) ck_assert_str_ne(dt_sweep_row_at(s, i)->value[0], "2");
    dt_sweep_free(s);
}
END_TEST

/* Exactly as many runs as are allowed. */
START_TEST(most_runs_may_run)
{
    dt_sweep *s;
    TEST_OK(ctx,
            read_sweep(ctx, "good",
                       "seeds: 2\nmost_runs: 4\nkeys: {train.optimizer.lr: [1e-3, 1e-2]}\n", &s));
    dt_sweep_free(s);
}
END_TEST

/* Errors of the recipe itself are reported unchanged; errors caused by values of a sweep name the
 * recipe, and in a short rung the rung. */
START_TEST(errors_say_whose_they_are)
{
    static const struct {
        const char *override, *text, *error;
    } cases[] = {
        { "train.batch_size=0", "keys: {run.seed: [1]}\n", "error: 'train.batch_size' must be" },
        { "train.schedule={name: linear, warmup_steps: 9}",
          "keys: {train.schedule.total_steps: [20, 4]}\n", "(in recipe 002 of the sweep)" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dt_sweep *s;
        more = cases[i].override;
        ck_assert_int_eq(read_sweep(ctx, "bad", cases[i].text, &s), DT_ERR_CONFIG);
        more = NULL;
        const char *first = dt_sweep_error_at(s, 0);
        ck_assert_msg(strstr(first, cases[i].error) != NULL, "%s", first);
        ck_assert_msg(strstr(first, "rung") == NULL, "%s", first);
        ck_assert_msg(i > 0 || strstr(first, "sweep") == NULL, "%s", first);
        dt_sweep_free(s);
    }
}
END_TEST

START_TEST(all_errors_are_listed_once)
{
    dt_sweep *s;
    ck_assert_int_eq(read_sweep(ctx, "bad",
                                "keys:\n  train.epochs: [x, 2]\n  run.seed: [1, y]\n"
                                "  train.lr: [1, 2, 3]\n",
                                &s),
                     DT_ERR_CONFIG);
    ck_assert_int_eq(dt_sweep_error_count(s), 3);
    ck_assert_ptr_nonnull(strstr(dt_sweep_error_at(s, 0), "s.yaml:2:18"));
    ck_assert_ptr_nonnull(strstr(dt_sweep_error_at(s, 1), "s.yaml:3:17"));
    ck_assert_ptr_nonnull(strstr(dt_sweep_error_at(s, 2), "s.yaml:4:3"));
    dt_sweep_free(s);
}
END_TEST

/* ---- values --------------------------------------------------------------------------------- */

static void check_value(const dt_sweep *s, int64_t row, int key, const char *text)
{
    ck_assert_str_eq(dt_sweep_row_at(s, row)->value[key], text);
}

START_TEST(a_grid_has_all_combinations)
{
    dt_sweep *s;
    TEST_OK(ctx, read_sweep(ctx, "grid",
                            "seeds: 2\nkeys: {train.epochs: [1, 2], model.sizes: [[784, 9, 10], "
                            "[784, 10], [784, 8, 10]]}\n",
                            &s));
    ck_assert_int_eq(dt_sweep_row_count(s), 6);
    ck_assert_int_eq(dt_sweep_run_count(s), 12);
    check_value(s, 0, 1, "[784, 9, 10]");
    check_value(s, 2, 0, "1");
    check_value(s, 2, 1, "[784, 8, 10]");
    check_value(s, 3, 0, "2");
    check_value(s, 3, 1, "[784, 9, 10]");
    dt_sweep_free(s);
}
END_TEST

static const char drawn[] = "method: random\nruns: %d\nseed: %d\nkeys:\n"
                            "  train.optimizer.lr: {from: 1e-4, to: 1e-1, scale: log}\n"
                            "  train.batch_size: {from: 16, to: 19}\n"
                            "  train.clip_grad_norm: [0, 1, 2]\n";

static dt_sweep *draw(int runs, int seed)
{
    char text[512];
    dt_sweep *s;
    snprintf(text, sizeof text, drawn, runs, seed);
    TEST_OK(ctx, read_sweep(ctx, "drawn", text, &s));
    return s;
}

START_TEST(draws_lie_in_their_ranges)
{
    dt_sweep *s = draw(200, 5);
    int seen[4] = { 0 }, low = 0;
    for (int64_t i = 0; i < 200; i++) {
        const dt_sweep_row *row = dt_sweep_row_at(s, i);
        const double lr = strtod(row->value[0], NULL);
        const long batch = strtol(row->value[1], NULL, 10);
        TEST_EACH(lr >= 1e-4 && lr <= 1e-1, "lr %s", row->value[0]);
        TEST_EACH(batch >= 16 && batch <= 19, "batch %s", row->value[1]);
        TEST_EACH(strlen(row->value[0]) <= 12, "%s has more digits than six", row->value[0]);
        seen[batch - 16]++;
        low += lr < 1e-3;
    }
    for (int k = 0; k < 4; k++) ck_assert_int_gt(seen[k], 25);
    ck_assert_int_gt(low, 40); /* a third of the powers */
    ck_assert_int_lt(low, 95);
    dt_sweep_free(s);
}
END_TEST

START_TEST(draws_depend_on_the_seed_alone)
{
    dt_sweep *few = draw(3, 5), *many = draw(20, 5), *other = draw(3, 6);
    for (int64_t i = 0; i < 3; i++) {
        for (int k = 0; k < 3; k++) check_value(few, i, k, dt_sweep_row_at(many, i)->value[k]);
    }
    ck_assert_str_ne(dt_sweep_row_at(few, 0)->value[0], dt_sweep_row_at(other, 0)->value[0]);
    dt_sweep_free(few);
    dt_sweep_free(many);
    dt_sweep_free(other);
}
END_TEST

/* A sweep of three folds over a table with these settings of data. */
static dt_status read_folds(const char *settings, dt_sweep **out)
{
    char dir[TEST_PATH + 16], data[TEST_PATH + 16], path[TEST_PATH], text[512];
    snprintf(text, sizeof text,
             "run: {dir: unset, report: false}\n"
             "model: {family: mlp, sizes: [1, 4, 2]}\n"
             "data: {format: tensors, train: {x: t.csv}, columns: {target: y}, %s}\n"
             "train: {epochs: 1, batch_size: 8}\n",
             settings);
    test_join(path, folder, "t.csv");
    FILE *f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    fputs("x,y\n", f);
    for (int i = 0; i < 30; i++) fprintf(f, "%d,%d\n", i * 7 % 11, i % 2);
    ck_assert(fclose(f) == 0);
    snprintf(dir, sizeof dir, "run.dir=%s/folds", folder);
    snprintf(data, sizeof data, "data.dir=%s", folder);
    const char *const overrides[] = { dir, data };
    const dt_sweep_source source = { .recipe = { .path = "r.yaml",
                                                 .text = text,
                                                 .bytes = strlen(text),
                                                 .overrides = overrides,
                                                 .n_overrides = 2 },
                                     .path = "--folds",
                                     .text = "{}",
                                     .bytes = 2,
                                     .folds = 3 };
    return dt_sweep_read(ctx, &source, out);
}

/* Folds replace a test share, which recipes of `detent new` have. */
START_TEST(folds_replace_a_test_share)
{
    dt_sweep *s;
    TEST_OK(ctx, read_folds("split: {by: rows, test: 0.2}, validation: 0.2", &s));
    TEST_OK(ctx, dt_sweep_run(s, NULL));
    ck_assert_int_eq(dt_sweep_row_at(s, 0)->result.n, 3);
    dt_sweep_free(s);
}
END_TEST

/* Before the first run. */
START_TEST(folds_of_rows_in_order_of_time_are_refused)
{
    dt_sweep *s;
    ck_assert_int_eq(read_folds("validation_order: time", &s), DT_ERR_CONFIG);
    ck_assert_ptr_nonnull(strstr(dt_sweep_error_at(s, 0), "taken to be in the order of time"));
    dt_sweep_free(s);
}
END_TEST

/* ---- runs ----------------------------------------------------------------------------------- */

static const char grid[] = "keys: {train.optimizer.lr: [3e-3, 1e30, 1e-5]}\n";

static char *sweep_file(const char *name, const char *file, size_t *size)
{
    char path[TEST_PATH], part[128];
    snprintf(part, sizeof part, "%s-sweep/%s", name, file);
    test_join(path, folder, part);
    return test_read_file(path, size);
}

START_TEST(a_failing_run_loses_no_other)
{
    char path[TEST_PATH];
    dt_sweep *s;
    TEST_OK(ctx, read_sweep(ctx, "a", grid, &s));
    TEST_OK(ctx, dt_sweep_run(s, NULL));
    check_value(s, 0, 0, "3e-3");
    check_value(s, 1, 0, "1e-5");
    check_value(s, 2, 0, "1e30");
    ck_assert_ptr_nonnull(strstr(dt_sweep_row_at(s, 2)->error, "not finite"));
    ck_assert_int_eq(dt_sweep_row_at(s, 2)->chosen.n, 0);
    ck_assert_ptr_null(dt_sweep_row_at(s, 0)->error);
    ck_assert_str_eq(dt_sweep_metric_of(s).name, "accuracy");
    ck_assert_str_eq(dt_sweep_metric_of(s).chosen_on, "validation");
    ck_assert_str_eq(dt_sweep_metric_of(s).result_on, "test");
    dt_sweep_free(s);
    free(sweep_file("a", "report.html", NULL));
    test_join(path, folder, "a-sweep/best.yaml");
    char *output = NULL;
    ck_assert_int_eq(test_shell(&output, DETENT "train %s --quiet 2>&1", path), 0);
    ck_assert_ptr_nonnull(strstr(output, "a-sweep/best"));
    free(output);
}
END_TEST

/* Without an update of QAT the evaluations are those of a float model, not of the converted one:
 * the result is used instead. */
START_TEST(a_run_without_qat_has_no_validation)
{
    dt_sweep *s;
    TEST_OK(ctx, read_sweep(ctx, "b", "keys: {qat.start_step: [100, 4]}\n", &s));
    TEST_OK(ctx, dt_sweep_run(s, NULL));
    for (int64_t i = 0; i < 2; i++) {
        const dt_sweep_row *row = dt_sweep_row_at(s, i);
        if (strcmp(row->value[0], "100") != 0) continue;
        ck_assert(row->chosen.n == 1 && row->result.n == 1);
        ck_assert(row->chosen.mean == row->result.mean);
    }
    dt_sweep_free(s);
}
END_TEST

typedef struct stopper {
    int64_t calls, stop_at;
    int begun;
} stopper;

static bool stop(void *user)
{
    stopper *k = user;
    return ++k->calls == k->stop_at;
}

static void begins(void *user, const dt_sweep_turn *turn)
{
    ck_assert(turn->done >= 0 && turn->own > 0 && turn->done + turn->own <= 1 + 1e-9);
    ((stopper *)user)->begun++;
}

static dt_status run_until(const char *name, const char *text, stopper *k)
{
    dt_sweep *s;
    const dt_sweep_control control = { .stop = stop, .begins = begins, .user = k };
    TEST_OK(ctx, read_sweep(ctx, name, text, &s));
    const dt_status status = dt_sweep_run(s, &control);
    dt_sweep_free(s);
    return status;
}

static void check_same_file(const char *a, const char *b, const char *file)
{
    size_t n, m;
    char *x = sweep_file(a, file, &n), *y = sweep_file(b, file, &m);
    ck_assert_msg(n == m && memcmp(x, y, n) == 0, "%s differs", file);
    free(x);
    free(y);
}

static const char halved[] = "method: halving\nruns: 3\nrungs: 2\nreduce: 2\nseeds: 2\nkeys:\n"
                             "  train.optimizer.lr: {from: 1e-4, to: 1e-2, scale: log}\n";

/* Stops once at each of some calls, up to the sweep's end, and resumes each time. */
START_TEST(an_interrupted_sweep_ends_the_same)
{
    static const char *const runs[] = { "001-r1-seed3", "002-r1-seed4", "003-r1-seed3" };
    stopper whole = { 0 }, part = { 0 };
    TEST_OK(ctx, run_until("whole", halved, &whole));
    const int64_t step = whole.calls / test_count((test_draws){ .usual = 12, .sanitized = 4 }) + 1;
    dt_status status = DT_ERR_INTERRUPTED;
    int interrupted = 0;
    for (; status == DT_ERR_INTERRUPTED; interrupted++) {
        ck_assert_int_lt(interrupted, 100);
        part = (stopper){ .stop_at = step };
        status = run_until("parts", halved, &part);
    }
    TEST_OK(ctx, status);
    ck_assert_int_ge(interrupted, 4);
    for (int i = 0; i < 3; i++) {
        char file[64];
        snprintf(file, sizeof file, "%s/model.safetensors", runs[i]);
        check_same_file("whole", "parts", file);
    }
    char *a = sweep_file("whole", "best.yaml", NULL), *b = sweep_file("parts", "best.yaml", NULL);
    ck_assert_str_eq(strstr(a, "seed:"), strstr(b, "seed:"));
    free(a);
    free(b);
    stopper again = { 0 };
    TEST_OK(ctx, run_until("parts", halved, &again));
    ck_assert_int_eq(again.begun, 0);
}
END_TEST

START_TEST(rungs_train_for_longer)
{
    dt_sweep *s;
    stopper k = { 0 };
    TEST_OK(ctx, run_until("whole", halved, &k));
    ck_assert_int_eq(k.begun, 10);
    char *first = sweep_file("whole", "001-r1-seed3/recipe.yaml", NULL);
    ck_assert_ptr_nonnull(strstr(first, "epochs: 2 "));
    ck_assert_ptr_nonnull(strstr(first, "start_step: 2 "));
    free(first);
    TEST_OK(ctx, read_sweep(ctx, "whole", halved, &s));
    TEST_OK(ctx, dt_sweep_run(s, NULL));
    ck_assert_int_eq(dt_sweep_row_at(s, 0)->rung, 2);
    ck_assert_int_eq(dt_sweep_row_at(s, 1)->rung, 2);
    ck_assert_int_eq(dt_sweep_row_at(s, 2)->rung, 1);
    char file[64];
    snprintf(file, sizeof file, "%s-r2-seed3/recipe.yaml", dt_sweep_row_at(s, 0)->name);
    char *last = sweep_file("whole", file, NULL);
    ck_assert_ptr_nonnull(strstr(last, "epochs: 4 "));
    ck_assert_ptr_nonnull(strstr(last, "start_step: 4 "));
    free(last);
    dt_sweep_free(s);
}
END_TEST

/* Lengths in a short rung that are too long, or never reached, are errors. */
START_TEST(rungs_shorten_lengths_of_schedules)
{
    static const struct {
        const char *keys, *is;
    } lengths[] = {
        { "train.schedule: [{name: warmup_stable_decay, warmup_steps: 4, decay_steps: 8}]",
          "decay_steps: 4 " },
        { "train.schedule: [{name: cosine_restarts, every: 6}]", "every: 3 " },
        { "train.schedule: [{name: multistep, milestones: [4, 5, 9]}]", "milestones: [2, 3, 4]" },
        { "train.average: [{name: epochs, last: 3}]", "last: 1 " },
    };
    stopper k = { 0 };
    char text[256];
    snprintf(text, sizeof text, "method: halving\nruns: 2\nrungs: 2\nreduce: 2\nkeys:\n  %s\n",
             lengths[_i].keys);
    TEST_OK(ctx, run_until("lengths", text, &k));
    char *first = sweep_file("lengths", "001-r1/recipe.yaml", NULL);
    ck_assert_msg(strstr(first, lengths[_i].is) != NULL, "%s", first);
    free(first);
    first = sweep_file("lengths", "001-r1/summary.json", NULL);
    free(first);
}
END_TEST

/* None of rung 1 has a result: rung 2 would train them longer for nothing. */
START_TEST(recipes_that_failed_enter_no_rung)
{
    static const char text[] = "method: halving\nruns: 3\nrungs: 2\nreduce: 2\n"
                               "keys: {train.optimizer.lr: [1e30]}\n";
    stopper k = { 0 };
    dt_sweep *s;
    TEST_OK(ctx, run_until("failing", text, &k));
    ck_assert_int_eq(k.begun, 3);
    TEST_OK(ctx, read_sweep(ctx, "failing", text, &s));
    TEST_OK(ctx, dt_sweep_run(s, NULL));
    ck_assert_int_eq(dt_sweep_row_at(s, 0)->rung, 1);
    ck_assert_ptr_nonnull(strstr(dt_sweep_row_at(s, 0)->error, "not finite"));
    dt_sweep_free(s);
}
END_TEST

START_TEST(a_damaged_summary_is_written_again)
{
    static const char text[] = "keys: {train.optimizer.lr: [1e-3, 3e-3]}\n";
    static const char *const damaged[] = { "", "{", "{}", "[[" };
    char path[TEST_PATH];
    stopper k = { 0 };
    dt_sweep *s;
    TEST_OK(ctx, run_until("damaged", text, &k));
    test_join(path, folder, "damaged-sweep/001/summary.json");
    test_write_text(path, damaged[_i]);
    k = (stopper){ 0 };
    TEST_OK(ctx, run_until("damaged", text, &k));
    ck_assert_int_eq(k.begun, 1);
    TEST_OK(ctx, read_sweep(ctx, "damaged", text, &s));
    TEST_OK(ctx, dt_sweep_run(s, NULL));
    for (int i = 0; i < 2; i++) ck_assert(isfinite(dt_sweep_row_at(s, i)->result.mean));
    dt_sweep_free(s);
}
END_TEST

static void sweep_there_too(void *user, const dt_sweep_turn *turn)
{
    dt_ctx *other;
    dt_sweep *s;
    (void)turn;
    TEST_OK(NULL, dt_ctx_create(&other, NULL));
    TEST_OK(other, read_sweep(other, "locked", halved, &s));
    TEST_FAILS(other, DT_ERR_STATE, "another process works in", dt_sweep_run(s, NULL));
    dt_sweep_free(s);
    dt_ctx_free(other);
    ++*(int *)user;
}

/* Leftovers of a call that was killed before it had a plan do not matter; another sweep's plan
 * does. */
START_TEST(a_folder_is_locked)
{
    int tried = 0;
    char path[TEST_PATH];
    dt_sweep *s;
    const dt_sweep_control control = { .begins = sweep_there_too, .user = &tried };
    ck_assert_int_eq(test_shell(NULL, "mkdir %s/locked-sweep", folder), 0);
    test_join(path, folder, "locked-sweep/.detent-1-0.tmp");
    test_write_text(path, "{");
    TEST_OK(ctx, read_sweep(ctx, "locked", halved, &s));
    TEST_OK(ctx, dt_sweep_run(s, &control));
    ck_assert_int_eq(tried, 10);
    dt_sweep_free(s);
}
END_TEST

static double accuracy_of(const char *name, const char *run)
{
    char file[64];
    snprintf(file, sizeof file, "%s/summary.json", run);
    char *text = sweep_file(name, file, NULL);
    const char *row = strstr(text, "\"converted\""), *value = strstr(row, "\"accuracy\": ");
    const double found = strtod(value + strlen("\"accuracy\": "), NULL);
    free(text);
    return found;
}

static dt_status append(void *text, const char *bytes, size_t n)
{
    ck_assert_uint_lt(strlen(text) + n, 8192);
    strncat(text, bytes, n);
    return DT_OK;
}

START_TEST(seeds_give_mean_and_spread)
{
    dt_sweep *s;
    TEST_OK(ctx, read_sweep(ctx, "seeds", "seeds: 3\nkeys: {train.optimizer.lr: [3e-3]}\n", &s));
    TEST_OK(ctx, dt_sweep_run(s, NULL));
    const double x[] = { accuracy_of("seeds", "001-seed3"), accuracy_of("seeds", "001-seed4"),
                         accuracy_of("seeds", "001-seed5") };
    const double mean = (x[0] + x[1] + x[2]) / 3;
    double squares = 0;
    for (int i = 0; i < 3; i++) squares += (x[i] - mean) * (x[i] - mean);
    const dt_spread found = dt_sweep_row_at(s, 0)->result;
    ck_assert_int_eq(found.n, 3);
    TEST_NEAR(found.mean, mean, 1e-12, 0);
    TEST_NEAR(found.deviation, sqrt(squares / 2), 1e-12, 0);
    ck_assert_double_gt(found.deviation, 0);
    char text[8192] = "";
    TEST_OK(ctx, dt_sweep_json(s, append, text));
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_msg(root != NULL, "%s", text);
    json_t *row = json_array_get(json_object_get(root, "rows"), 0);
    json_t *result = json_object_get(row, "result");
    TEST_NEAR(json_real_value(json_object_get(result, "deviation")), found.deviation, 1e-12, 0);
    json_decref(root);
    dt_sweep_free(s);
}
END_TEST

static dt_status collect(void *user, const char *bytes, size_t n)
{
    char *text = user;
    const size_t used = strlen(text);
    ck_assert_uint_lt(used + n, 1 << 14);
    memcpy(text + used, bytes, n);
    text[used + n] = 0;
    return DT_OK;
}

/* A column of the line that begins with `name`. */
static double column_of(const char *csv, const char *name, const char *column)
{
    const char *line = strstr(csv, name), *head = csv;
    const char *at = strstr(csv, column);
    ck_assert_ptr_nonnull(at);
    ck_assert_ptr_nonnull(line);
    for (; head <= at; head++) {
        if (*head == ',') line = strchr(line, ',') + 1;
    }
    return strtod(line, NULL);
}

static const char crossed[] = "seeds: 3\nkeys:\n  qat.weight.range: [dynamic, learned]\n"
                              "  qat.weight.scheme: [symmetric, asymmetric]\n"
                              "  qat.weight.bits: [4, 8]\n"
                              "exclude: [{qat.weight.bits: 8, qat.weight.range: learned}]\n";

/* Pages and comparisons show means over seeds as the sweep computes them, and what has no run. */
START_TEST(recipes_are_cells)
{
    static char csv[1 << 14], twice[1 << 14];
    const dt_compare_options form = { .form = DT_COMPARE_CSV };
    dt_sweep *s;
    size_t n;
    csv[0] = twice[0] = 0;
    TEST_OK(ctx, read_sweep(ctx, "cells", crossed, &s));
    TEST_OK(ctx, dt_sweep_run(s, NULL));
    const char *both[] = { dt_sweep_get(s)->dir, dt_sweep_get(s)->dir };
    TEST_OK(ctx, dt_report_compare(ctx, both, 1, &form, collect, csv));
    for (int64_t i = 0; i < dt_sweep_row_count(s); i++) {
        const dt_sweep_row *row = dt_sweep_row_at(s, i);
        char name[16];
        snprintf(name, sizeof name, "\n%s,", row->name);
        ck_assert_int_eq(strstr(csv, name) == NULL, row->refused != NULL);
        if (row->refused != NULL) continue;
        TEST_NEAR(column_of(csv, name, ",accuracy_mean") - row->result.mean, 0, 1e-12, 0);
        TEST_NEAR(column_of(csv, name, ",accuracy_deviation") - row->result.deviation, 0, 1e-12, 0);
        ck_assert_int_eq((int64_t)column_of(csv, name, ",bytes"), row->bytes);
    }
    TEST_OK(ctx, dt_report_compare(ctx, both, 2, NULL, collect, twice));
    ck_assert_ptr_nonnull(strstr(twice, "15 runs repeat recipe and seed of others"));
    ck_assert_ptr_nonnull(strstr(twice, "\ncells-sweep/006 cannot be: "));
    ck_assert_ptr_nonnull(strstr(twice, "4 combinations of values left out by exclude"));
    char *page = sweep_file("cells", "report.html", &n);
    ck_assert_ptr_nonnull(strstr(page, "15 runs of 5 recipes"));
    ck_assert_ptr_nonnull(strstr(page, "over bits of a weight"));
    ck_assert_ptr_nonnull(strstr(page, "over bytes of the model"));
    ck_assert_ptr_nonnull(strstr(page, "006 cannot be: "));
    free(page);
    dt_sweep_free(s);
}
END_TEST

/* At every width the spread is whole. */
START_TEST(the_spread_is_not_cut)
{
    static char text[1 << 14];
    dt_sweep *s;
    TEST_OK(ctx, read_sweep(ctx, "width", crossed, &s));
    TEST_OK(ctx, dt_sweep_run(s, NULL));
    const char *dir = dt_sweep_get(s)->dir;
    for (int columns = 44; columns < 140; columns += 7) {
        const dt_compare_options narrow = { .columns = columns };
        text[0] = 0;
        TEST_OK(ctx, dt_report_compare(ctx, &dir, 1, &narrow, collect, text));
        int whole = 0;
        for (const char *at = text; (at = strstr(at, " ± ")) != NULL; at++) {
            whole += strspn(at + 4, "0123456789.") > 3 && strncmp(at + 8, " %", 2) == 0;
        }
        ck_assert_int_ge(whole, 5);
    }
    dt_sweep_free(s);
}
END_TEST

START_TEST(a_folder_holds_one_sweep)
{
    stopper k = { 0 };
    dt_sweep *s;
    TEST_OK(ctx, run_until("one", "keys: {run.seed: [1]}\n", &k));
    TEST_OK(ctx, read_sweep(ctx, "one", "keys: {run.seed: [2]}\n", &s));
    TEST_FAILS(ctx, DT_ERR_CONFIG, "another recipe or description", dt_sweep_run(s, NULL));
    dt_sweep_free(s);
    char path[TEST_PATH];
    test_join(path, folder, "two-sweep");
    test_write_text(path, "a file");
    TEST_OK(ctx, read_sweep(ctx, "two", "keys: {run.seed: [2]}\n", &s));
    TEST_FAILS(ctx, DT_ERR_CONFIG, "holds something else", dt_sweep_run(s, NULL));
    dt_sweep_free(s);
}
END_TEST

/* A number of the data is another one, or there is one more row. */
START_TEST(a_folder_holds_runs_of_the_same_data)
{
    char table[TEST_PATH], text[40 * 16] = "x,y\n";
    static char rows_recipe[TEST_PATH + 400], rows_dir[TEST_PATH + 16];
    test_join(table, folder, "rows.csv");
    snprintf(rows_dir, sizeof rows_dir, "run.dir=%s/rows", folder);
    snprintf(rows_recipe, sizeof rows_recipe,
             "run: {dir: unset, report: false}\n"
             "model: {family: mlp, sizes: [1, 4, 1]}\n"
             "data: {format: tensors, dir: %s, train: {x: [rows.csv]}, columns: {target: y}, task: "
             "regression}\n"
             "train: {epochs: 1, batch_size: 8}\n",
             folder);
    for (int i = 0; i < 30; i++) sprintf(text + strlen(text), "%d,%d\n", i, i % 7);
    const char *const overrides[] = { rows_dir };
    const dt_sweep_source source = {
        .recipe = { .path = "r.yaml",
                    .text = rows_recipe,
                    .bytes = strlen(rows_recipe),
                    .overrides = overrides,
                    .n_overrides = 1 },
        .path = "s.yaml",
        .text = "keys: {run.seed: [1, 2]}\n",
        .bytes = 25,
    };
    for (int i = 0; i < 4; i++) { /* made, again, another number, another row */
        dt_sweep *s;
        if (i == 2) strstr(text, "\n5,")[1] = '6';
        if (i == 3) strstr(text, "\n6,")[1] = '5';
        if (i == 3) strcat(text, "30,1\n");
        test_write_text(table, text);
        TEST_OK(ctx, dt_sweep_read(ctx, &source, &s));
        if (i < 2) TEST_OK(ctx, dt_sweep_run(s, NULL));
        else TEST_FAILS(ctx, DT_ERR_CONFIG, "files of data have changed", dt_sweep_run(s, NULL));
        dt_sweep_free(s);
    }
}
END_TEST

static dt_status read_and_free(dt_ctx *c, void *user)
{
    dt_sweep *s;
    (void)user;
    const dt_status status = read_sweep(c, "memory", halved, &s);
    if (status == DT_OK) dt_sweep_free(s);
    return status;
}

START_TEST(memory_may_run_out) { test_every_allocation(read_and_free, NULL); }
END_TEST

/* ---- the program ---------------------------------------------------------------------------- */

START_TEST(the_program_sweeps)
{
    char path[TEST_PATH];
    char *output = NULL;
    test_join(path, folder, "r.yaml");
    test_write_text(path, recipe);
    test_join(path, folder, "s.yaml");
    test_write_text(path, grid);
    ck_assert_int_eq(test_shell(&output,
                                "cd %s && " DETENT "sweep r.yaml s.yaml --dry-run train.epochs=1",
                                folder),
                     0);
    ck_assert_ptr_nonnull(strstr(output, "3 runs of 3 recipes in unset-sweep"));
    free(output);
    ck_assert_int_eq(test_shell(&output, /* without data held back there is one column of results */
                                "cd %s && " DETENT "sweep r.yaml s.yaml --quiet train.epochs=1 "
                                "run.dir=alone '~data.validation' ; rm -r alone-sweep",
                                folder),
                     0);
    ck_assert_ptr_nonnull(strstr(output, "   test  bytes\n"));
    free(output);
    ck_assert_int_eq(test_shell(&output,
                                "cd %s && ! test -e unset-sweep && " DETENT
                                "sweep r.yaml s.yaml --quiet --seeds 2 train.epochs=1",
                                folder),
                     1); /* one of the runs fails */
    ck_assert_ptr_nonnull(strstr(output, "002 failed: "));
    ck_assert_ptr_nonnull(strstr(output, " ± "));
    ck_assert_ptr_nonnull(strstr(output, "standard deviation of the sample, 2 seeds each"));
    free(output);
    ck_assert_int_eq(test_shell(NULL,
                                "cd %s && " DETENT "sweep r.yaml s.yaml --quiet --seeds 2 "
                                "train.epochs=1 --json >out.json",
                                folder),
                     1);
    ck_assert_int_eq(test_shell(&output,
                                "cd %s && " DETENT "compare unset-sweep/001-seed3 "
                                "unset-sweep/001-seed4 unset-sweep/003-seed3 "
                                "unset-sweep/003-seed4 --seeds 2",
                                folder),
                     0);
    ck_assert_ptr_nonnull(strstr(output, " ± "));
    ck_assert_ptr_null(strstr(output, "run.seed"));
    free(output);
    ck_assert_int_eq(test_shell(&output,
                                "cd %s && " DETENT "compare unset-sweep/001-seed3 "
                                "unset-sweep/003-seed4 --seeds 2 2>&1",
                                folder),
                     2);
    ck_assert_ptr_nonnull(strstr(output, "they differ in train.optimizer.lr"));
    free(output);
}
END_TEST

Suite *test_sweep_suite(void)
{
    Suite *suite = suite_create("sweep");
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, setup, teardown);
    tcase_set_timeout(all, 120);
    tcase_add_test(all, combinations_that_cannot_be_are_left_out);
    tcase_add_test(all, excluded_draws_are_drawn_anew);
    tcase_add_loop_test(all, errors_come_before_any_run, 0, (int)(sizeof bad / sizeof bad[0]));
    tcase_add_test(all, most_runs_may_run);
    tcase_add_test(all, folds_replace_a_test_share);
    tcase_add_test(all, folds_of_rows_in_order_of_time_are_refused);
    tcase_add_test(all, errors_say_whose_they_are);
    tcase_add_test(all, all_errors_are_listed_once);
    tcase_add_test(all, a_grid_has_all_combinations);
    tcase_add_test(all, draws_lie_in_their_ranges);
    tcase_add_test(all, draws_depend_on_the_seed_alone);
    tcase_add_test(all, a_failing_run_loses_no_other);
    tcase_add_test(all, a_run_without_qat_has_no_validation);
    tcase_add_test(all, an_interrupted_sweep_ends_the_same);
    tcase_add_test(all, rungs_train_for_longer);
    tcase_add_loop_test(all, rungs_shorten_lengths_of_schedules, 0, 4);
    tcase_add_test(all, recipes_that_failed_enter_no_rung);
    tcase_add_test(all, a_folder_is_locked);
    tcase_add_loop_test(all, a_damaged_summary_is_written_again, 0, 4);
    tcase_add_test(all, seeds_give_mean_and_spread);
    tcase_add_test(all, recipes_are_cells);
    tcase_add_test(all, the_spread_is_not_cut);
    tcase_add_test(all, a_folder_holds_one_sweep);
    tcase_add_test(all, a_folder_holds_runs_of_the_same_data);
    tcase_add_test(all, memory_may_run_out);
    tcase_add_test(all, the_program_sweeps);
    suite_add_tcase(suite, all);
    return suite;
}

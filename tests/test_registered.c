/* Losses, metrics and sources of data that a program registers: recipes name them, runs and
 * evaluations use them, and an unknown name is refused with a list of the known ones. */
#include "sample.h"

#include <detent/experimental/ops.h>
#include <detent/experimental/train.h>
#include <math.h>
#include <stdio.h>

/* ---- what a program brings ------------------------------------------------------------------ */

/* The sum of e^2, so that it can be compared with
 * detent's own loss. */
static dt_tensor *squares(dt_tape *t, dt_tensor *y, dt_tensor *target, void *user)
{
    ++*(int *)user;
    return dt_sum(t, dt_square(t, dt_sub(t, y, target)), NULL);
}

static dt_tensor *no_scalar(dt_tape *t, dt_tensor *y, dt_tensor *target, void *user)
{
    (void)user;
    return dt_sub(t, y, target);
}

typedef struct largest {
    double error;
    double examples;
} largest;

static void add_error(void *state, const float *y, int64_t n, const void *target)
{
    largest *s = state;
    const float *wanted = target;
    for (int64_t i = 0; i < n; i++) s->error = fmax(s->error, fabs((double)(y[i] - wanted[i])));
    s->examples++;
}

static double error_of(const void *state) { return ((const largest *)state)->error; }
static double examples_of(const void *state) { return ((const largest *)state)->examples; }

static const dt_own_metric metrics[] = {
    { { "worst", "worst", NULL, 1, 4, false },
      DT_TARGET_VALUES,
      sizeof(largest),
      add_error,
      error_of },
    { { "examples", "n", NULL, 1, 0, true },
      DT_TARGET_VALUES,
      sizeof(largest),
      add_error,
      examples_of },
    { { "of_classes", "c", NULL, 1, 0, true },
      DT_TARGET_CLASS,
      sizeof(largest),
      add_error,
      examples_of },
};

static dt_status draw(dt_ctx *ctx, const dt_data_options *o, void *user, dt_dataset **train,
                      dt_dataset **validation, dt_dataset **test)
{
    const dt_drawn first = { .count = 120, .seed = (uint64_t)o->seed, .target = DT_TARGET_VALUES };
    const dt_drawn second = { .count = 40, .seed = 99, .target = DT_TARGET_VALUES };
    (void)validation;
    ++*(int *)user;
    const dt_status s = dt_table_create(ctx, &first, train);
    return s == DT_OK ? dt_table_create(ctx, &second, test) : s;
}

static dt_status draw_nothing(dt_ctx *ctx, const dt_data_options *o, void *user, dt_dataset **train,
                              dt_dataset **validation, dt_dataset **test)
{
    (void)ctx, (void)o, (void)user, (void)train, (void)validation, (void)test;
    return DT_OK;
}

/* ---- runs ----------------------------------------------------------------------------------- */

#define RECIPE                                                                                     \
    "run: {dir: unset, seed: 3}\n"                                                                 \
    "model: {family: mlp, sizes: [12, 16, 2]}\n"                                                   \
    "data: {format: given, source: drawn, validation: 0.25}\n"                                     \
    "train: {epochs: 2, batch_size: 16}\n"                                                         \
    "qat: {start_step: 5}\n"

typedef struct program {
    dt_ctx *ctx;
    char folder[TEST_PATH];
    int losses, sources; /* calls */
    dt_loss loss[2];
    dt_data_source source[2];
} program;

static void open_program(program *p)
{
    test_folder(p->folder);
    p->ctx = sample_context(2);
    p->loss[0] = (dt_loss){ "squares", "sum of squares", DT_TARGET_VALUES, squares, &p->losses };
    p->loss[1] = (dt_loss){ "no_scalar", "wrong", DT_TARGET_VALUES, no_scalar, NULL };
    p->source[0] = (dt_data_source){ "drawn", "a table", draw, &p->sources };
    p->source[1] = (dt_data_source){ "nothing", "nothing", draw_nothing, NULL };
    for (int i = 0; i < 2; i++) TEST_OK(p->ctx, dt_loss_register(p->ctx, &p->loss[i]));
    for (int i = 0; i < 3; i++) TEST_OK(p->ctx, dt_metric_register(p->ctx, &metrics[i]));
    for (int i = 0; i < 2; i++) TEST_OK(p->ctx, dt_dataset_register(p->ctx, &p->source[i]));
}

static dt_status run(program *p, const char *dir, const char *const overrides[3],
                     dt_run_summary *out)
{
    char path[TEST_PATH + 16];
    const char *all[4] = { path };
    int n = 1;
    snprintf(path, sizeof path, "run.dir=%s/%s", p->folder, dir);
    for (int i = 0; i < 3 && overrides[i] != NULL; i++) all[n++] = overrides[i];
    const dt_recipe_source source = { .path = "own.yaml",
                                      .text = RECIPE,
                                      .bytes = strlen(RECIPE),
                                      .overrides = all,
                                      .n_overrides = n };
    dt_recipe *r = NULL;
    dt_status s = dt_recipe_read(p->ctx, &source, &r);
    if (s == DT_OK) s = dt_run(p->ctx, r, NULL, out);
    dt_recipe_free(r);
    return s;
}

/* The program's loss, equal to detent's own, trains to the same numbers; its metrics are there. */
START_TEST(used)
{
    static const char *const own[] = { "train.loss=squares", "train.metrics=[worst, examples]",
                                       NULL };
    static const char *const usual[] = { NULL, NULL, NULL };
    program p = { .losses = 0 };
    dt_run_summary a, b;
    open_program(&p);
    TEST_OK(p.ctx, run(&p, "own", own, &a));
    TEST_OK(p.ctx, run(&p, "usual", usual, &b));
    ck_assert(p.losses > 10 && p.sources == 2 && a.same_bits_as_qat);
    const dt_metrics *m = &a.result[DT_RUN_QAT].metrics, *w = &b.result[DT_RUN_QAT].metrics;
    ck_assert_int_eq(m->n, 6);
    ck_assert_str_eq(m->metric[5]->name, "mse");
    TEST_NEAR(m->loss, w->loss, 1e-4, 0);
    ck_assert(dt_metric_value(m, "examples") == 40);
    ck_assert(dt_metric_value(m, "worst") >= dt_metric_value(m, "rmse"));
    ck_assert(isnan(dt_metric_value(w, "worst")));
    dt_ctx_free(p.ctx);
}
END_TEST

static const struct {
    const char *overrides[3];
    dt_status status;
    const char *words;
} bad[] = {
    { { "train.loss=cubes" },
      DT_ERR_CONFIG,
      "there are mse, mae, huber, quantile, focal, squares, no_scalar" },
    { { "train.loss=no_scalar" }, DT_ERR_STATE, "it gave no scalar" },
    { { "train.metrics=[best]" },
      DT_ERR_CONFIG,
      "those that are: worst, examples, of_classes; a plugin" },
    { { "train.metrics=[worst, worst]" }, DT_ERR_CONFIG, "named twice" },
    { { "train.metrics=[of_classes]" }, DT_ERR_CONFIG, "is not for the targets" },
    { { "data.source=none" }, DT_ERR_CONFIG, "those that are: drawn, nothing; a plugin" },
    { { "data.source=nothing" }, DT_ERR_CONFIG, "has made no training data" },
    { { "data.format=table" }, DT_ERR_CONFIG, "'data.source' belongs to given" },
};

START_TEST(refused)
{
    program p = { .losses = 0 };
    dt_run_summary a;
    open_program(&p);
    const size_t before = dt_memory_of(p.ctx).used;
    const dt_status s = run(&p, "bad", bad[_i].overrides, &a);
    ck_assert_msg(s == bad[_i].status, "%s: %s", dt_status_name(s), dt_error(p.ctx));
    ck_assert_msg(strstr(dt_error(p.ctx), bad[_i].words) != NULL, "%s", dt_error(p.ctx));
    ck_assert_uint_eq(dt_memory_of(p.ctx).used, before);
    dt_ctx_free(p.ctx);
}
END_TEST

START_TEST(names_are_unique)
{
    program p = { .losses = 0 };
    open_program(&p);
    dt_loss loss = p.loss[0];
    dt_own_metric metric = metrics[0];
    dt_data_source source = p.source[0];
    TEST_FAILS(p.ctx, DT_ERR_ARG, "there is a loss 'squares'", dt_loss_register(p.ctx, &loss));
    loss.name = "huber";
    TEST_FAILS(p.ctx, DT_ERR_ARG, "there is a loss 'huber'", dt_loss_register(p.ctx, &loss));
    loss.name = "";
    TEST_FAILS(p.ctx, DT_ERR_ARG, "a name, a function", dt_loss_register(p.ctx, &loss));
    loss.name = "anomalies";
    loss.target = DT_TARGET_ANOMALY;
    TEST_FAILS(p.ctx, DT_ERR_ARG, "a name, a function", dt_loss_register(p.ctx, &loss));
    TEST_FAILS(p.ctx, DT_ERR_ARG, "a metric 'worst'", dt_metric_register(p.ctx, &metric));
    metric.metric.name = "accuracy";
    TEST_FAILS(p.ctx, DT_ERR_ARG, "a metric 'accuracy'", dt_metric_register(p.ctx, &metric));
    metric.metric.name = "other";
    metric.value = NULL;
    TEST_FAILS(p.ctx, DT_ERR_ARG, "both functions", dt_metric_register(p.ctx, &metric));
    TEST_FAILS(p.ctx, DT_ERR_ARG, "a source 'drawn'", dt_dataset_register(p.ctx, &source));
    source.open = NULL;
    TEST_FAILS(p.ctx, DT_ERR_ARG, "a name and a function", dt_dataset_register(p.ctx, &source));
    ck_assert_ptr_eq(dt_loss_named(p.ctx, "squares"), &p.loss[0]);
    ck_assert_ptr_null(dt_metric_named(p.ctx, "accuracy"));
    dt_ctx_free(p.ctx);
}
END_TEST

Suite *test_registered_suite(void)
{
    Suite *s = suite_create("registered");
    TCase *c = tcase_create("own");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, used);
    tcase_add_test(c, names_are_unique);
    tcase_add_loop_test(c, refused, 0, (int)(sizeof bad / sizeof bad[0]));
    suite_add_tcase(s, c);
    return s;
}

/* Runs: the files that they write, resuming bit for bit, errors that stop them, and that the bits
 * depend only on the recipe. */
#include "sample.h"

#include <detent/io.h>
#include <detent/train.h>

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* ---- small runs ----------------------------------------------------------------------------- */

#define MOST_OVERRIDES 12

/* 160 images in batches of 32: 5 updates an epoch, 20 in all; prepared at 8. */
static const char small[] =
    "run: {dir: unset, seed: 3}\n"
    "model: {family: mlp, sizes: [784, 24, 16, 10], dropout: 0.1}\n"
    "data: {format: digits, train_count: 150, test_count: 70, seed: 5, augment: {shift: 1}}\n"
    "train:\n"
    "  epochs: 4\n"
    "  batch_size: 32\n"
    "  optimizer: {name: adamw, lr: 3e-3}\n"
    "  schedule: {name: cosine, warmup_steps: 3}\n"
    "  clip_grad_norm: 1.0\n"
    "  log: {every_steps: 3}\n"
    "  checkpoint: {every_steps: 4, keep: 2}\n"
    "qat: {preset: int8-dynamic-int4-weight, start_step: 8}\n";

typedef struct job {
    const char *dir;
    const char *overrides[MOST_OVERRIDES]; /* behind run.dir, ended by NULL */
    bool resume, dry_run;
    int64_t stop_at; /* updates of this call before it is asked to stop; 0: never */
    int threads;
    dt_status wanted;
    const char *words; /* of the message, if an error is expected */
    /* what came out */
    int64_t updates;
    uint64_t allocations[64]; /* after each update */
    double losses[64], rates[64];
    dt_run_summary summary;
    char message[1024];
} job;

static bool stop(void *user)
{
    const job *j = user;
    return j->stop_at > 0 && j->updates >= j->stop_at;
}

static dt_ctx *counted;

static void progress(void *user, const dt_progress *p)
{
    job *j = user;
    ck_assert_int_le(p->step, p->steps);
    if (j->updates < 64) {
        j->allocations[j->updates] = dt_memory_of(counted).allocations;
        j->losses[j->updates] = p->loss;
        j->rates[j->updates] = p->lr;
    }
    j->updates++;
}

static dt_status try_run(dt_ctx *ctx, job *j)
{
    char dir[TEST_PATH + 16];
    const char *overrides[MOST_OVERRIDES + 1] = { dir };
    int n = 1;
    snprintf(dir, sizeof dir, "run.dir=%s", j->dir);
    while (n <= MOST_OVERRIDES && j->overrides[n - 1] != NULL) {
        overrides[n] = j->overrides[n - 1];
        n++;
    }
    const dt_recipe_source source = { .path = "small.yaml",
                                      .text = small,
                                      .bytes = strlen(small),
                                      .overrides = overrides,
                                      .n_overrides = n };
    const dt_run_control control = {
        .resume = j->resume, .dry_run = j->dry_run, .stop = stop, .progress = progress, .user = j
    };
    dt_recipe *recipe = NULL;
    dt_status s = dt_recipe_read(ctx, &source, &recipe);
    if (s == DT_OK) s = dt_run(ctx, recipe, &control, &j->summary);
    dt_recipe_free(recipe);
    return s;
}

/* Runs the job in a context of its own; it must end with the expected status. */
static void run(job *j)
{
    dt_ctx *ctx = sample_context(j->threads > 0 ? j->threads : 2);
    counted = ctx;
    const dt_status s = try_run(ctx, j);
    snprintf(j->message, sizeof j->message, "%s", dt_error(ctx));
    ck_assert_msg(s == j->wanted, "%s: %s: %s", j->dir, dt_status_name(s), j->message);
    if (j->words != NULL) {
        ck_assert_msg(strstr(j->message, j->words) != NULL, "not \"%s\" but \"%s\"", j->words,
                      j->message);
    }
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}

/* folder/name; the hundredth call from here on overwrites it. */
static const char *in(const char *folder, const char *name)
{
    static char paths[100][TEST_PATH];
    static int next;
    char *path = paths[next++ % 100];
    test_join(path, folder, name);
    return path;
}

static void same_files(const char *a, const char *b, const char *name)
{
    size_t n, m;
    char *x = test_read_file(in(a, name), &n), *y = test_read_file(in(b, name), &m);
    ck_assert_msg(n == m && memcmp(x, y, n) == 0, "%s differs in %s and %s", name, a, b);
    free(x);
    free(y);
}

/* metrics.jsonl without the fields that tell time. */
static char *timeless_metrics(const char *dir)
{
    char *text = test_read_file(in(dir, "metrics.jsonl"), NULL), *all = calloc(1, 1 << 16);
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        json_t *o = json_loads(line, 0, NULL);
        ck_assert_msg(o != NULL, "no JSON: %s", line);
        json_object_del(o, "samples_per_s");
        char *again = json_dumps(o, JSON_SORT_KEYS);
        strcat(strcat(all, again), "\n");
        free(again);
        json_decref(o);
    }
    free(text);
    return all;
}

/* Every tensor of the last checkpoint. */
static void same_checkpoints(const char *a, const char *b, const char *name)
{
    dt_ctx *ctx = sample_context(1);
    dt_file *x = NULL, *y = NULL;
    TEST_OK(ctx, dt_file_open(ctx, in(a, name), &x));
    TEST_OK(ctx, dt_file_open(ctx, in(b, name), &y));
    ck_assert_int_eq(dt_file_count(x), dt_file_count(y));
    for (int64_t i = 0; i < dt_file_count(x); i++) {
        const dt_file_entry *e = dt_file_at(x, i), *f = dt_file_find(y, e->name);
        ck_assert_msg(f != NULL && e->bytes == f->bytes, "%s", e->name);
        ck_assert_msg(memcmp(e->data, f->data, e->bytes) == 0, "%s: %s differs", b, e->name);
    }
    dt_file_close(x);
    dt_file_close(y);
    dt_ctx_free(ctx);
}

static const char last[] = "checkpoints/step-0000000020.safetensors";

static void same_runs(const char *a, const char *b)
{
    same_files(a, b, "float.safetensors");
    same_files(a, b, "model.safetensors");
    same_checkpoints(a, b, last);
    char *x = timeless_metrics(a), *y = timeless_metrics(b);
    ck_assert_str_eq(x, y);
    free(x);
    free(y);
}

/* ---- files of a run ------------------------------------------------------------------------- */

static double number_at(const json_t *root, const char *row, const char *key)
{
    const json_t *value = json_object_get(json_object_get(root, row), key);
    ck_assert_msg(json_is_number(value), "%s.%s", row, key);
    return json_number_value(value);
}

START_TEST(a_run_writes_its_files)
{
    char folder[TEST_PATH];
    test_folder(folder);
    job j = { .dir = in(folder, "deep/er/run"),
              .overrides = { "convert.output=out/m.safetensors" } };
    run(&j);
    ck_assert_int_eq(j.updates, 20);
    ck_assert(j.summary.same_bits_as_qat);
    ck_assert_str_eq(j.summary.evaluated_on, "test");
    json_t *root = json_load_file(in(j.dir, "summary.json"), 0, NULL);
    ck_assert_ptr_nonnull(root);
    ck_assert_uint_eq(json_object_size(root), 5);
    ck_assert_str_eq(json_string_value(json_object_get(root, "evaluated_on")), "test");
    const char *const rows[] = { "float", "ptq", "qat", "converted" };
    const char *const keys[] = { "accuracy", "loss", "bytes", "bits_per_weight", "samples_per_s" };
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 5; k++) number_at(root, rows[i], keys[k]);
    }
    ck_assert(
        json_is_true(json_object_get(json_object_get(root, "converted"), "same_bits_as_qat")));
    ck_assert_double_eq(number_at(root, "qat", "loss"), number_at(root, "converted", "loss"));
    ck_assert_double_eq(number_at(root, "float", "bits_per_weight"), 32);
    json_decref(root);
    char *metrics = timeless_metrics(j.dir);
    int lines = 0;
    for (const char *c = metrics; *c != 0; c++) lines += *c == '\n';
    ck_assert_int_eq(lines, 9); /* 3, 6, ... 18, and 20; of layers 9 and 20 */
    ck_assert_ptr_nonnull(strstr(metrics, "\"phase\": \"float\""));
    ck_assert_ptr_nonnull(strstr(metrics, "\"phase\": \"qat\""));
    free(metrics);
    char checkpoints[TEST_PATH];
    test_join(checkpoints, j.dir, "checkpoints");
    ck_assert_int_eq(sample_entries(checkpoints), 2);
    ck_assert(test_file_exists(in(j.dir, last)));
    ck_assert_int_eq(sample_entries(j.dir), 13);
}
END_TEST

/* Of all tensors of a file. */
static int64_t bytes_in(dt_ctx *ctx, const char *path)
{
    dt_file *file = NULL;
    size_t bytes = 0;
    TEST_OK(ctx, dt_file_open(ctx, path, &file));
    for (int64_t i = 0; i < dt_file_count(file); i++) bytes += dt_file_at(file, i)->bytes;
    dt_file_close(file);
    return (int64_t)bytes;
}

/* The bytes in the table are those of the files. */
START_TEST(bytes_are_those_of_the_files)
{
    char folder[TEST_PATH];
    test_folder(folder);
    const char *const presets[] = { "qat.preset=int8-dynamic-int4-weight",
                                    "qat.preset=int4-weight",
                                    "qat.preset=int8-dynamic-int8-weight",
                                    "qat.preset=int8-static-int8-weight",
                                    "qat.preset=int4-int4",
                                    "qat.preset=device-int8" };
    for (int i = 0; i < 12; i++) {
        const char *names[] = { "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l" };
        job j = { .dir = in(folder, names[i]),
                  .overrides = { presets[i % 6], "train.epochs=2",
                                 i < 6 ? NULL : "adapters={rank: 3}" } };
        run(&j);
        dt_ctx *ctx = sample_context(1);
        const char *const files[] = { "float.safetensors", "model.safetensors" };
        const dt_contender rows[] = { DT_RUN_FLOAT, DT_RUN_CONVERTED };
        for (int k = 0; k < 2; k++) {
            ck_assert_int_eq(bytes_in(ctx, in(j.dir, files[k])), j.summary.result[rows[k]].bytes);
        }
        dt_ctx_free(ctx);
    }
}
END_TEST

/* Memory and written files are those of training adapters; the baseline has them too. */
START_TEST(adapters_alone_are_trained)
{
    char folder[TEST_PATH];
    test_folder(folder);
    job j = { .dir = in(folder, "run"),
              .overrides = { "adapters={rank: 4, alpha: 8}", "train.float_baseline=true" } };
    run(&j);
    ck_assert_int_eq(j.updates, 40);
    const dt_run_summary *s = &j.summary;
    ck_assert_int_eq(s->parameters, 785 * 24 + 25 * 16 + 17 * 10);
    ck_assert_int_eq(s->trained, 4 * (784 + 24) + 4 * (24 + 16));
    ck_assert(s->same_bits_as_qat);
    json_t *root = json_load_file(in(j.dir, "summary.json"), 0, NULL);
    ck_assert_int_eq(json_integer_value(json_object_get(root, "trained_parameters")), s->trained);
    json_decref(root);
    dt_ctx *ctx = sample_context(1);
    dt_module *m;
    TEST_OK(ctx, dt_model_load(ctx, in(j.dir, "float.safetensors"), &m, NULL));
    ck_assert(dt_has_lora(m) && !dt_is_prepared(m));
    TEST_OK(ctx, dt_lora_merge(m));
    TEST_OK(ctx, dt_model_save(m, NULL, in(folder, "merged.safetensors")));
    dt_module_free(m);
    TEST_OK(ctx, dt_model_load(ctx, in(j.dir, "model.safetensors"), &m, NULL));
    ck_assert(!dt_has_lora(m) && dt_is_converted(m));
    dt_module_free(m);
    dt_ctx_free(ctx);
    char init[TEST_PATH + 32];
    snprintf(init, sizeof init, "model.init=%s", in(folder, "merged.safetensors"));
    job further = { .dir = in(folder, "further"), .overrides = { init, "adapters={rank: 2}" } };
    run(&further);
}
END_TEST

START_TEST(invalid_adapters_are_refused)
{
    static const char *const wrong[][2] = {
        { "adapters={rank: 17}", "rank 17 is above the shorter side of layers.1" },
        { "adapters={match: [layers.0, tail]}", "'tail' selects no linear layer" },
        { "train.recompute=true", "made of blocks" },
    };
    char folder[TEST_PATH];
    test_folder(folder);
    for (int i = 0; i < 3; i++) {
        job j = { .dir = in(folder, "run"),
                  .overrides = { wrong[i][0] },
                  .wanted = DT_ERR_CONFIG,
                  .words = wrong[i][1] };
        run(&j);
        ck_assert(!test_file_exists(j.dir));
    }
}
END_TEST

/* Blocks of convolutions and batch norms, folded in the second half. */
START_TEST(recomputing_changes_no_bit)
{
    static const char net[] = "model={family: resnet, image: [1, 28, 28], depth: 8, widths: [4, 6, "
                              "8], outputs: 10}";
    char folder[TEST_PATH];
    test_folder(folder);
    for (int i = 0; i < 2; i++) {
        const char *const preset =
            i == 0 ? "qat.preset=int8-dynamic-int4-weight" : "qat.preset=int8-static-int8-weight";
        job kept = { .dir = in(folder, i == 0 ? "a" : "c"),
                     .overrides = { net, preset, "train.steps=12" } };
        job again = { .dir = in(folder, i == 0 ? "b" : "d"),
                      .overrides = { net, preset, "train.steps=12", "train.recompute=true" } };
        dt_ctx *ctx = counted = sample_context(2); /* which keeps plans of convolutions */
        TEST_OK(ctx, try_run(ctx, &kept));
        TEST_OK(ctx, try_run(ctx, &again));
        dt_ctx_free(ctx);
        same_files(kept.dir, again.dir, "float.safetensors");
        same_files(kept.dir, again.dir, "model.safetensors");
    }
}
END_TEST

START_TEST(a_baseline_is_a_row_of_the_table)
{
    char folder[TEST_PATH];
    test_folder(folder);
    job plain = { .dir = in(folder, "plain") };
    job compared = { .dir = in(folder, "compared"), .overrides = { "train.float_baseline=true" } };
    job longer = { .dir = in(folder, "longer"), .overrides = { "~qat" } };
    run(&plain);
    run(&compared);
    run(&longer);
    ck_assert_int_eq(compared.updates, 40);
    same_files(plain.dir, compared.dir, "model.safetensors");
    same_files(plain.dir, compared.dir, "float.safetensors");
    const dt_run_result *a = compared.summary.result, *b = longer.summary.result;
    ck_assert_double_eq(a[DT_RUN_FLOAT].metrics.loss, b[DT_RUN_FLOAT].metrics.loss);
    ck_assert_double_ne(a[DT_RUN_FLOAT].metrics.loss,
                        plain.summary.result[DT_RUN_FLOAT].metrics.loss);
    ck_assert_double_eq(a[DT_RUN_QAT].metrics.loss, plain.summary.result[DT_RUN_QAT].metrics.loss);
    ck_assert(b[DT_RUN_FLOAT].given && !b[DT_RUN_PTQ].given && !b[DT_RUN_CONVERTED].given);
    ck_assert(!test_file_exists(in(longer.dir, "model.safetensors")));
    ck_assert_int_eq(plain.summary.float_weights, DT_FLOAT_AT_START);
    ck_assert_int_eq(compared.summary.float_weights, DT_FLOAT_BASELINE);
    ck_assert_int_eq(longer.summary.float_weights, DT_FLOAT_TRAINED);
    ck_assert(!test_file_exists(in(plain.dir, "baseline.safetensors")));
    size_t n, m; /* the baseline's weights are kept: those of a run in float */
    char *x = test_read_file(in(compared.dir, "baseline.safetensors"), &n);
    char *y = test_read_file(in(longer.dir, "float.safetensors"), &m);
    ck_assert(n == m && memcmp(x, y, n) == 0);
    free(x);
    free(y);
}
END_TEST

/* Where QAT begins at once with given weights, these are what it is compared with. */
START_TEST(weights_that_were_given_are_rows_of_the_table)
{
    char folder[TEST_PATH], init[TEST_PATH + 16];
    test_folder(folder);
    job given = { .dir = in(folder, "given"), .overrides = { "~qat" } };
    run(&given);
    snprintf(init, sizeof init, "model.init=%s", in(given.dir, "float.safetensors"));
    job tuned = { .dir = in(folder, "tuned"),
                  .overrides = { init, "qat.start_step=0", "train.steps=5" } };
    run(&tuned);
    const dt_run_result *a = given.summary.result, *b = tuned.summary.result;
    ck_assert_int_eq(tuned.summary.float_weights, DT_FLOAT_INIT);
    ck_assert(b[DT_RUN_FLOAT].given && b[DT_RUN_PTQ].given);
    ck_assert_double_eq(a[DT_RUN_FLOAT].metrics.loss, b[DT_RUN_FLOAT].metrics.loss);
    ck_assert_double_ne(b[DT_RUN_FLOAT].metrics.loss, b[DT_RUN_PTQ].metrics.loss);
    json_t *root = json_load_file(in(tuned.dir, "summary.json"), 0, NULL);
    const json_t *row = json_object_get(root, "ptq");
    ck_assert_str_eq(json_string_value(json_object_get(row, "weights")), "init");
    json_decref(root);
}
END_TEST

START_TEST(without_float_steps_there_is_no_float_row)
{
    char folder[TEST_PATH];
    test_folder(folder);
    job j = { .dir = in(folder, "run"), .overrides = { "qat.start_step=0", "train.steps=5" } };
    run(&j);
    ck_assert_int_eq(j.updates, 5);
    ck_assert(!j.summary.result[DT_RUN_FLOAT].given && j.summary.result[DT_RUN_QAT].given);
    ck_assert(!test_file_exists(in(j.dir, "float.safetensors")));
    json_t *root = json_load_file(in(j.dir, "summary.json"), 0, NULL);
    ck_assert(json_is_null(json_object_get(root, "float")));
    ck_assert(json_is_null(json_object_get(root, "ptq")));
    json_decref(root);
}
END_TEST

/* A start beyond the end never prepares: 20 updates give the bits of a recipe without qat. */
START_TEST(disabled_qat_trains_as_float_does)
{
    char folder[TEST_PATH];
    test_folder(folder);
    job with = { .dir = in(folder, "with"), .overrides = { "qat.start_step=1000" } };
    job without = { .dir = in(folder, "without"), .overrides = { "~qat" } };
    run(&with);
    run(&without);
    same_files(with.dir, without.dir, "float.safetensors");
    ck_assert(with.summary.same_bits_as_qat);
    ck_assert_double_eq(with.summary.result[DT_RUN_PTQ].metrics.loss,
                        with.summary.result[DT_RUN_CONVERTED].metrics.loss);
}
END_TEST

START_TEST(validation_is_reported_every_epoch)
{
    char folder[TEST_PATH];
    test_folder(folder);
    job j = { .dir = in(folder, "run"), .overrides = { "data.validation=0.2" } };
    run(&j);
    char *metrics = timeless_metrics(j.dir);
    int found = 0;
    for (const char *c = metrics; (c = strstr(c, "validation_accuracy")) != NULL; c++) found++;
    ck_assert_int_eq(found, 4);
    free(metrics);
}
END_TEST

/* ---- the best evaluation -------------------------------------------------------------------- */

/* 120 images: 4 updates an epoch, 16 in all. Nothing is better by 100, so that the first evaluation
 * of a phase stays the best. */
#define BEST_KEYS                                                                                  \
    "data.validation=0.2", "train.schedule={name: constant}", "train.evaluate.every_steps=2",      \
        "train.finish_with=best", "train.checkpoint.keep=1"
#define NEVER_BETTER "train.early_stopping={patience: 99, least_improvement: 100}"
#define ONCE_IS_ENOUGH "train.early_stopping={patience: 2, least_improvement: 100}"

static const char best[] = "checkpoints/best.safetensors";

static int count_words(const char *dir, const char *words)
{
    char *metrics = timeless_metrics(dir);
    int found = 0;
    for (const char *c = metrics; (c = strstr(c, words)) != NULL; c++) found++;
    free(metrics);
    return found;
}

/* Better evaluations before the weights were quantized do not count: the best one is that of step
 * 10. */
START_TEST(a_run_ends_with_the_best_of_its_last_phase)
{
    char folder[TEST_PATH];
    test_folder(folder);
    job j = { .dir = in(folder, "run"), .overrides = { BEST_KEYS, NEVER_BETTER } };
    job ten = { .dir = in(folder, "ten"),
                .overrides = { BEST_KEYS, "train.finish_with=last", "train.steps=10" } };
    run(&j);
    run(&ten);
    ck_assert_int_eq(j.summary.steps, 16);
    ck_assert_int_eq(j.summary.best_step, 10);
    ck_assert(j.summary.ends_with_best && !j.summary.stopped_early && j.summary.same_bits_as_qat);
    ck_assert(!ten.summary.ends_with_best);
    same_files(j.dir, ten.dir, "model.safetensors");
    ck_assert_double_eq(j.summary.result[DT_RUN_QAT].metrics.loss,
                        ten.summary.result[DT_RUN_QAT].metrics.loss);
    ck_assert(test_file_exists(in(j.dir, best)));
    ck_assert_int_eq(sample_entries(in(j.dir, "checkpoints")), 2); /* it, and the newest */
    ck_assert_int_eq(count_words(j.dir, "validation_loss"), 8);
    json_t *root = json_load_file(in(j.dir, "summary.json"), 0, NULL);
    ck_assert_double_eq(number_at(root, "training", "best_step"), 10);
    json_decref(root);
}
END_TEST

START_TEST(without_qat_the_float_phase_is_the_last)
{
    char folder[TEST_PATH];
    test_folder(folder);
    job j = { .dir = in(folder, "run"), .overrides = { BEST_KEYS, NEVER_BETTER, "~qat" } };
    job two = { .dir = in(folder, "two"),
                .overrides = { BEST_KEYS, "train.finish_with=last", "train.steps=2", "~qat" } };
    job both = { .dir = in(folder, "both"),
                 .overrides = { BEST_KEYS, NEVER_BETTER, "train.float_baseline=true" } };
    run(&j);
    run(&two);
    run(&both);
    ck_assert_int_eq(j.summary.best_step, 2);
    same_files(j.dir, two.dir, "float.safetensors");
    const double loss = two.summary.result[DT_RUN_FLOAT].metrics.loss;
    ck_assert_double_eq(j.summary.result[DT_RUN_FLOAT].metrics.loss, loss);
    ck_assert_double_eq(both.summary.result[DT_RUN_FLOAT].metrics.loss, loss);
    ck_assert_int_eq(both.summary.best_step, 10);
    ck_assert(test_file_exists(in(both.dir, "checkpoints/baseline/best.safetensors")));
}
END_TEST

START_TEST(training_ends_early)
{
    char folder[TEST_PATH];
    test_folder(folder);
    job j = { .dir = in(folder, "run"), .overrides = { BEST_KEYS, ONCE_IS_ENOUGH } };
    job again = { .dir = j.dir, .overrides = { BEST_KEYS, ONCE_IS_ENOUGH }, .resume = true };
    run(&j);
    ck_assert_int_eq(j.updates, 14); /* 10 was the best, 12 and 14 were not better */
    ck_assert_int_eq(j.summary.steps, 14);
    ck_assert_int_eq(j.summary.best_step, 10);
    ck_assert(j.summary.stopped_early && j.summary.ends_with_best);
    ck_assert_int_eq(count_words(j.dir, "\"step\": 14"), 2);
    run(&again);
    ck_assert_int_eq(again.updates, 0);
    ck_assert(again.summary.stopped_early && again.summary.best_step == 10);
    ck_assert_double_eq(again.summary.result[DT_RUN_CONVERTED].metrics.loss,
                        j.summary.result[DT_RUN_CONVERTED].metrics.loss);
}
END_TEST

static const int64_t best_stops[] = { 1, 3, 9, 10, 11, 13 };

START_TEST(the_best_survives_an_interruption)
{
    char folder[TEST_PATH];
    test_folder(folder);
    job whole = { .dir = in(folder, "whole"), .overrides = { BEST_KEYS, ONCE_IS_ENOUGH } };
    job first = { .dir = in(folder, "cut"),
                  .overrides = { BEST_KEYS, ONCE_IS_ENOUGH },
                  .stop_at = best_stops[_i],
                  .wanted = DT_ERR_INTERRUPTED };
    job second = { .dir = first.dir, .overrides = { BEST_KEYS, ONCE_IS_ENOUGH }, .resume = true };
    run(&whole);
    run(&first);
    run(&second);
    same_files(whole.dir, first.dir, "model.safetensors");
    same_checkpoints(whole.dir, first.dir, best);
    ck_assert_int_eq(second.summary.best_step, 10);
    char *x = timeless_metrics(whole.dir), *y = timeless_metrics(first.dir);
    ck_assert_str_eq(x, y);
    free(x);
    free(y);
}
END_TEST

/* Evaluations that are never better reduce the rate every second time; its state goes on in the
 * resumed run, in float and on the grid. */
START_TEST(a_plateau_survives_an_interruption)
{
    static const char plateau[] = "train.schedule={name: plateau, gamma: 0.5, patience: 2, "
                                  "least_improvement: 100, cooldown: 1}";
    static const int64_t stops[] = { 3, 5, 8, 9, 13, 15 };
    char folder[TEST_PATH];
    test_folder(folder);
#define EVALUATED                                                                                  \
    plateau, "train.optimizer.lr=0.0078125", "data.validation=0.2", "train.evaluate.every_steps=1"
    job whole = { .dir = in(folder, "whole"), .overrides = { EVALUATED } };
    job first = { .dir = in(folder, "cut"),
                  .overrides = { EVALUATED },
                  .stop_at = stops[_i],
                  .wanted = DT_ERR_INTERRUPTED };
    job second = { .dir = first.dir, .overrides = { EVALUATED }, .resume = true };
    run(&whole);
    run(&first);
    run(&second);
    same_files(whole.dir, first.dir, "model.safetensors");
    char *x = timeless_metrics(whole.dir), *y = timeless_metrics(first.dir);
    ck_assert_str_eq(x, y);
    ck_assert_ptr_nonnull(strstr(x, "\"lr\": 0.0078125,"));
    ck_assert_ptr_nonnull(strstr(x, "\"lr\": 0.00390625,"));
    ck_assert_ptr_nonnull(strstr(x, "\"lr\": 0.001953125,"));
    free(x);
    free(y);
}
END_TEST

/* Frozen parameters keep their first bits. */
START_TEST(frozen_parameters_do_not_change)
{
    char folder[TEST_PATH];
    test_folder(folder);
    job none = { .dir = in(folder, "none"), .overrides = { "~qat", "train.epochs=1" } };
    none.overrides[2] = "train.optimizer.groups=[{match: '*', frozen: true}, {match: "
                        "'head.bias', rate: 2}]";
    job some = { .dir = in(folder, "some"), .overrides = { "~qat" } };
    some.overrides[1] = "train.optimizer.groups=[{match: 'layers.*', frozen: true}]";
    run(&none);
    run(&some);
    ck_assert_int_eq(none.summary.trained, 10);
    ck_assert_int_eq(some.summary.trained, 17 * 10);
    dt_ctx *ctx = sample_context(1);
    dt_file *a, *b;
    TEST_OK(ctx, dt_file_open(ctx, in(none.dir, "float.safetensors"), &a));
    TEST_OK(ctx, dt_file_open(ctx, in(some.dir, "float.safetensors"), &b));
    for (int64_t i = 0; i < dt_file_count(a); i++) {
        const dt_file_entry *x = dt_file_at(a, i), *y = dt_file_find(b, x->name);
        const bool frozen = strncmp(x->name, "layers.", 7) == 0;
        ck_assert_msg((memcmp(x->data, y->data, x->bytes) == 0) == frozen, "%s", x->name);
    }
    dt_file_close(a);
    dt_file_close(b);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- averages -------------------------------------------------------------------------------- */

/* An element of a tensor of a file, or NaN. */
static double element(dt_ctx *ctx, const char *path, const char *name, int64_t i)
{
    dt_file *file = NULL;
    dt_tensor *x;
    TEST_OK(ctx, dt_file_open(ctx, path, &file));
    TEST_OK(ctx, dt_file_load(file, name, DT_F32, &x));
    const double value = (double)((const float *)dt_data(x))[i];
    dt_tensor_free(x);
    dt_file_close(file);
    return value;
}

static double weight_at(dt_ctx *ctx, const job *j, int step)
{
    char name[64];
    snprintf(name, sizeof name, "checkpoints/step-%010d.safetensors", step);
    return element(ctx, in(j->dir, name), "head.weight", 7);
}

/* The averages of checkpoints' weights, computed here. */
START_TEST(averages_are_those_of_the_weights)
{
    char folder[TEST_PATH];
    test_folder(folder);
#define EACH "~qat", "train.checkpoint.every_steps=1", "train.checkpoint.keep=0"
    job ema = { .dir = in(folder, "ema"),
                .overrides = { EACH, "train.average={name: ema, decay: 0.5}" } };
    job ends = { .dir = in(folder, "ends"),
                 .overrides = { EACH, "train.average={name: epochs, last: 3}" } };
    job none = { .dir = in(folder, "none"), .overrides = { "~qat" } };
    run(&ema);
    run(&ends);
    run(&none);
    dt_ctx *ctx = sample_context(1);
    double mean = weight_at(ctx, &ema, 1);
    for (int n = 1; n < 20; n++) {
        const double early = (1.0 + n) / (10 + n), d = early < 0.5 ? early : 0.5;
        mean = d * mean + (1 - d) * weight_at(ctx, &ema, n + 1);
    }
    const char *name = "float.safetensors";
    TEST_NEAR(element(ctx, in(ema.dir, name), "head.weight", 7), mean, 1e-7, 1e-5);
    mean = (weight_at(ctx, &ends, 10) + weight_at(ctx, &ends, 15) + weight_at(ctx, &ends, 20)) / 3;
    TEST_NEAR(element(ctx, in(ends.dir, name), "head.weight", 7), mean, 1e-7, 1e-5);
    /* training itself is the same, its results are not */
    ck_assert_double_eq(weight_at(ctx, &ends, 20),
                        element(ctx, in(none.dir, name), "head.weight", 7));
    ck_assert_double_eq(ema.losses[19], none.losses[19]);
    ck_assert_double_ne(ema.summary.result[DT_RUN_FLOAT].metrics.loss,
                        none.summary.result[DT_RUN_FLOAT].metrics.loss);
    dt_ctx_free(ctx);
}
END_TEST

/* The converted model comes from the averages; evaluations on the way leave no trace. */
START_TEST(averages_are_evaluated_and_converted)
{
    char folder[TEST_PATH];
    test_folder(folder);
#define HELD "data.validation=0.2", "model.norm=batch"
    job plain = { .dir = in(folder, "plain"),
                  .overrides = { HELD, "train.evaluate.every_steps=2" } };
    job mean = { .dir = in(folder, "mean"),
                 .overrides = { HELD, "train.evaluate.every_steps=2",
                                "train.average={name: ema}" } };
    job ends = { .dir = in(folder, "best"),
                 .overrides = { HELD, "train.evaluate.every_steps=2", "train.finish_with=best",
                                "train.average={name: epochs, last: 1}" } };
    run(&plain);
    run(&mean);
    run(&ends);
    ck_assert_int_eq(plain.updates, mean.updates);
    for (int i = 0; i < plain.updates; i++) ck_assert_double_eq(plain.losses[i], mean.losses[i]);
    ck_assert(mean.summary.same_bits_as_qat && ends.summary.same_bits_as_qat);
    ck_assert_double_ne(mean.summary.result[DT_RUN_CONVERTED].metrics.loss,
                        plain.summary.result[DT_RUN_CONVERTED].metrics.loss);
    ck_assert(isfinite(ends.summary.result[DT_RUN_CONVERTED].metrics.loss));
}
END_TEST

/* ---- spikes, minutes ------------------------------------------------------------------------- */

/* Which losses are spikes, by the definition in train.h. */
static int spikes_in(const double *loss, int n, double deviations, int window)
{
    double mean = 0, variance = 0;
    int spikes = 0;
    for (int i = 0; i < n; i++) {
        const double s = sqrt(variance), least = fabs(mean) / 100;
        const double most = mean + deviations * (s > least ? s : least);
        const bool spike = i >= window && loss[i] > most;
        const double x = spike ? most : loss[i], w = i < window ? 1.0 / (i + 1) : 1.0 / window;
        variance = (1 - w) * variance + (1 - w) * w * (x - mean) * (x - mean);
        mean = (1 - w) * mean + w * x;
        spikes += spike;
    }
    return spikes;
}

START_TEST(spikes_are_found_and_answered)
{
    char folder[TEST_PATH];
    test_folder(folder);
#define SPIKED(more) "train.spikes={deviations: 1, window: 3, policy: " more "}"
    job lower = { .dir = in(folder, "lower"),
                  .overrides = { "~qat", SPIKED("lower, factor: 0.5") } };
    job skip = { .dir = in(folder, "skip"), .overrides = { "~qat", SPIKED("skip") } };
    job stop = { .dir = in(folder, "stop"),
                 .overrides = { "~qat", SPIKED("stop") },
                 .wanted = DT_ERR_NUMERIC,
                 .words = "is a spike, and 'train.spikes.policy' is stop" };
    run(&lower);
    run(&skip);
    run(&stop);
    const int n = spikes_in(lower.losses, 20, 1, 3);
    ck_assert_int_gt(n, 0);
    char words[64], *metrics = timeless_metrics(lower.dir);
    snprintf(words, sizeof words, "\"spikes\": %d, \"step\": 20", n);
    ck_assert_msg(strstr(metrics, words) != NULL, "%s: %s", words, metrics);
    free(metrics);
    const dt_schedule s = { .name = DT_COSINE, .warmup_steps = 3, .total_steps = 20 };
    TEST_NEAR(lower.rates[19], dt_schedule_rate(&s, 3e-3, 19) * pow(0.5, n), 0, 1e-12);
    ck_assert_int_eq(skip.summary.skipped, spikes_in(skip.losses, 20, 1, 3));
    ck_assert_int_eq(lower.summary.skipped, 0);
    ck_assert_int_eq(spikes_in(stop.losses, (int)stop.updates, 1, 3), 0);
    job further = { .dir = stop.dir, .overrides = { "~qat", SPIKED("ignore") }, .resume = true };
    further.overrides[1] = "train.spikes={policy: ignore}";
    run(&further);
    ck_assert_int_gt(further.updates, 0);
}
END_TEST

/* Every update takes longer than this share of a minute. */
START_TEST(checkpoints_by_minutes)
{
    char folder[TEST_PATH], checkpoints[TEST_PATH];
    test_folder(folder);
    job j = { .dir = in(folder, "run"),
              .overrides = { "~qat", "train.checkpoint={every_minutes: 1e-12, keep: 0}" } };
    run(&j);
    test_join(checkpoints, j.dir, "checkpoints");
    ck_assert_int_eq(sample_entries(checkpoints), 20);
}
END_TEST

/* best.safetensors may be of another step than the checkpoint's best evaluation, if the run was
 * killed after writing it. */
START_TEST(a_best_of_another_step_is_refused)
{
    char folder[TEST_PATH];
    test_folder(folder);
    job j = { .dir = in(folder, "run"), .overrides = { BEST_KEYS, NEVER_BETTER } };
    run(&j);
    ck_assert_int_eq(
        test_shell(NULL, "cd '%s/checkpoints' && cp step-*.safetensors best.safetensors", j.dir),
        0);
    job again = { .dir = j.dir,
                  .overrides = { BEST_KEYS, NEVER_BETTER },
                  .resume = true,
                  .wanted = DT_ERR_FORMAT,
                  .words = "of step 16, but the best evaluation of this run was at step 10" };
    run(&again);
}
END_TEST

START_TEST(a_dry_run_writes_nothing)
{
    char folder[TEST_PATH];
    test_folder(folder);
    job j = { .dir = in(folder, "run"), .dry_run = true };
    run(&j);
    ck_assert_int_eq(sample_entries(folder), 0);
    ck_assert_int_eq(j.summary.parameters, 784 * 24 + 24 + 24 * 16 + 16 + 16 * 10 + 10);
    ck_assert_int_eq(j.summary.multiply_adds, 784 * 24 + 24 * 16 + 16 * 10);
    ck_assert_int_eq(j.summary.float_bytes, 4 * j.summary.parameters);
    ck_assert_int_lt(j.summary.quantized_bytes, j.summary.float_bytes / 5);
    ck_assert_uint_gt(j.summary.activation_bytes[0], 0);
    ck_assert_uint_gt(j.summary.activation_bytes[1], 0);
}
END_TEST

/* ---- bits ----------------------------------------------------------------------------------- */

START_TEST(threads_change_no_bit)
{
    char folder[TEST_PATH];
    test_folder(folder);
    job one = { .dir = in(folder, "1"), .threads = 1 }, three = { .dir = in(folder, "3") };
    three.overrides[0] = "run.threads=3";
    run(&one);
    run(&three);
    same_runs(one.dir, three.dir);
}
END_TEST

START_TEST(the_seed_changes_them)
{
    char folder[TEST_PATH];
    size_t n, m;
    test_folder(folder);
    job a = { .dir = in(folder, "a") };
    job b = { .dir = in(folder, "b"), .overrides = { "run.seed=4" } };
    run(&a);
    run(&b);
    char *x = test_read_file(in(a.dir, "float.safetensors"), &n);
    char *y = test_read_file(in(b.dir, "float.safetensors"), &m);
    ck_assert(n == m && memcmp(x, y, n) != 0);
    free(x);
    free(y);
}
END_TEST

/* Gradients of two halves, weighed by their labels, are those of the whole: the same training but
 * for the rounding of sums. 150 images make a short last batch. */
START_TEST(accumulation_is_the_whole_batch)
{
    char folder[TEST_PATH];
    test_folder(folder);
    job whole = { .dir = in(folder, "whole"), .overrides = { "~qat", "model.dropout=0" } };
    job halves = { .dir = in(folder, "halves"),
                   .overrides = { "~qat", "model.dropout=0", "train.batch_size=16",
                                  "train.accumulate=2" } };
    run(&whole);
    run(&halves);
    ck_assert_int_eq(whole.updates, halves.updates);
    TEST_NEAR(whole.summary.result[DT_RUN_FLOAT].metrics.loss,
              halves.summary.result[DT_RUN_FLOAT].metrics.loss, 1e-4, 1e-4);
}
END_TEST

/* From the second update of a phase on, updates call the allocator only where a shape is new: the
 * short last batch, once. */
START_TEST(updates_allocate_nothing)
{
    char folder[TEST_PATH];
    const char *const presets[] = { "qat.preset=int8-dynamic-int4-weight",
                                    "qat.preset=int8-static-int8-weight", "qat.preset=int4-int4",
                                    "qat.preset=device-int8" };
    test_folder(folder);
    job j = { .dir = in(folder, "run"),
              .overrides = { "train.log.every_steps=100", "train.checkpoint.every_steps=0",
                             "qat.start_step=10", presets[_i] } };
    run(&j);
    ck_assert_int_eq(j.updates, 20);
    for (int phase = 0; phase < 2; phase++) {
        int calls = 0;
        for (int i = 10 * phase + 1; i < 10 * phase + (phase == 0 ? 10 : 9); i++) {
            if (j.allocations[i] == j.allocations[i - 1]) continue;
            ck_assert_msg(i == 10 * phase + 4, "update %d allocates", i + 1);
            calls++;
        }
        ck_assert_int_le(calls, 1);
    }
}
END_TEST

/* ---- interruption --------------------------------------------------------------------------- */

typedef struct interruption {
    int64_t after;        /* updates */
    const char *extra[2]; /* overrides of both runs */
} interruption;

static const interruption interruptions[] = {
    { 1, { NULL } },
    { 5, { NULL } },
    { 7, { NULL } },
    { 8, { NULL } },
    { 9, { NULL } },
    { 13, { NULL } },
    { 19, { NULL } },
    { 6, { "train.optimizer={name: sgd, lr: 0.1, momentum: 0.9}" } },
    { 11, { "model.norm=batch" } },
    { 3, { "train.float_baseline=true" } },  /* in the baseline */
    { 20, { "train.float_baseline=true" } }, /* between the two */
    { 31, { "train.float_baseline=true" } }, /* behind it */
    { 8, { "qat={preset: int8-static-int8-weight, start_step: 8}" } },
    { 11, { "qat={preset: int8-static-int8-weight, start_step: 2, forward: simulated}" } },
    { 12,
      { "qat={start_step: 8, freeze_observer_step: 15, activation: {range: static, observer: "
        "minmax, scheme: symmetric}}" } },
    { 15,
      { "qat={start_step: 8, freeze_observer_step: 15, activation: {range: static, observer: "
        "percentile, percentile: 99, samples: 3000}}" } },
    { 17,
      { "qat={start_step: 8, freeze_observer_step: 5, calibrate_batches: 2, activation: {range: "
        "static, observer: mse}}" } },
    { 14, { "qat={start_step: 8, refresh_steps: 3, weight: {range: static}}" } },
    { 8, { "qat={preset: int4-int4, start_step: 8}" } },
    { 11, { "qat={preset: device-int8, start_step: 8, freeze_observer_step: 15}" } },
    { 14, { "qat={preset: device-int4, start_step: 8, activation: {range: learned}}" } },
    { 13, { "train.average={name: ema}", "qat={preset: device-int8, start_step: 4}" } },
    { 7, { "adapters={rank: 3, alpha: 6}" } },
    { 12, { "train.backward=int8-all" } },
    { 8, { "train.backward=int8" } },
    { 11, { "adapters={rank: 2, match: [layers.0, head], train_rest: true}" } },
    { 9, { "qat={preset: int4-int4, start_step: 8, activation: {save: exact}}" } },
    { 13,
      { "qat={preset: int4-int4, start_step: 2, weight: {bits: 2, granularity: tensor}, "
        "activation: {bits: 2, unsigned: true}}" } },
    { 9, { "train.schedule={name: multistep, milestones: [4, 11], gamma: 0.5}" } },
    { 7, { "train.schedule={name: cosine_restarts, every: 3, growth: 2, warmup_steps: 2}" } },
    { 13, { "train.schedule={name: polynomial, power: 2, floor: 0.1}" } },
    { 5, { "train.schedule={name: one_cycle}" } },
    { 17, { "train.schedule={name: warmup_stable_decay, decay_steps: 6}" } },
    { 7, { "train.optimizer={name: lion, lr: 3e-4, beta2: 0.99, weight_decay: 0.1}" } },
    { 5, { "train.average={name: ema, decay: 0.9}" } },
    { 13, { "train.average={name: ema, decay: 0.9}", "model.norm=batch" } },
    { 17, { "train.average={name: epochs, last: 2}", "model.norm=batch" } },
    { 12,
      { "train.average={name: ema}",
        "qat={preset: int8-static-int8-weight, start_step: 8, freeze_observer_step: 15}" } },
    { 14, { "train.average={name: epochs, last: 3}", "qat={preset: int4-int4, start_step: 8}" } },
    { 20, { "train.average={name: ema}", "train.float_baseline=true" } },
    { 7, { "train.spikes={policy: skip, deviations: 1, window: 3}", "model.norm=batch" } },
    { 13, { "train.spikes={policy: lower, deviations: 1, window: 3}" } },
    { 7, { "data.augment={shift: 1, mixup: 0.4, cutmix: 1}", "train.label_smoothing=0.1" } },
    { 13, { "data.augment={mixup: 1}", "train.class_weights=balanced" } },
    { 6, { "train.distill={temperature: 2}" } },
    { 14, /* all at once */
      { "train={epochs: 4, batch_size: 32, average: {name: ema}, spikes: {policy: skip, window: 3, "
        "deviations: 1}, distill: {temperature: 2}, schedule: {name: one_cycle}, checkpoint: "
        "{every_minutes: 1e-12}, log: {every_steps: 3}, optimizer: {name: lion, lr: 1e-3, groups: "
        "[{match: norms.*, frozen: true}, {match: head.*, rate: 0.5}]}}",
        "model.norm=batch" } },
    { 13, { "train.distill={weight: 0.3}", "data.augment={cutmix: 1}" } },
    { 9,
      { "train.optimizer.groups=[{match: '*.bias', weight_decay: 0}, {match: layers.0.*, frozen: "
        "true}, {match: head.*, rate: 0.5}]" } },
};

#if defined TEST_SANITIZED
#define EACH_INTERRUPTION 3 /* every third: the bits are compared without a sanitizer, too */
#else
#define EACH_INTERRUPTION 1
#endif

START_TEST(an_interrupted_run_resumes_bit_for_bit)
{
    const interruption *c = &interruptions[_i * EACH_INTERRUPTION];
    char folder[TEST_PATH];
    test_folder(folder);
    job straight = { .dir = in(folder, "straight"), .overrides = { c->extra[0], c->extra[1] } };
    job first = { .dir = in(folder, "resumed"),
                  .overrides = { c->extra[0], c->extra[1] },
                  .stop_at = c->after,
                  .wanted = DT_ERR_INTERRUPTED,
                  .words = "a checkpoint was saved" };
    job second = { .dir = first.dir,
                   .overrides = { "run.threads=1", c->extra[0], c->extra[1] },
                   .resume = true };
    run(&straight);
    run(&first);
    ck_assert_int_eq(first.updates, c->after);
    ck_assert(!test_file_exists(in(first.dir, "summary.json")));
    run(&second);
    ck_assert_int_eq(first.updates + second.updates, straight.updates);
    same_runs(straight.dir, first.dir);
    for (int i = 0; i < DT_CONTENDERS; i++) {
        ck_assert_double_eq(straight.summary.result[i].metrics.loss,
                            second.summary.result[i].metrics.loss);
    }
}
END_TEST

/* A killed run has a checkpoint from some steps earlier, and later lines in metrics.jsonl. */
START_TEST(a_damaged_checkpoint_falls_back)
{
    char folder[TEST_PATH];
    size_t n;
    test_folder(folder);
    job straight = { .dir = in(folder, "straight") }, first = { .dir = in(folder, "resumed") };
    first.stop_at = 15;
    first.wanted = DT_ERR_INTERRUPTED;
    run(&straight);
    run(&first);
    const char *newest = in(first.dir, "checkpoints/step-0000000015.safetensors");
    char *bytes = test_read_file(newest, &n);
    bytes[n - 9] ^= 1;
    test_write_file(newest, bytes, n);
    free(bytes);
    job second = { .dir = first.dir, .resume = true };
    run(&second);
    ck_assert_int_eq(second.updates, 8); /* from 12 */
    same_runs(straight.dir, first.dir);
    job third = { .dir = first.dir, .resume = true }; /* resuming a finished run gives the same */
    run(&third);
    ck_assert_int_eq(third.updates, 0);
    same_runs(straight.dir, first.dir);
}
END_TEST

START_TEST(without_a_checkpoint_it_begins_anew)
{
    char folder[TEST_PATH];
    test_folder(folder);
    job straight = { .dir = in(folder, "straight") }, first = { .dir = in(folder, "resumed") };
    first.stop_at = 2;
    first.wanted = DT_ERR_INTERRUPTED;
    run(&straight);
    run(&first);
    ck_assert_int_eq(test_shell(NULL, "rm -r %s/checkpoints", first.dir), 0);
    job second = { .dir = first.dir, .resume = true };
    run(&second);
    ck_assert_int_eq(second.updates, 20);
    same_runs(straight.dir, first.dir);
}
END_TEST

START_TEST(more_epochs_may_follow)
{
    char folder[TEST_PATH];
    test_folder(folder);
    job first = { .dir = in(folder, "run") };
    job second = { .dir = first.dir, .overrides = { "train.epochs=5" }, .resume = true };
    job third = { .dir = first.dir,
                  .overrides = { "train.epochs=2" },
                  .resume = true,
                  .wanted = DT_ERR_CONFIG,
                  .words = "has done 25 already" };
    run(&first);
    run(&second);
    ck_assert_int_eq(second.updates, 5);
    char *recipe = test_read_file(in(first.dir, "recipe.yaml"), NULL);
    ck_assert_ptr_nonnull(strstr(recipe, "  epochs: 5 "));
    free(recipe);
    run(&third);
    recipe = test_read_file(in(first.dir, "recipe.yaml"), NULL); /* refused: nothing was written */
    ck_assert_ptr_nonnull(strstr(recipe, "  epochs: 5 "));
    free(recipe);
}
END_TEST

/* ---- checkpoints that no run has written ---------------------------------------------------- */

typedef struct forgery {
    const char *name; /* of a tensor */
    int64_t at;       /* which of its words changes */
    uint64_t to;
    const char *words;
} forgery;

#define NOT_A_NUMBER 0x7ff8000000000000
#define STEP_OF_HEAD "detent.optim.step.head.weight"

/* Counters: stage step prepared lines since limited skipped baseline_steps. */
static const forgery forgeries[] = {
    { "detent.counts", 0, 0, "'stage'" },
    { "detent.counts", 0, 7, "'stage'" },
    { "detent.counts", 0, UINT64_MAX, "'stage'" },
    { "detent.counts", 0, INT64_MAX, "'stage'" },
    { "detent.counts", 1, UINT64_MAX, "'step'" },
    { "detent.counts", 1, 11, "'step'" },
    { "detent.counts", 1, INT64_MAX, "'step'" },
    { "detent.counts", 2, 0, "'prepared'" },
    { "detent.counts", 2, 2, "'prepared'" },
    { "detent.counts", 3, UINT64_MAX, "'lines'" },
    { "detent.counts", 4, 13, "'since'" },
    { "detent.counts", 5, 13, "'limited'" },
    { "detent.counts", 6, 13, "'skipped'" },
    { "detent.counts", 7, UINT64_MAX, "'baseline_steps'" },
    { "detent.counts", 7, 19, "the float baseline is over and had 19" },
    { "detent.values", 0, NOT_A_NUMBER, "'loss_sum'" },
    { "detent.values", 1, NOT_A_NUMBER, "'norm_sum'" },
    { "detent.data", 0, 0, "'step'" },
    { "detent.data", 0, UINT64_MAX, "epoch -1" },
    { "detent.data", 0, INT64_MAX, "of epoch 9223372036854775807" },
    { "detent.data", 1, 4, "'step'" },
    { "detent.data", 1, 99, "batch 99" },
    { STEP_OF_HEAD, 0, UINT64_MAX, "-1 updates of head.weight" },
    { STEP_OF_HEAD, 0, 13, "13 updates of head.weight, of 12" },
};

/* A copy with one word changed, its hash right. */
static void forge(dt_ctx *ctx, const char *path, const forgery *f)
{
    dt_file *file = NULL;
    dt_writer *w = NULL;
    const char *key, *value;
    uint64_t words[64];
    TEST_OK(ctx, dt_file_open(ctx, path, &file));
    TEST_OK(ctx, dt_writer_create(ctx, &w));
    for (int64_t i = 0; dt_file_meta_at(file, i, &key, &value); i++) {
        if (strcmp(key, "detent.version") == 0 || strcmp(key, "detent.xxh3") == 0) continue;
        TEST_OK(ctx, dt_writer_meta(w, key, value));
    }
    for (int64_t i = 0; i < dt_file_count(file); i++) {
        dt_file_entry e = *dt_file_at(file, i);
        if (strcmp(e.name, f->name) == 0) {
            ck_assert(e.bytes <= sizeof words && f->at < (int64_t)e.bytes / 8);
            memcpy(words, e.data, e.bytes);
            words[f->at] = f->to;
            e.data = words;
        }
        TEST_OK(ctx, dt_writer_add_bytes(w, &e));
    }
    TEST_OK(ctx, dt_writer_write(w, path));
    dt_writer_free(w);
    dt_file_close(file);
}

START_TEST(a_forged_checkpoint_is_refused)
{
    const forgery *f = &forgeries[_i];
    char folder[TEST_PATH];
    test_folder(folder);
    job first = { .dir = in(folder, "run"), .stop_at = 12, .wanted = DT_ERR_INTERRUPTED };
    run(&first);
    dt_ctx *ctx = sample_context(1);
    forge(ctx, in(first.dir, "checkpoints/step-0000000012.safetensors"), f);
    dt_ctx_free(ctx);
    char *before = test_read_file(in(first.dir, "metrics.jsonl"), NULL);
    const bool of_recipe = strstr(f->words, "baseline is over") != NULL;
    job second = { .dir = first.dir,
                   .resume = true,
                   .words = f->words,
                   .wanted = of_recipe ? DT_ERR_CONFIG : DT_ERR_FORMAT };
    run(&second);
    char *after = test_read_file(in(first.dir, "metrics.jsonl"), NULL);
    ck_assert_str_eq(before, after);
    free(before);
    free(after);
}
END_TEST

START_TEST(a_checkpoint_of_another_run_is_refused)
{
    char folder[TEST_PATH];
    test_folder(folder);
    job first = { .dir = in(folder, "one"), .stop_at = 9, .wanted = DT_ERR_INTERRUPTED };
    job other = { .dir = in(folder, "two"),
                  .stop_at = 12,
                  .wanted = DT_ERR_INTERRUPTED,
                  .overrides = { "run.seed=99" } };
    run(&first);
    run(&other);
    ck_assert_int_eq(test_shell(NULL,
                                "cp %s/checkpoints/step-0000000012.safetensors %s/checkpoints",
                                other.dir, first.dir),
                     0);
    job second = { .dir = first.dir,
                   .resume = true,
                   .wanted = DT_ERR_FORMAT,
                   .words = "a checkpoint of another run: 'run.seed' of its recipe differs" };
    run(&second);
}
END_TEST

/* ---- mistakes ------------------------------------------------------------------------------- */

typedef struct mistake {
    const char *overrides[4];
    dt_status status;
    const char *words;
} mistake;

#define LONG                                                                                       \
    "a-hundred-characters-of-a-name-are-nothing-but-three-hundred-are-more-than-a-folder-takes-"   \
    "as-one--"

static const mistake mistakes[] = {
    { { "model.sizes=[400, 10]" },
      DT_ERR_CONFIG,
      "is 400, but the images are [1,28,28]; 784 would fit" },
    { { "model.sizes=[784, 5]" },
      DT_ERR_CONFIG,
      "is 5, but the labels have 10 classes, 0 to 9; it must be at least 10" },
    { { "qat.rules=[{match: layers.9, skip: true}]" }, DT_ERR_CONFIG, "layers.9" },
    { { "qat.rules=[{match: '*', skip: true}]" }, DT_ERR_CONFIG, "no weight is left to quantize" },
    { { "qat.freeze_observer_step=9" }, DT_ERR_CONFIG, "there is no observer to freeze" },
    { { "qat.refresh_steps=9" }, DT_ERR_CONFIG, "no weight has a static range" },
    { { "qat.activation={range: static, granularity: token}" },
      DT_ERR_CONFIG,
      "wants granularity tensor" },
    { { "qat.activation={range: static, observer: percentile, percentile: 30}" },
      DT_ERR_CONFIG,
      "percentile" },
    { { "model.norm=batch", "data.train_count=129" },
      DT_ERR_CONFIG,
      "the last of an epoch's batches is a single one of 129 images" },
    { { "model.norm=batch", "train.batch_size=1" },
      DT_ERR_CONFIG,
      "1 values a channel; training wants at least 2" },
    { { "data.augment.shift=28" }, DT_ERR_CONFIG, "shift 28" },
    { { "train.evaluate.every_steps=2" },
      DT_ERR_CONFIG,
      "'train.evaluate.every_steps' wants data to evaluate on; 'data.validation'" },
    { { "train.early_stopping.patience=2" }, DT_ERR_CONFIG, "patience' wants data to evaluate on" },
    { { "train.finish_with=best" }, DT_ERR_CONFIG, "finish_with' wants data to evaluate on" },
    { { "train.checkpoint.best=true" }, DT_ERR_CONFIG, "best' wants data to evaluate on" },
    { { "train.early_stopping.least_improvement=0.1", "data.validation=0.2" },
      DT_ERR_CONFIG,
      "does nothing without 'train.early_stopping.patience'" },
    { { "train.schedule={name: warmup_stable_decay, warmup_steps: 4, decay_steps: 17}" },
      DT_ERR_CONFIG,
      "is 17, but only 16 updates follow the warmup" },
    { { "train.schedule={name: plateau}" }, DT_ERR_CONFIG, "name' wants data to evaluate on" },
    { { "train.optimizer.groups=[{match: layers.0.*}, {match: tail}]" },
      DT_ERR_CONFIG,
      "'train.optimizer.groups.1.match': 'tail' matches no parameter of the model" },
    { { "train.optimizer.groups=[{match: '*', frozen: true}]" },
      DT_ERR_CONFIG,
      "freezes every parameter" },
    { { "train.epochs=9000000000000000000" }, DT_ERR_CONFIG, "more than can be counted" },
    { { "convert.output=recipe.yaml" }, DT_ERR_CONFIG, "the run itself writes" },
    { { "convert.output=../x.safetensors" }, DT_ERR_CONFIG, "no name of a file inside run.dir" },
    { { "convert.output=a/../../x" }, DT_ERR_CONFIG, "no name of a file inside run.dir" },
    { { "convert.output=a/." }, DT_ERR_CONFIG, "no name of a file inside run.dir" },
    { { "convert.output=a/" }, DT_ERR_CONFIG, "no name of a file inside run.dir" },
    { { "convert.output=./checkpoints" }, DT_ERR_CONFIG, "inside run.dir" },
    { { "convert.output=/tmp/x.safetensors" }, DT_ERR_CONFIG, "no name of a file inside run.dir" },
    { { "convert.output=./recipe.yaml" }, DT_ERR_CONFIG, "no name of a file inside run.dir" },
    { { "convert.output=out//m" }, DT_ERR_CONFIG, "no name of a file inside run.dir" },
    { { "convert.output=out/." }, DT_ERR_CONFIG, "no name of a file inside run.dir" },
    { { "convert.output=out/.." }, DT_ERR_CONFIG, "no name of a file inside run.dir" },
    { { "convert.output=.." }, DT_ERR_CONFIG, "no name of a file inside run.dir" },
    { { "convert.output=checkpoints/m" }, DT_ERR_CONFIG, "the run itself writes" },
    { { "convert.output=out/" LONG LONG LONG }, DT_ERR_CONFIG, "no name of a file inside run.dir" },
};

START_TEST(a_mistake_is_found_before_a_file_is_written)
{
    const mistake *m = &mistakes[_i];
    char folder[TEST_PATH];
    test_folder(folder);
    job j = { .dir = in(folder, "run"), .wanted = m->status, .words = m->words };
    memcpy(j.overrides, m->overrides, sizeof m->overrides);
    run(&j);
    ck_assert_int_eq(sample_entries(folder), 0);
    ck_assert(!j.summary.begun);
}
END_TEST

/* A last batch of one image is accepted where no norm needs two, or no update reaches it. */
START_TEST(one_image_may_be_left_over)
{
    char folder[TEST_PATH];
    test_folder(folder);
    job plain = { .dir = in(folder, "a"), .overrides = { "data.train_count=129" } };
    job early = { .dir = in(folder, "b"),
                  .overrides = { "data.train_count=129", "model.norm=batch", "train.steps=4",
                                 "qat.start_step=2" } };
    plain.dry_run = early.dry_run = true;
    run(&plain);
    run(&early);
}
END_TEST

START_TEST(a_folder_is_not_taken_twice)
{
    char folder[TEST_PATH];
    test_folder(folder);
    job j = { .dir = in(folder, "run"), .overrides = { "train.steps=9" } };
    job again = { .dir = j.dir, .wanted = DT_ERR_CONFIG, .words = "exists; --resume" };
    job other = { .dir = j.dir,
                  .overrides = { "train.steps=9", "train.optimizer.lr=0.5" },
                  .resume = true,
                  .wanted = DT_ERR_CONFIG,
                  .words = "'train.optimizer.lr' differs from the run's; resuming, only run.dir, "
                           "run.threads, run.report, train.epochs, train.spikes, "
                           "train.checkpoint and train.log may change" };
    job sizes = { .dir = j.dir,
                  .overrides = { "train.steps=9", "model.sizes=[784, 10]" },
                  .resume = true,
                  .wanted = DT_ERR_CONFIG,
                  .words = "'model.sizes' differs" };
    job none = { .dir = in(folder, "none"),
                 .resume = true,
                 .wanted = DT_ERR_CONFIG,
                 .words = "holds no run to resume" };
    run(&j);
    char *before = test_read_file(in(j.dir, "recipe.yaml"), NULL);
    run(&again);
    run(&other);
    run(&sizes);
    run(&none);
    char *after = test_read_file(in(j.dir, "recipe.yaml"), NULL);
    ck_assert_str_eq(before, after);
    free(before);
    free(after);
    ck_assert_int_eq(sample_entries(folder), 1);
}
END_TEST

/* ---- NaN and infinity ----------------------------------------------------------------------- */

/* A float model of the small recipe with a NaN in it. */
static const char *poisoned_weights(const char *folder, int norm)
{
    const dt_mlp_options options = { .sizes = { 4, { 784, 24, 16, 10 } },
                                     .bias = true,
                                     .norm = norm,
                                     .dropout = 0.1,
                                     .momentum = 0.1,
                                     .eps = 1e-5 };
    dt_ctx *ctx = sample_context(1);
    dt_module *m = NULL;
    const char *path = in(folder, "poisoned.safetensors");
    const dt_model_info info = { .family = dt_family_at(0), .options = &options };
    TEST_OK(ctx, dt_mlp_create(ctx, &options, &m));
    ((float *)dt_data_mut(dt_param(m, "layers.1.weight")))[7] = NAN;
    TEST_OK(ctx, dt_model_save(m, &info, path));
    dt_module_free(m);
    dt_ctx_free(ctx);
    return path;
}

/* Weights of model.init were trained: static ranges see batches first, in a dry run as in a real
 * one. */
START_TEST(a_dry_run_calibrates_the_weights_it_begins_with)
{
    char folder[TEST_PATH], init[TEST_PATH + 16];
    test_folder(folder);
    snprintf(init, sizeof init, "model.init=%s", poisoned_weights(folder, 0));
    job real = { .dir = in(folder, "real"),
                 .overrides = { init, "qat={preset: int8-static-int8-weight}" },
                 .wanted = DT_ERR_NUMERIC,
                 .words = "observe: element 0 is NaN" };
    job dry = real;
    dry.dir = in(folder, "dry");
    dry.dry_run = true;
    run(&real);
    run(&dry);
    ck_assert_str_eq(dry.message, real.message);
}
END_TEST

START_TEST(a_run_stops_before_the_optimizer_writes)
{
    char folder[TEST_PATH], init[TEST_PATH + 16];
    test_folder(folder);
    snprintf(init, sizeof init, "model.init=%s", poisoned_weights(folder, 0));
    job nan = { .dir = in(folder, "nan"),
                .overrides = { init },
                .wanted = DT_ERR_NUMERIC,
                .words = "step 1 (float)" };
    run(&nan);
    ck_assert_msg(strstr(nan.message, "linear") != NULL && strstr(nan.message, "layers.1") != NULL,
                  "%s", nan.message);
    job qat = { .dir = in(folder, "qat"),
                .overrides = { init, "qat.start_step=0" },
                .wanted = DT_ERR_NUMERIC,
                .words = "quantize layers.1" };
    run(&qat);
    ck_assert_msg(strstr(qat.message, "layers.1") != NULL, "%s", qat.message);
    job wild = { .dir = in(folder, "wild"),
                 .overrides = { "~qat", "train.optimizer={name: sgd, lr: 1e30}",
                                "train.clip_grad_norm=0", "train.schedule={name: constant}",
                                "train.checkpoint.every_steps=1" },
                 .wanted = DT_ERR_NUMERIC,
                 .words = "step " };
    run(&wild);
    ck_assert_int_gt(wild.updates, 0);
    dt_ctx *ctx = sample_context(1);
    char path[TEST_PATH];
    dt_module *m = NULL;
    TEST_OK(ctx, dt_checkpoint_newest(ctx, in(wild.dir, "checkpoints"), path, sizeof path, NULL));
    TEST_OK(ctx, dt_model_load(ctx, path, &m, NULL));
    const dt_tensor *w = dt_param(m, "layers.1.weight");
    const float *x = dt_data(w);
    for (int64_t i = 0; i < dt_count(w); i++) ck_assert(x[i] - x[i] == 0);
    dt_module_free(m);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(updates_that_are_not_finite_are_skipped)
{
    char folder[TEST_PATH], init[TEST_PATH + 16];
    test_folder(folder);
    snprintf(init, sizeof init, "model.init=%s", poisoned_weights(folder, 0));
    job j = { .dir = in(folder, "run"), .overrides = { init, "~qat", "train.nonfinite=skip" } };
    run(&j);
    ck_assert_int_eq(j.summary.skipped, 20);
    char *metrics = timeless_metrics(j.dir);
    ck_assert_ptr_nonnull(strstr(metrics, "\"skipped\": 20"));
    ck_assert_ptr_null(strstr(metrics, "loss"));
    free(metrics);
}
END_TEST

/* Buffers too are as if the update had not been tried. */
START_TEST(a_skipped_update_leaves_no_trace)
{
    char folder[TEST_PATH], init[TEST_PATH + 16];
    test_folder(folder);
    snprintf(init, sizeof init, "model.init=%s", poisoned_weights(folder, 1));
    job j = { .dir = in(folder, "run"),
              .overrides = { init, "~qat", "train.nonfinite=skip", "model.norm=batch" } };
    run(&j);
    ck_assert_int_eq(j.summary.skipped, 20);
    dt_ctx *ctx = sample_context(1);
    dt_file *file = NULL;
    TEST_OK(ctx, dt_file_open(ctx, in(j.dir, "float.safetensors"), &file));
    const dt_file_entry *e = dt_file_find(file, "norms.1.running_mean");
    ck_assert(e != NULL && e->count == 16);
    for (size_t i = 0; i < e->bytes; i++) ck_assert_int_eq(((const char *)e->data)[i], 0);
    dt_file_close(file);
    dt_ctx_free(ctx);
}
END_TEST

/* A skipped update is also forgotten by observers: only the calibration's batches, an epoch of 150
 * images, remain. */
START_TEST(a_skipped_update_was_not_observed)
{
    char folder[TEST_PATH], init[TEST_PATH + 16], path[TEST_PATH];
    test_folder(folder);
    snprintf(init, sizeof init, "model.init=%s", poisoned_weights(folder, 0));
    job j = { .dir = in(folder, "run"),
              .overrides = { init,
                             "qat={preset: int8-static-int8-weight, rules: [{match: head, skip: "
                             "true}, {match: layers.1, skip: true}]}",
                             "train.nonfinite=skip", "train.steps=4" } };
    run(&j);
    ck_assert_int_eq(j.summary.skipped, 4);
    dt_ctx *ctx = sample_context(1);
    dt_file *file = NULL;
    TEST_OK(ctx, dt_checkpoint_newest(ctx, in(j.dir, "checkpoints"), path, sizeof path, NULL));
    TEST_OK(ctx, dt_file_open(ctx, path, &file));
    const dt_file_entry *e = dt_file_find(file, "layers.0.input.count");
    int64_t count;
    ck_assert_ptr_nonnull(e);
    memcpy(&count, e->data, sizeof count);
    ck_assert_int_eq(count, 150 * 784);
    dt_file_close(file);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- shipped recipes ------------------------------------------------------------------------ */

/* What a recipe's data is: drawn, or files that the test makes. */
enum { DRAWN, MNIST, CIFAR, TEXT };

static const struct {
    const char *name;
    int data;
} shipped[] = {
    { "digits-mlp", DRAWN },          { "digits-cnn", DRAWN },
    { "digits-unet-denoise", DRAWN }, { "digits-2bit", DRAWN },
    { "mnist-mlp", MNIST },           { "mnist-mlp-int8", MNIST },
    { "mnist-mlp-finetune", MNIST },  { "mnist-cnn", MNIST },
    { "mnist-cnn-w4a4", MNIST },      { "mnist-tfc-w2a2", MNIST },
    { "cifar10-resnet20", CIFAR },    { "adder", DRAWN },
    { "shakespeare-char-gpt", TEXT }, { "shakespeare-llama", TEXT },
    { "shakespeare-moe", TEXT },      { "names-bytes-tiny", TEXT },
    { "sounds-dscnn", DRAWN },        { "sensors-conv1d", DRAWN },
    { "sensors-gru", DRAWN },         { "sensors-anomaly", DRAWN },
    { "table-classes", DRAWN },       { "table-values", DRAWN },
    { "digits-mobilenet", DRAWN },
};

#define SHIPPED ((int)(sizeof shipped / sizeof shipped[0]))

/* The four files of MNIST, drawn by detent. */
static void write_images(const char *folder)
{
    dt_ctx *ctx = sample_context(2);
    dt_dataset *train = sample_digits(ctx, 300, 1), *test = sample_digits(ctx, 100, 2);
    TEST_OK(ctx, dt_idx_write(train, in(folder, "train-images-idx3-ubyte.gz"),
                              in(folder, "train-labels-idx1-ubyte.gz")));
    TEST_OK(ctx, dt_idx_write(test, in(folder, "t10k-images-idx3-ubyte.gz"),
                              in(folder, "t10k-labels-idx1-ubyte.gz")));
    dt_dataset_free(train);
    dt_dataset_free(test);
    dt_ctx_free(ctx);
}

/* The six files of CIFAR-10, 24 noisy images each. */
static void write_cifar(const char *folder)
{
    static uint8_t records[24 * 3073];
    static const char *const names[] = { "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                         "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin" };
    uint32_t x = 1;
    for (int file = 0; file < 6; file++) {
        for (size_t i = 0; i < sizeof records; i++) {
            x = x * 1664525U + 1013904223U;
            records[i] = (uint8_t)(i % 3073 == 0 ? (x >> 24) % 10 : x >> 24);
        }
        test_write_file(in(folder, names[file]), records, sizeof records);
    }
}

/* Both files of text: 65 different characters, and few of them. */
static void write_texts(const char *folder)
{
    char text[3 * 1000 + 1] = "";
    for (int i = 0; i < 3000; i++) text[i] = (char)('!' + (i < 65 ? i : i * i % 65));
    test_write_text(in(folder, "tinyshakespeare.txt"), text);
    test_write_text(in(folder, "names.txt"), text);
}

static void run_shipped(const char *name, const char *const *overrides, int n)
{
    char path[TEST_PATH];
    snprintf(path, sizeof path, "%s/configs/%s.yaml", DETENT_SOURCE_DIR, name);
    dt_ctx *ctx = sample_context(2);
    const dt_recipe_source source = { .path = path, .overrides = overrides, .n_overrides = n };
    dt_recipe *recipe = NULL;
    dt_run_summary summary;
    TEST_OK(ctx, dt_recipe_read(ctx, &source, &recipe));
    TEST_OK(ctx, dt_run(ctx, recipe, NULL, &summary));
    ck_assert_msg(summary.same_bits_as_qat, "%s", name);
    const char *model = in(overrides[0] + strlen("run.dir="), "model.safetensors");
    ck_assert_int_eq(bytes_in(ctx, model), summary.result[DT_RUN_CONVERTED].bytes);
    dt_recipe_free(recipe);
    dt_ctx_free(ctx);
}

static const test_draws batches = { .usual = 16, .sanitized = 4 }; /* their size */

/* A few updates of a recipe, on small data. */
static void run_short(const char *folder, int i, const char *init)
{
    char dir[TEST_PATH + 16], data[TEST_PATH + 16], batch[40];
    const char *overrides[10] = { dir, "train.steps=6", "qat.start_step=3",
                                  "train.schedule.warmup_steps=2", batch };
    int n = 5;
    snprintf(batch, sizeof batch, "train.batch_size=%d", (int)test_count(batches));
    snprintf(dir, sizeof dir, "run.dir=%s/%s", folder, shipped[i].name);
    snprintf(data, sizeof data, "data.dir=%s", folder);
    overrides[n++] = shipped[i].data == DRAWN ? "data.train_count=200" : data;
    if (shipped[i].data == DRAWN) overrides[n++] = "data.test_count=50";
    if (init != NULL) overrides[n++] = init;
    /* check_routing wants two evaluations, however small the batches are */
    if (strcmp(shipped[i].name, "shakespeare-moe") == 0) {
        overrides[n++] = "train.evaluate.every_steps=3";
    }
    run_shipped(shipped[i].name, overrides, n);
}

static int find_shipped(const char *name)
{
    int i = 0;
    while (strcmp(shipped[i].name, name) != 0) i++;
    return i;
}

/* Validation reports the routing of rows: of 8 experts in each layer, whose shares add up to 1. */
static void check_routing(const char *run)
{
    char *metrics = timeless_metrics(run);
    double busiest = 0, idlest = 0;
    const char *most = strstr(metrics, "busiest_expert"), *least = strstr(metrics, "idlest_expert");
    ck_assert(most != NULL && least != NULL && strstr(most + 1, "busiest_expert") != NULL);
    sscanf(strchr(most, ':'), ": %lf", &busiest);
    sscanf(strchr(least, ':'), ": %lf", &idlest);
    ck_assert(busiest > 0.125 && busiest < 0.5 && idlest >= 0 && idlest < 0.125);
    free(metrics);
}

START_TEST(every_shipped_recipe_runs)
{
    char folder[TEST_PATH], init[TEST_PATH + 64];
    const bool tunes = strcmp(shipped[_i].name, "mnist-mlp-finetune") == 0;
    test_folder(folder);
    if (shipped[_i].data == MNIST) write_images(folder);
    if (shipped[_i].data == CIFAR) write_cifar(folder);
    if (shipped[_i].data == TEXT) write_texts(folder);
    if (tunes) run_short(folder, find_shipped("mnist-mlp"), NULL);
    snprintf(init, sizeof init, "model.init=%s/mnist-mlp/float.safetensors", folder);
    run_short(folder, _i, tunes ? init : NULL);
    if (strcmp(shipped[_i].name, "shakespeare-moe") == 0) {
        check_routing(in(folder, "shakespeare-moe"));
    }
}
END_TEST

/* ---- memory --------------------------------------------------------------------------------- */

typedef struct scarce {
    char folder[TEST_PATH];
    int runs;
} scarce;

static dt_status scarce_run(dt_ctx *ctx, void *user)
{
    scarce *s = user;
    char dir[TEST_PATH + 32];
    snprintf(dir, sizeof dir, "%s/%d", s->folder, s->runs++);
    job j = { .dir = dir,
              .overrides = { "data.train_count=8", "data.test_count=3", "model.sizes=[784, 8, 10]",
                             "train.batch_size=4", "train.epochs=1", "qat.start_step=1",
                             "train.float_baseline=true", "data.validation=0.2",
                             "train.average={name: ema}", "data.augment={mixup: 1}",
                             "train.distill={weight: 0.5}" } };
    counted = ctx;
    return try_run(ctx, &j);
}

START_TEST(every_allocation_may_fail)
{
    scarce s = { .runs = 0 };
    test_folder(s.folder);
    printf("run: %lld allocations failed in turn\n",
           (long long)test_every_allocation(scarce_run, &s));
}
END_TEST

Suite *test_run_suite(void)
{
    Suite *suite = suite_create("run");
    TCase *all = tcase_create("run");
    tcase_set_timeout(all, 300);
    tcase_add_test(all, a_run_writes_its_files);
    tcase_add_test(all, bytes_are_those_of_the_files);
    tcase_add_test(all, adapters_alone_are_trained);
    tcase_add_test(all, invalid_adapters_are_refused);
    tcase_add_test(all, recomputing_changes_no_bit);
    tcase_add_test(all, a_baseline_is_a_row_of_the_table);
    tcase_add_test(all, weights_that_were_given_are_rows_of_the_table);
    tcase_add_test(all, without_float_steps_there_is_no_float_row);
    tcase_add_test(all, disabled_qat_trains_as_float_does);
    tcase_add_test(all, validation_is_reported_every_epoch);
    tcase_add_test(all, a_run_ends_with_the_best_of_its_last_phase);
    tcase_add_test(all, without_qat_the_float_phase_is_the_last);
    tcase_add_test(all, training_ends_early);
    tcase_add_loop_test(all, the_best_survives_an_interruption, 0, DT__COUNT_OF(best_stops));
    tcase_add_loop_test(all, a_plateau_survives_an_interruption, 0, 6);
    tcase_add_test(all, frozen_parameters_do_not_change);
    tcase_add_test(all, averages_are_those_of_the_weights);
    tcase_add_test(all, averages_are_evaluated_and_converted);
    tcase_add_test(all, spikes_are_found_and_answered);
    tcase_add_test(all, checkpoints_by_minutes);
    tcase_add_test(all, a_best_of_another_step_is_refused);
    tcase_add_test(all, a_dry_run_writes_nothing);
    tcase_add_test(all, a_dry_run_calibrates_the_weights_it_begins_with);
    tcase_add_test(all, threads_change_no_bit);
    tcase_add_test(all, the_seed_changes_them);
    tcase_add_test(all, accumulation_is_the_whole_batch);
    tcase_add_loop_test(all, updates_allocate_nothing, 0, 4);
    tcase_add_loop_test(all, an_interrupted_run_resumes_bit_for_bit, 0,
                        DT__COUNT_OF(interruptions) / EACH_INTERRUPTION);
    tcase_add_test(all, a_damaged_checkpoint_falls_back);
    tcase_add_test(all, without_a_checkpoint_it_begins_anew);
    tcase_add_test(all, more_epochs_may_follow);
    tcase_add_loop_test(all, a_forged_checkpoint_is_refused, 0, DT__COUNT_OF(forgeries));
    tcase_add_test(all, a_checkpoint_of_another_run_is_refused);
    tcase_add_loop_test(all, a_mistake_is_found_before_a_file_is_written, 0,
                        DT__COUNT_OF(mistakes));
    tcase_add_test(all, one_image_may_be_left_over);
    tcase_add_test(all, a_folder_is_not_taken_twice);
    tcase_add_test(all, a_run_stops_before_the_optimizer_writes);
    tcase_add_test(all, updates_that_are_not_finite_are_skipped);
    tcase_add_test(all, a_skipped_update_leaves_no_trace);
    tcase_add_test(all, a_skipped_update_was_not_observed);
    tcase_add_loop_test(all, every_shipped_recipe_runs, 0, SHIPPED);
    tcase_add_test(all, every_allocation_may_fail);
    suite_add_tcase(suite, all);
    return suite;
}

/* Mistakes that stop a run before it writes a file, and numbers that are not finite. */
#include "run_jobs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- mistakes ------------------------------------------------------------------------------- */

typedef struct mistake {
    const char *overrides[4];
    dt_status status;
    const char *words;
} mistake;

#define LONG                                                                                       \
    "a-hundred-characters-of-a-name-are-nothing-but-three-hundred-are-more-than-a-folder-takes-"   \
    "as-one--"

/* Settings that never take effect in a run of 20 updates, 5 an epoch, with 4 evaluations; each has
 * a variant that does. */
static const struct {
    const char *overrides[3], *said; /* NULL: nothing */
} lengths[] = {
    { { "train.schedule={name: step, every: 17, warmup_steps: 3}" },
      "'train.schedule.every' is 17" },
    { { "train.schedule={name: step, every: 16, warmup_steps: 3}" }, NULL },
    { { "train.schedule={name: cosine_restarts, every: 20}" }, "the rate never steps" },
    { { "train.schedule={name: multistep, milestones: [4, 20]}" }, "milestones' is 20" },
    { { "train.schedule={name: multistep, milestones: [4, 19]}" }, NULL },
    { { "train.schedule={name: cosine, total_steps: 19}" }, "from there on the rate is 0" },
    { { "train.schedule={name: cosine, total_steps: 19, floor: 0.1}" }, NULL },
    { { "train.schedule={name: cosine, total_steps: 20}" }, NULL },
    { { "train.schedule={name: linear, total_steps: 90}" }, NULL },
    { { "train.average={name: epochs, last: 5}" }, "'train.average.last' is 5, but there are 4" },
    { { "train.average={name: epochs, last: 4}" }, NULL },
    { { "train.early_stopping.patience=4", "data.validation=0.1" }, "nothing is stopped" },
    { { "train.early_stopping.patience=3", "data.validation=0.1" }, NULL },
    { { "train.spikes={policy: skip, window: 20}" }, "none is a spike" },
    { { "train.spikes={policy: skip, window: 19}" }, NULL },
};

static void keep_line(void *user, const char *line)
{
    char *all = user;
    const size_t used = strlen(all);
    if (strncmp(line, "warning: 'train.", 16) == 0) snprintf(all + used, 500 - used, "%s\n", line);
}

START_TEST(settings_that_never_act)
{
    char said[500] = "";
    const dt_ctx_options options = { .threads = 1, .log = keep_line, .log_user = said };
    dt_ctx *ctx = NULL;
    job j = { .dir = "never", .dry_run = true };
    for (int i = 0; i < 3; i++) j.overrides[i] = lengths[_i].overrides[i];
    ck_assert_int_eq(dt_ctx_create(&ctx, &options), DT_OK);
    TEST_OK(ctx, job_try(ctx, &j));
    if (lengths[_i].said == NULL) ck_assert_str_eq(said, "");
    else ck_assert_msg(strstr(said, lengths[_i].said) != NULL, "%s", said);
    dt_ctx_free(ctx);
}
END_TEST

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
    { { "qat.layer_steps=900" }, DT_ERR_CONFIG, "layers would be quantized after training" },
    { { "qat.preset=device-int8", "qat.layer_steps=1" }, DT_ERR_CONFIG, "is quantized as a whole" },
    { { "qat={freeze: 0.1, weight: {range: static}}", "adapters={rank: 2}" },
      DT_ERR_CONFIG,
      "has an adapter" },
    { { "qat.freeze=0.1" }, DT_ERR_CONFIG, "symmetric with a dynamic range" },
    { { "train.distill={features: [head, layers.9]}" },
      DT_ERR_CONFIG,
      "'layers.9' of the model: there is no such layer" },
    { { "train.distill={features: [head]}", "qat.preset=device-int8" },
      DT_ERR_CONFIG,
      "its network runs as a whole" },
    { { "qat.cache=int4" },
      DT_ERR_CONFIG,
      "'qat.cache': a mlp has no cache of keys and values; language models have" },
    { { "qat.norm_batches=2" }, DT_ERR_CONFIG, "no norms with running statistics" },
    { { "qat.activation={range: static, granularity: token}" },
      DT_ERR_CONFIG,
      "requires granularity tensor" },
    { { "qat.activation={range: static, observer: percentile, percentile: 30}" },
      DT_ERR_CONFIG,
      "percentile" },
    { { "model.norm=batch", "data.train_count=129" },
      DT_ERR_CONFIG,
      "the last of an epoch's batches is a single one of 129 images" },
    { { "model={norm: batch, momentum: 0, eps: 0, family: mlp, sizes: [784, 10, 10]}" },
      DT_ERR_CONFIG,
      "momentum 0 and eps 0, as in options of zeros" },
    { { "model.norm=batch", "train.batch_size=1" },
      DT_ERR_CONFIG,
      "1 values a channel; training requires at least 2" },
    { { "data.augment.shift=28" }, DT_ERR_CONFIG, "shift 28" },
    { { "train.evaluate.every_steps=2" },
      DT_ERR_CONFIG,
      "'train.evaluate.every_steps' requires data to evaluate on; 'data.validation'" },
    { { "train.early_stopping.patience=2" },
      DT_ERR_CONFIG,
      "patience' requires data to evaluate on" },
    { { "train.finish_with=best" }, DT_ERR_CONFIG, "finish_with' requires data to evaluate on" },
    { { "train.checkpoint.best=true" }, DT_ERR_CONFIG, "best' requires data to evaluate on" },
    { { "train.early_stopping.least_improvement=0.1", "data.validation=0.2" },
      DT_ERR_CONFIG,
      "does nothing without 'train.early_stopping.patience'" },
    { { "train.schedule={name: warmup_stable_decay, warmup_steps: 4, decay_steps: 17}" },
      DT_ERR_CONFIG,
      "is 17, but only 16 updates follow the warmup" },
    { { "train.schedule={name: plateau}" }, DT_ERR_CONFIG, "name' requires data to evaluate on" },
    { { "train.optimizer.groups=[{match: layers.0.*}, {match: tail}]" },
      DT_ERR_CONFIG,
      "'train.optimizer.groups.1.match': 'tail' matches no parameter of the model" },
    { { "train.optimizer.groups=[{match: '*', frozen: true}]" },
      DT_ERR_CONFIG,
      "freezes every parameter" },
    { { "train.epochs=9000000000000000000" }, DT_ERR_CONFIG, "more than can be counted" },
    { { "convert.output=recipe.yaml" }, DT_ERR_CONFIG, "the run itself writes" },
    { { "convert.output=../x.safetensors" }, DT_ERR_CONFIG, "not a name of a file inside run.dir" },
    { { "convert.output=a/../../x" }, DT_ERR_CONFIG, "not a name of a file inside run.dir" },
    { { "convert.output=a/." }, DT_ERR_CONFIG, "not a name of a file inside run.dir" },
    { { "convert.output=a/" }, DT_ERR_CONFIG, "not a name of a file inside run.dir" },
    { { "convert.output=./checkpoints" }, DT_ERR_CONFIG, "inside run.dir" },
    { { "convert.output=/tmp/x.safetensors" },
      DT_ERR_CONFIG,
      "not a name of a file inside run.dir" },
    { { "convert.output=./recipe.yaml" }, DT_ERR_CONFIG, "not a name of a file inside run.dir" },
    { { "convert.output=out//m" }, DT_ERR_CONFIG, "not a name of a file inside run.dir" },
    { { "convert.output=out/." }, DT_ERR_CONFIG, "not a name of a file inside run.dir" },
    { { "convert.output=out/.." }, DT_ERR_CONFIG, "not a name of a file inside run.dir" },
    { { "convert.output=.." }, DT_ERR_CONFIG, "not a name of a file inside run.dir" },
    { { "convert.output=checkpoints/m" }, DT_ERR_CONFIG, "the run itself writes" },
    { { "convert.output=out/" LONG LONG LONG },
      DT_ERR_CONFIG,
      "not a name of a file inside run.dir" },
};

START_TEST(a_mistake_is_found_before_a_file_is_written)
{
    const mistake *m = &mistakes[_i];
    char folder[TEST_PATH];
    test_folder(folder);
    job j = { .dir = job_path(folder, "run"), .wanted = m->status, .words = m->words };
    memcpy(j.overrides, m->overrides, sizeof m->overrides);
    job_run(&j);
    ck_assert_int_eq(sample_entries(folder), 0);
    ck_assert(!j.summary.begun);
}
END_TEST

/* A last batch of one image is accepted where no norm needs two, or no update reaches it. */
START_TEST(one_image_may_be_left_over)
{
    char folder[TEST_PATH];
    test_folder(folder);
    job plain = { .dir = job_path(folder, "a"), .overrides = { "data.train_count=129" } };
    job early = { .dir = job_path(folder, "b"),
                  .overrides = { "data.train_count=129", "model.norm=batch", "train.steps=4",
                                 "qat.start_step=2" } };
    plain.dry_run = early.dry_run = true;
    job_run(&plain);
    job_run(&early);
}
END_TEST

START_TEST(a_folder_is_not_taken_twice)
{
    char folder[TEST_PATH];
    test_folder(folder);
    job j = { .dir = job_path(folder, "run"), .overrides = { "train.steps=9" } };
    job again = { .dir = j.dir, .wanted = DT_ERR_CONFIG, .words = "exists; --resume" };
    job other = { .dir = j.dir,
                  .overrides = { "train.steps=9", "train.optimizer.lr=0.5" },
                  .resume = true,
                  .wanted = DT_ERR_CONFIG,
                  .words = "'train.optimizer.lr' differs from the run's; resuming, only run.dir, "
                           "run.threads, run.report, data.cache, train.epochs, train.spikes, "
                           "train.checkpoint, train.log, cluster.bucket_mb, cluster.timeout, "
                           "cluster.check_steps, cluster.shard_optimizer and cluster.experts "
                           "may change" };
    job sizes = { .dir = j.dir,
                  .overrides = { "train.steps=9", "model.sizes=[784, 10]" },
                  .resume = true,
                  .wanted = DT_ERR_CONFIG,
                  .words = "'model.sizes' differs" };
    job none = { .dir = job_path(folder, "none"),
                 .resume = true,
                 .wanted = DT_ERR_CONFIG,
                 .words = "has no run to resume" };
    job_run(&j);
    char *before = test_read_file(job_path(j.dir, "recipe.yaml"), NULL);
    job_run(&again);
    job_run(&other);
    job_run(&sizes);
    job_run(&none);
    char *after = test_read_file(job_path(j.dir, "recipe.yaml"), NULL);
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
    const char *path = job_path(folder, "poisoned.safetensors");
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
    job real = { .dir = job_path(folder, "real"),
                 .overrides = { init, "qat={preset: int8-static-int8-weight}" },
                 .wanted = DT_ERR_NUMERIC,
                 .words = "observe: element 0 is NaN" };
    job dry = real;
    dry.dir = job_path(folder, "dry");
    dry.dry_run = true;
    job_run(&real);
    job_run(&dry);
    ck_assert_str_eq(dry.message, real.message);
}
END_TEST

START_TEST(a_run_stops_before_the_optimizer_writes)
{
    char folder[TEST_PATH], init[TEST_PATH + 16];
    test_folder(folder);
    snprintf(init, sizeof init, "model.init=%s", poisoned_weights(folder, 0));
    job nan = { .dir = job_path(folder, "nan"),
                .overrides = { init },
                .wanted = DT_ERR_NUMERIC,
                .words = "step 1 (float)" };
    job_run(&nan);
    ck_assert_msg(strstr(nan.message, "linear") != NULL && strstr(nan.message, "layers.1") != NULL,
                  "%s", nan.message);
    job qat = { .dir = job_path(folder, "qat"),
                .overrides = { init, "qat.start_step=0" },
                .wanted = DT_ERR_NUMERIC,
                .words = "quantize layers.1" };
    job_run(&qat);
    ck_assert_msg(strstr(qat.message, "layers.1") != NULL, "%s", qat.message);
    job wild = { .dir = job_path(folder, "wild"),
                 .overrides = { "~qat", "train.optimizer={name: sgd, lr: 1e30}",
                                "train.clip_grad_norm=0", "train.schedule={name: constant}",
                                "train.checkpoint.every_steps=1" },
                 .wanted = DT_ERR_NUMERIC,
                 .words = "step " };
    job_run(&wild);
    ck_assert_int_gt(wild.updates, 0);
    dt_ctx *ctx = sample_context(1);
    char path[TEST_PATH];
    dt_module *m = NULL;
    TEST_OK(ctx,
            dt_checkpoint_newest(ctx, job_path(wild.dir, "checkpoints"), path, sizeof path, NULL));
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
    job j = { .dir = job_path(folder, "run"),
              .overrides = { init, "~qat", "train.nonfinite=skip" } };
    job_run(&j);
    ck_assert_int_eq(j.summary.skipped, 20);
    char *metrics = job_metrics(j.dir);
    ck_assert_ptr_nonnull(strstr(metrics, "\"skipped\": 20"));
    ck_assert_ptr_null(strstr(metrics, "loss"));
    free(metrics);
}
END_TEST

/* Buffers, too, are as before the update. */
START_TEST(a_skipped_update_leaves_no_trace)
{
    char folder[TEST_PATH], init[TEST_PATH + 16];
    test_folder(folder);
    snprintf(init, sizeof init, "model.init=%s", poisoned_weights(folder, 1));
    job j = { .dir = job_path(folder, "run"),
              .overrides = { init, "~qat", "train.nonfinite=skip", "model.norm=batch" } };
    job_run(&j);
    ck_assert_int_eq(j.summary.skipped, 20);
    dt_ctx *ctx = sample_context(1);
    dt_file *file = NULL;
    TEST_OK(ctx, dt_file_open(ctx, job_path(j.dir, "float.safetensors"), &file));
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
    job j = { .dir = job_path(folder, "run"),
              .overrides = { init,
                             "qat={preset: int8-static-int8-weight, rules: [{match: head, skip: "
                             "true}, {match: layers.1, skip: true}]}",
                             "train.nonfinite=skip", "train.steps=4" } };
    job_run(&j);
    ck_assert_int_eq(j.summary.skipped, 4);
    dt_ctx *ctx = sample_context(1);
    dt_file *file = NULL;
    TEST_OK(ctx,
            dt_checkpoint_newest(ctx, job_path(j.dir, "checkpoints"), path, sizeof path, NULL));
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

Suite *test_run_mistakes_suite(void)
{
    Suite *suite = suite_create("run_mistakes");
    TCase *all = tcase_create("run_mistakes");
    tcase_set_timeout(all, 300);
    tcase_add_loop_test(all, settings_that_never_act, 0, DT__COUNT_OF(lengths));
    tcase_add_loop_test(all, a_mistake_is_found_before_a_file_is_written, 0,
                        DT__COUNT_OF(mistakes));
    tcase_add_test(all, one_image_may_be_left_over);
    tcase_add_test(all, a_folder_is_not_taken_twice);
    tcase_add_test(all, a_dry_run_calibrates_the_weights_it_begins_with);
    tcase_add_test(all, a_run_stops_before_the_optimizer_writes);
    tcase_add_test(all, updates_that_are_not_finite_are_skipped);
    tcase_add_test(all, a_skipped_update_leaves_no_trace);
    tcase_add_test(all, a_skipped_update_was_not_observed);
    suite_add_tcase(suite, all);
    return suite;
}

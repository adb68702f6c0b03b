/* Checks of a run that its recipe alone does not allow, before any file is written: builds and
 * prepares a trial model and opens a loader. */
#include "data/joined.h"
#include "train/quantize/rounding.h"
#include "train/run/run.h"

#include <detent/experimental/export.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* ---- quantization --------------------------------------------------------------------------- */

static dt_status check_qat(dt__run *r, dt_module *trial)
{
    if (!r->o->qat.given) return DT_OK;
    DT__TRY(dt_recipe_check_model(r->recipe, trial));
    DT__TRY(dt__recipe_blame(r->recipe, "qat", DT_ERR_CONFIG, dt_prepare(trial, &r->o->qat)));
    DT__TRY(dt__run_check_quantizing(r, trial));
    const dt__rounding end = dt__rounding_of(r->o, true, dt__dataset_epoch(r->data.train, true));
    DT__TRY(dt__rounding_suits(&end, r->recipe, trial));
    if (r->o->qat_schedule.refresh_steps > 0) {
        DT__TRY(dt__recipe_blame(r->recipe, "qat.refresh_steps", DT_ERR_STATE, dt_refresh(trial)));
    }
    if (r->o->qat_schedule.freeze_observer_step == 0 || dt_is_observed(trial)) return DT_OK;
    return dt_recipe_refuse(r->recipe, "qat.freeze_observer_step",
                            "there is no observer to freeze; 'qat.activation.range' would have to "
                            "be static");
}

/* Checks each format of convert.formats now, rather than after the training. */
static dt_status check_each_format(dt__run *r, dt_module *trial)
{
    const dt_strings *formats = &r->o->convert.formats;
    const dt_model_info info = { .family = r->o->model.family, .options = r->o->model.options };
    for (int i = 0; i < formats->n; i++) {
        char path[40], words[DT__MESSAGE_SIZE];
        const dt_status s = dt_export_check(trial, &info, formats->v[i]);
        if (s != DT_ERR_UNSUPPORTED && s != DT_ERR_ARG) DT__TRY(s);
        if (s == DT_OK) continue;
        snprintf(words, sizeof words, "%s", dt_error(r->ctx));
        snprintf(path, sizeof path, "convert.formats.%d", i);
        if (dt__given(r->recipe, path) == NULL) snprintf(path, sizeof path, "convert.formats");
        return dt_recipe_refuse(r->recipe, path, "%s", words);
    }
    return DT_OK;
}

/* Checks formats for the converted model. Its adapters are merged, so the check uses a model
 * without them. */
static dt_status check_formats(dt__run *r, dt_module *trial)
{
    dt_module *plain = NULL;
    if (r->o->convert.formats.n == 0) return DT_OK;
    if (!dt_has_lora(trial)) return check_each_format(r, trial);
    dt_status s = dt__run_plain_model(r, &plain);
    if (s == DT_OK && r->o->qat.given && dt_is_prepared(trial)) s = dt_prepare(plain, &r->o->qat);
    if (s == DT_OK) s = check_each_format(r, plain);
    dt_module_free(plain);
    return s;
}

/* Whether `name` is a relative path whose parts are valid file names other than "." and "..". */
static bool stays_inside(const char *name)
{
    for (;; name++) {
        const size_t n = strcspn(name, "/");
        if (n == 0 || n > NAME_MAX || (n <= 2 && strspn(name, ".") >= n)) return false;
        name += n;
        if (*name == 0) return true;
    }
}

/* The converted model's path must be inside run.dir and differ from the run's other files. */
static dt_status check_output(dt__run *r)
{
    static const char *const taken[] = { "recipe.yaml",          "metrics.jsonl",
                                         "summary.json",         "float.safetensors",
                                         "baseline.safetensors", "adapters.safetensors",
                                         "base.safetensors",     "checkpoints" };
    const char *name = r->o->convert.output;
    char path[DT__RUN_PATH];
    const size_t first = strcspn(name, "/");
    for (int i = 0; i < DT__COUNT_OF(taken); i++) {
        if (strlen(taken[i]) != first || memcmp(name, taken[i], first) != 0) continue;
        return dt_recipe_refuse(r->recipe, "convert.output", "the run itself writes '%s'",
                                taken[i]);
    }
    if (!stays_inside(name)) {
        return dt_recipe_refuse(r->recipe, "convert.output",
                                "'%s' is not a name of a file inside run.dir", name);
    }
    return dt__recipe_blame(r->recipe, "run.dir", DT_ERR_IO, dt__run_path(r, name, path));
}

/* The length of the run depends on the data, so the schedule is checked here. */
static dt_status check_schedule(dt__run *r)
{
    const dt_schedule *s = &r->stage.schedule;
    const int64_t left = dt__max_i64(0, s->total_steps - s->warmup_steps);
    if (s->name != DT_WARMUP_STABLE_DECAY || s->decay_steps <= left) return DT_OK;
    return dt_recipe_refuse(r->recipe, "train.schedule.decay_steps",
                            "'train.schedule.decay_steps' is %lld, but only %lld updates follow "
                            "the warmup",
                            (long long)s->decay_steps, (long long)left);
}

/* Whether targets, or those of one of several outputs, are labels. */
static bool has_labels(const dt__run *r)
{
    const dt__joined *j = r->data.train->joined;
    bool any = r->data.task->has_labels;
    for (int i = 0; j != NULL && i < j->n_outputs; i++) any |= dt__has_label(&j->output[i].data);
    return any;
}

static dt_status check_smoothing(dt__run *r)
{
    if (has_labels(r) || r->o->train.label_smoothing == 0) return DT_OK;
    return dt_recipe_refuse(r->recipe, "train.label_smoothing",
                            "'train.label_smoothing' is for labels, which the targets are not");
}

static dt_status check_distill(dt__run *r)
{
    if (r->o->train.distill.given && r->data.task == &dt__task_quantiles) {
        return dt_recipe_refuse(r->recipe, "train.distill",
                                "'train.distill' and loss quantile exclude each other");
    }
    const dt__task *const tasks[] = { &dt__task_tokens, &dt__task_classes, &dt__task_values };
    for (int i = 0; i < DT__COUNT_OF(tasks); i++) {
        if (!r->o->train.distill.given || r->data.task == tasks[i]) return DT_OK;
    }
    return dt_recipe_refuse(r->recipe, "train.distill",
                            "'train.distill' is for language models, classification and "
                            "regression, which the data are not");
}

/* Batch norm of one example with one pixel has no variance. If an epoch ends with a batch of one
 * example, a training pass on one example finds out whether the model has such a norm. */
static dt_status check_last_batch(dt__run *r, dt_module *trial)
{
    const int64_t count = dt_dataset_count(r->data.train);
    const bool is_single = (count - 1) % r->o->train.batch_size == 0;
    if (!is_single || r->data.steps < r->data.per_epoch) return DT_OK;
    const dt_status status = dt__run_one_example(r, trial, NULL);
    if (status != DT_ERR_SHAPE) return status;
    char words[DT__MESSAGE_SIZE];
    snprintf(words, sizeof words, "%s", dt_error(r->ctx));
    return dt_recipe_refuse(r->recipe, "train.batch_size",
                            "the last of an epoch's batches is a single one of %lld %s: %s; "
                            "another batch size%s would leave more",
                            (long long)count, dt__dataset_examples(r->data.train), words,
                            dt_dataset_channels(r->data.train) > 0 ? " or 'data.train_count'" : "");
}

static dt_status check_fit(dt__run *r)
{
    const dt_dataset *const data[] = { r->data.train, r->data.evaluated, r->data.validation };
    for (int i = 0; i < 3; i++) {
        if (data[i] != NULL) DT__TRY(dt__check_fit(r->recipe, data[i]));
    }
    return DT_OK;
}

static dt_status check_loader(dt__run *r)
{
    const dt_status status = dt__run_loader(r);
    dt_loader_free(r->stage.loader);
    r->stage.loader = NULL;
    return status;
}

static dt_status check_weights(dt__run *r)
{
    const dt_status status = dt__run_open_weights(r);
    dt__run_close_weights(r);
    return status;
}

dt_status dt__run_collect_errors(dt__run *r, dt__run_test *const *tests, int n)
{
    for (int i = 0; i < n; i++) {
        const int before = r->recipe->n_complaints;
        const dt_status status = tests[i](r);
        const bool listed = status == DT_ERR_CONFIG && r->recipe->n_complaints > before;
        if (status != DT_OK && !listed) return status;
    }
    return DT_OK;
}

/* Runs the checks on the trial model, which is in r->stage meanwhile. Examples are run only if the
 * model fits the data. */
static dt_status check_run(dt__run *r)
{
    if (r->recipe->n_complaints > 0) return DT_OK;
    DT__TRY(check_last_batch(r, r->stage.model));
    return dt__run_count_products(r, r->stage.model);
}

static dt_status check_prepared(dt__run *r) { return check_qat(r, r->stage.model); }
static dt_status check_features(dt__run *r)
{
    return dt__run_check_features(r, r->stage.model, "the model");
}
static dt_status check_groups(dt__run *r) { return dt__run_check_groups(r, r->stage.model); }
static dt_status check_exports(dt__run *r) { return check_formats(r, r->stage.model); }

static dt_status check_trial(dt__run *r)
{
    static dt__run_test *const tests[] = { check_run,      dt__run_check_spread, check_prepared,
                                           check_features, check_groups,         check_exports };
    DT__TRY(dt__recipe_blame(r->recipe, "model", DT_ERR_ARG, dt__run_model(r, &r->stage.model)));
    DT__TRY(dt__run_collect_errors(r, tests, DT__COUNT_OF(tests)));
    DT__TRY(dt__recipe_verdict(r->recipe));
    DT__TRY(dt__run_open_teacher(r, r->stage.model, false));
    dt__run_describe(r, r->stage.model);
    return DT_OK;
}

dt_status dt__run_check(dt__run *r)
{
    static dt__run_test *const tests[] = {
        check_output,
        check_schedule,
        check_smoothing,
        check_distill,
        dt__run_check_evaluation,
        check_fit,
        check_loader,
        check_weights,
        dt__run_check_threshold,
        dt__run_check_samples,
    };
    DT__TRY(dt__run_collect_errors(r, tests, DT__COUNT_OF(tests)));
    const dt_status status = check_trial(r);
    dt_module_free(r->stage.model);
    r->stage.model = NULL;
    return status;
}

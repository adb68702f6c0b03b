/* Counters and values of a run in its checkpoints, saving, and resuming. The baseline's checkpoints
 * have a folder of their own, from which a run resumes if its main stage has no checkpoint yet. */
#include "core/ranks.h"
#include "core/system/atomic_file.h"
#include "core/clock.h"
#include "train/run/run.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const counters[] = {
    [DT__COUNT_STAGE] = "stage",
    [DT__COUNT_STEP] = "step",
    [DT__COUNT_PREPARED] = "prepared",
    [DT__COUNT_LINES] = "lines",
    [DT__COUNT_SINCE] = "since",
    [DT__COUNT_LIMITED] = "limited",
    [DT__COUNT_SKIPPED] = "skipped",
    [DT__COUNT_BASELINE_STEPS] = "baseline_steps",
    [DT__COUNT_BEST_STEP] = "best_step",
    [DT__COUNT_WAITED] = "waited",
    [DT__COUNT_STOPPED] = "stopped",
    [DT__COUNT_PLATEAU_SEEN] = "plateau_seen",
    [DT__COUNT_PLATEAU_WAITED] = "plateau_waited",
    [DT__COUNT_PLATEAU_COOLING] = "plateau_cooling",
    [DT__COUNT_REDUCTIONS] = "reductions",
    [DT__COUNT_SPIKES] = "spikes",
    [DT__COUNT_SPIKES_SEEN] = "spikes_seen",
    [DT__COUNT_LOWERED] = "lowered",
    [DT__COUNT_AVERAGED] = "averaged",
    [DT__COUNT_EXAMPLES] = "train_examples",
    [DT__COUNT_TRAIN_HASH] = "train_hash",
    [DT__COUNT_VALIDATION_HASH] = "validation_hash",
    [DT__COUNT_TEST_HASH] = "test_hash",
    [DT__COUNT_START] = "start",
    [DT__COUNT_TEACHER_HASH] = "teacher_hash",
};

static const char *const values[] = {
    [DT__VALUE_LOSS_SUM] = "loss_sum",       [DT__VALUE_NORM_SUM] = "norm_sum",
    [DT__VALUE_BEST_LOSS] = "best_loss",     [DT__VALUE_PLATEAU_BEST] = "plateau_best",
    [DT__VALUE_SPIKES_MEAN] = "spikes_mean", [DT__VALUE_SPIKES_VARIANCE] = "spikes_variance",
};

const char *dt__run_counter_name(dt__counter i) { return counters[i]; }

static void name_value(dt__run *r, const char *whose, const char *name)
{
    const int i = r->stage.n_values++;
    snprintf(r->stage.value_name[i], sizeof r->stage.value_name[i], "%s.%s", whose, name);
    r->stage.value[i].name = r->stage.value_name[i];
}

/* Names of the task's metrics: "float.accuracy" and so on. */
static void name_values(dt__run *r)
{
    static const char *const whose[] = { "float", "ptq" };
    for (int i = 0; i < DT__VALUE_RESULTS; i++) r->stage.value[i].name = values[i];
    r->stage.n_values = DT__VALUE_RESULTS;
    for (int i = 0; i < DT__COUNT_OF(whose); i++) {
        for (int k = 0; k < r->data.n_metrics; k++)
            name_value(r, whose[i], r->data.metric[k]->name);
    }
}

void dt__run_name_state(dt__run *r)
{
    for (int i = 0; i < DT__COUNTS; i++) {
        r->stage.count[i].name = counters[i];
        r->stage.count[i].is_newer = i >= DT__COUNT_EXAMPLES;
    }
    name_values(r);
    r->stage.state = (dt_training_state){
        .module = r->stage.model,
        .info = { .family = r->o->model.family,
                  .options = r->o->model.options,
                  .tokenizer = r->files.tokenizer,
                  .tokens = r->files.tokens,
                  .data = r->files.data,
                  .hf = r->files.hf,
                  .base = r->files.base,
                  .grouped = r->o->train.checkpoint.grouped },
        .optimizer = r->stage.optimizer,
        .freezer = r->stage.freezer,
        .loaders = &r->stage.loader,
        .n_loaders = 1,
        .counts = r->stage.count,
        .n_counts = DT__COUNTS,
        .values = r->stage.value,
        .n_values = r->stage.n_values,
        .recipe = r->files.resolved,
    };
}

static dt_status save(dt__run *r)
{
    const int64_t stage = *dt__run_count(r, DT__COUNT_STAGE);
    const int error = stage == DT__BASELINE ? dt__make_folder(r->files.checkpoints[DT__MAIN]) : 0;
    if (error != 0 && error != EEXIST) {
        return dt__file_fail(r->ctx, "make the folder", r->files.checkpoints[DT__MAIN], error);
    }
    dt__run_set_content(r);
    *dt__run_count(r, DT__COUNT_START) = r->data.start;
    DT__TRY(dt__run_sync(r)); /* lines before a checkpoint must be on the disk */
    return dt_checkpoint_save_step(&r->stage.state, r->files.checkpoints[stage],
                                   *dt__run_count(r, DT__COUNT_STEP), r->o->train.checkpoint.keep);
}

dt_status dt__run_save(dt__run *r)
{
    dt_tape_reset(r->stage.tape);
    r->pace.saved_clock = dt__seconds();
    return dt__run_alone(r, save);
}

/* The newest valid checkpoint of a stage; *found false if there is none. */
static dt_status newest(dt__run *r, dt__stage stage, char path[DT__RUN_PATH], bool *found)
{
    *found = false;
    const dt_status status =
        dt_checkpoint_newest(r->ctx, r->files.checkpoints[stage], path, DT__RUN_PATH, NULL);
    *found = status == DT_OK;
    if (status != DT_ERR_IO || dt_error_of_machine(r->ctx)) return status;
    return DT_OK; /* no folder, or no valid file in it */
}

/* Checks that the checkpoint's recipe is this run's; equal shapes would not suffice. */
static dt_status check_origin(dt__run *r, const char *path)
{
    dt_file *file;
    dt_recipe *its = NULL;
    DT__TRY(dt_file_open(r->ctx, path, &file));
    const char *text = dt_checkpoint_recipe(file), *key = "";
    const dt_recipe_source source = { .path = path,
                                      .text = text == NULL ? "" : text,
                                      .bytes = text == NULL ? 0 : strlen(text),
                                      .leave_files = true,
                                      .saved = true };
    dt_status status = dt_recipe_read(r->ctx, &source, &its);
    if (status == DT_OK) key = dt__recipe_difference(r->recipe, its, false);
    if (status == DT_ERR_CONFIG) {
        status = dt_fail(r->ctx, DT_ERR_FORMAT, "%s: not a checkpoint of a run: %s", path,
                         text == NULL ? "it holds no recipe" : dt_recipe_error_at(its, 0));
    } else if (*key != 0) {
        status = dt_fail(r->ctx, DT_ERR_FORMAT,
                         "%s: a checkpoint of another run: '%s' of its recipe "
                         "differs",
                         path, key);
    }
    if (status == DT_OK) status = dt__run_check_content(r, file);
    dt_recipe_free(its);
    dt_file_close(file);
    return status;
}

dt_status dt__run_load(dt__run *r, const char *path)
{
    DT__TRY(check_origin(r, path));
    DT__TRY(dt__run_join_experts(r));
    DT__TRY(dt_checkpoint_load(&r->stage.state, path));
    DT__TRY(dt__run_cut_experts(r));
    return *dt__run_count(r, DT__COUNT_PREPARED) ? dt__run_set_cache(r, r->stage.model) : DT_OK;
}

/* The name of the first counter with an impossible value; NULL: all are consistent. */
static const char *find_wrong(dt__run *r, dt__stage stage)
{
    const dt_position at = dt_loader_position(r->stage.loader);
    const int64_t step = *dt__run_count(r, DT__COUNT_STEP),
                  since = *dt__run_count(r, DT__COUNT_SINCE);
    const int64_t before = *dt__run_count(r, DT__COUNT_BASELINE_STEPS);
    for (int i = 0; i < DT__COUNTS; i++) {
        if (r->stage.count[i].value < 0) return counters[i];
    }
    if (*dt__run_count(r, DT__COUNT_STAGE) != (int64_t)stage) return counters[DT__COUNT_STAGE];
    if (at.epoch != step / r->data.per_epoch ||
        dt__ceil_div(at.batch, r->o->train.accumulate) != step % r->data.per_epoch ||
        dt_optimizer_updates(r->stage.optimizer) > step) {
        return counters[DT__COUNT_STEP];
    }
    if (*dt__run_count(r, DT__COUNT_PREPARED) != dt_is_prepared(r->stage.model)) {
        return counters[DT__COUNT_PREPARED];
    }
    if (*dt__run_count(r, DT__COUNT_PREPARED) && *dt__run_count(r, DT__COUNT_START) > step) {
        return counters[DT__COUNT_START];
    }
    if (since > step) return counters[DT__COUNT_SINCE];
    if (*dt__run_count(r, DT__COUNT_LIMITED) > since) return counters[DT__COUNT_LIMITED];
    if (*dt__run_count(r, DT__COUNT_SKIPPED) - before > step) return counters[DT__COUNT_SKIPPED];
    if (*dt__run_count(r, DT__COUNT_AVERAGED) > step) return counters[DT__COUNT_AVERAGED];
    if (*dt__run_value(r, DT__VALUE_SPIKES_VARIANCE) < 0) return values[DT__VALUE_SPIKES_VARIANCE];
    if (*dt__run_count(r, DT__COUNT_BEST_STEP) > step) return counters[DT__COUNT_BEST_STEP];
    for (int i = 0; i < DT__VALUE_RESULTS; i++) {
        if (!isfinite(*dt__run_value(r, i))) return values[i];
    }
    return NULL;
}

static dt_status check_resumed(dt__run *r, dt__stage stage, const char *path)
{
    const int64_t before = *dt__run_count(r, DT__COUNT_BASELINE_STEPS);
    const char *wrong = find_wrong(r, stage);
    if (wrong != NULL) {
        return dt_fail(r->ctx, DT_ERR_FORMAT,
                       "%s: its counter '%s' does not fit the rest of it, nor "
                       "the run",
                       path, wrong);
    }
    if (before > 0 && before != r->data.steps) {
        return dt_recipe_refuse(
            r->recipe, "train.epochs",
            "'train.epochs' makes %lld update%s, but the float baseline is over and had %lld",
            (long long)r->data.steps, DT__S(r->data.steps), (long long)before);
    }
    if (*dt__run_count(r, DT__COUNT_STEP) <= r->data.steps) return DT_OK;
    return dt_recipe_refuse(r->recipe, "train.epochs",
                            "'train.epochs' makes %lld update%s, but the run has done %lld already",
                            (long long)r->data.steps, DT__S(r->data.steps),
                            (long long)*dt__run_count(r, DT__COUNT_STEP));
}

/* The checkpoint that rank 0 has found, sent to all. */
typedef struct chosen {
    char path[DT__RUN_PATH];
    int32_t stage, found;
} chosen;

static dt_status choose(dt__run *r, chosen *c)
{
    bool found;
    c->stage = DT__MAIN;
    DT__TRY(newest(r, DT__MAIN, c->path, &found));
    if (!found && r->o->train.float_baseline) {
        c->stage = DT__BASELINE;
        DT__TRY(newest(r, DT__BASELINE, c->path, &found));
    }
    c->found = found;
    return DT_OK;
}

/* A start given as a share is relative to the original number of updates, as `train.epochs` may
 * have changed. */
static void keep_start(dt__run *r)
{
    const int64_t was = *dt__run_count(r, DT__COUNT_START);
    if (was > 0 && r->o->qat_schedule.start_share > 0) {
        r->data.start = dt__min_i64(was, r->data.steps);
    }
}

dt_status dt__run_resume(dt__run *r, bool *found)
{
    chosen c = { .found = false };
    if (dt__run_writes(r)) DT__TRY(choose(r, &c));
    DT__TRY(dt__cluster_tell(r->ranks.cluster, "the newest checkpoint", &c, sizeof c));
    const dt__stage stage = (dt__stage)c.stage;
    const char *path = c.path;
    *found = c.found != 0;
    if (!*found) {
        dt__say(r->ctx, "%s: no good checkpoint: the run begins anew", r->o->run.dir);
        return DT_OK;
    }
    DT__TRY(dt__run_begin_stage(r, stage));
    DT__TRY(dt__run_load(r, path));
    DT__TRY(check_resumed(r, stage, path));
    DT__TRY(dt__run_check_teacher(r));
    keep_start(r);
    dt__say(r->ctx, "going on from %s", path);
    return DT_OK;
}

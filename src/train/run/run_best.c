/* Validation during training: a line of metrics.jsonl for each evaluation, the best evaluation and
 * its checkpoint, early stopping.
 *
 * Best evaluation and patience are counted in the last phase of a stage only. With qat, evaluations
 * before qat.start_step do not count: a quantized model may never reach the loss of the float one.
 * The baseline stage counts its own. */
#include "core/ranks.h"
#include "core/clock.h"
#include "train/run/run.h"

#include <math.h>
#include <stdio.h>

#define BEST "best.safetensors"

/* Whether the best evaluation's file is written; whether the best evaluation is tracked. */
static bool keeps_best(const dt__run *r)
{
    return r->o->train.checkpoint.best || r->o->train.finish_with == DT_FINISH_BEST;
}

static bool looks_for_best(const dt__run *r)
{
    return keeps_best(r) || r->o->train.early_stopping.patience > 0;
}

static bool is_last_phase(dt__run *r)
{
    const bool baseline = *dt__run_count(r, DT__COUNT_STAGE) == DT__BASELINE;
    return baseline || *dt__run_count(r, DT__COUNT_PREPARED) == r->o->qat.given;
}

dt_status dt__run_check_evaluation(dt__run *r)
{
    const dt_train_options *o = &r->o->train;
    const struct {
        const char *path;
        bool wanted;
    } keys[] = {
        { "train.evaluate.every_steps", o->evaluate.every_steps > 0 },
        { "train.evaluate.samples", o->evaluate.samples > 0 },
        { "train.early_stopping.patience", o->early_stopping.patience > 0 },
        { "train.finish_with", o->finish_with == DT_FINISH_BEST },
        { "train.checkpoint.best", o->checkpoint.best },
        { "train.schedule.name", o->schedule.name == DT_PLATEAU },
    };
    for (int i = 0; i < DT__COUNT_OF(keys) && r->data.validation == NULL; i++) {
        if (!keys[i].wanted) continue;
        return dt_recipe_refuse(
            r->recipe, keys[i].path,
            "'%s' requires data to evaluate on; 'data.validation' holds some back", keys[i].path);
    }
    if (o->early_stopping.least_improvement == 0 || o->early_stopping.patience > 0) return DT_OK;
    return dt_recipe_refuse(r->recipe, "train.early_stopping.least_improvement",
                            "'train.early_stopping.least_improvement' does nothing without "
                            "'train.early_stopping.patience'");
}

/* ---- evaluations ---------------------------------------------------------------------------- */

static dt_status best_path(dt__run *r, char path[DT__RUN_PATH])
{
    const char *folder = r->files.checkpoints[*dt__run_count(r, DT__COUNT_STAGE)];
    const int n = snprintf(path, DT__RUN_PATH, "%s/" BEST, folder);
    if (n > 0 && n < DT__RUN_PATH) return DT_OK;
    return dt_fail(r->ctx, DT_ERR_IO, "the path of '" BEST "' in run.dir is too long");
}

static dt_status write_best(dt__run *r)
{
    char path[DT__RUN_PATH];
    DT__TRY(best_path(r, path));
    DT__TRY(dt__run_make_parents(r->ctx, path));
    DT__TRY(dt__run_sync(r));
    return dt_checkpoint_save(&r->stage.state, path);
}

static dt_status compare_to_best(dt__run *r, double loss)
{
    const dt_early_stopping_options *o = &r->o->train.early_stopping;
    int64_t *best = dt__run_count(r, DT__COUNT_BEST_STEP),
            *waited = dt__run_count(r, DT__COUNT_WAITED);
    double *best_loss = dt__run_value(r, DT__VALUE_BEST_LOSS);
    if (!looks_for_best(r) || !is_last_phase(r)) return DT_OK;
    const bool better = *best == 0 || *best_loss - loss > o->least_improvement;
    if (better && isfinite(loss)) {
        *best = *dt__run_count(r, DT__COUNT_STEP);
        *waited = 0;
        *best_loss = loss;
        return keeps_best(r) ? dt__run_alone(r, write_best) : DT_OK;
    }
    ++*waited;
    if (o->patience == 0 || *waited < o->patience) return DT_OK;
    *dt__run_count(r, DT__COUNT_STOPPED) = 1;
    dt__say(r->ctx,
            "%s: training ends early at step %lld: %lld evaluations in a row were not better",
            dt__run_phase(r), (long long)*dt__run_count(r, DT__COUNT_STEP), (long long)*waited);
    return DT_OK;
}

/* Evaluates, on all ranks, and writes the line of metrics. */
static dt_status measure(dt__run *r)
{
    const dt_evaluation options = { .batch_size = r->o->train.eval_batch_size,
                                    .metrics = r->o->train.metrics };
    dt_metrics m;
    dt__chars t;
    DT__TRY(dt__run_evaluate(r, &options, &m, &r->pace.experts));
    dt__run_begin_line(r, &t);
    for (int i = 0; i < m.n; i++) {
        if (!isfinite(m.value[i])) continue; /* JSON has neither NaN nor infinity */
        dt__put_text(&t, ", \"validation_");
        dt__put_text(&t, m.metric[i]->name);
        dt__put_text(&t, "\": ");
        dt__put_real(&t, m.value[i]);
    }
    if (r->pace.experts.any) {
        dt__put_field(&t, "busiest_expert", r->pace.experts.busiest);
        dt__put_field(&t, "idlest_expert", r->pace.experts.idlest);
    }
    DT__TRY(dt__run_end_line(r, &t));
    DT__TRY(dt__run_log_samples(r));
    r->pace.validated = m.loss;
    r->pace.first_metric = m.value[0];
    if (r->control.evaluated != NULL) {
        const dt_progress p = dt__run_progress(r);
        r->control.evaluated(r->control.user, &p, &m);
    }
    return DT_OK;
}

/* Evaluates with the averaged parameters, if there are averages. */
static dt_status measure_average(dt__run *r)
{
    DT__TRY(dt__run_swap_average(r));
    DT__TRY(dt__run_together(r, measure));
    return dt__run_swap_average(r);
}

static dt_status evaluate(dt__run *r)
{
    const double before = dt__seconds();
    dt_tape_reset(r->stage.tape);
    DT__TRY(measure_average(r));
    dt__run_plateau(r, r->pace.validated);
    const dt_status status = compare_to_best(r, r->pace.validated);
    r->pace.line_clock += dt__seconds() - before;
    return status;
}

/* least number of updates between evaluations that the recipe does not request */
#define LEAST_APART 50
#define MOST_SHARE 0.1 /* share of time for these */

/* Updates between evaluations. By default it is an epoch; for language models, whose epochs may
 * take hours, evaluations take a tenth of the time, if a forward pass takes a third of the time of
 * training an example. The number depends only on the data, not on the length of the run. */
static int64_t period_of(const dt__run *r)
{
    const dt_train_options *o = &r->o->train;
    if (o->evaluate.every_steps > 0) return o->evaluate.every_steps;
    if (dt_dataset_context(r->data.train) == 0) return r->data.per_epoch;
    const double trained = 3 * (double)o->batch_size * (double)o->accumulate;
    const double updates =
        ceil((double)dt_dataset_count(r->data.validation) / trained / MOST_SHARE);
    if (updates >= (double)r->data.per_epoch) return r->data.per_epoch;
    return dt__min_i64(r->data.per_epoch, dt__max_i64(LEAST_APART, (int64_t)updates));
}

/* Whether the last update is followed by an evaluation, even if none is due. */
static bool evaluates_the_end(const dt__run *r)
{
    return r->o->train.evaluate.every_steps > 0 || dt_dataset_context(r->data.train) > 0 ||
           looks_for_best(r);
}

int64_t dt__run_validations(const dt__run *r, int64_t step)
{
    const int64_t period = period_of(r);
    return step / period + (step == r->data.steps && evaluates_the_end(r) && step % period != 0);
}

dt_status dt__run_validate(dt__run *r)
{
    const int64_t step = *dt__run_count(r, DT__COUNT_STEP);
    if (r->data.validation == NULL) return DT_OK;
    const bool at_end = step == r->data.steps && evaluates_the_end(r);
    return at_end || step % period_of(r) == 0 ? evaluate(r) : DT_OK;
}

/* ---- the end -------------------------------------------------------------------------------- */

/* Restarts the stage from the state of the best evaluation. Counters are kept, except that of the
 * averages, which is restored with the state. */
static dt_status go_back(dt__run *r)
{
    char path[DT__RUN_PATH];
    int64_t count[DT__COUNTS];
    DT__TRY(best_path(r, path));
    for (int i = 0; i < DT__COUNTS; i++) count[i] = r->stage.count[i].value;
    dt__run_end_stage(r);
    DT__TRY(dt__run_begin_stage(r, (dt__stage)count[DT__COUNT_STAGE]));
    DT__TRY(dt__run_load(r, path));
    const int64_t step = *dt__run_count(r, DT__COUNT_STEP);
    count[DT__COUNT_AVERAGED] = *dt__run_count(r, DT__COUNT_AVERAGED);
    for (int i = 0; i < DT__COUNTS; i++) r->stage.count[i].value = count[i];
    if (step == count[DT__COUNT_BEST_STEP]) return DT_OK;
    return dt_fail(r->ctx, DT_ERR_FORMAT,
                   "%s: of step %lld, but the best evaluation of this run was at step %lld", path,
                   (long long)step, (long long)count[DT__COUNT_BEST_STEP]);
}

dt_status dt__run_take_best(dt__run *r)
{
    const int64_t best = *dt__run_count(r, DT__COUNT_BEST_STEP);
    if (r->o->train.finish_with != DT_FINISH_BEST) return DT_OK;
    if (best == 0) {
        dt__say(r->ctx, "%s: there was no evaluation: the run ends with the weights that it has",
                dt__run_phase(r));
        return DT_OK;
    }
    dt__say(r->ctx, "%s: the run ends with the weights of step %lld, whose validation loss is %.6g",
            dt__run_phase(r), (long long)best, *dt__run_value(r, DT__VALUE_BEST_LOSS));
    return best == *dt__run_count(r, DT__COUNT_STEP) ? DT_OK : go_back(r);
}

/* The time that a run still takes (core/estimate.h): its updates and evaluations are counted in
 * examples, in float and quantized, and its rounding in examples that take as long. Checkpoints and
 * files are not counted, and early stopping is not foreseen. */
#include "core/ranks.h"
#include "core/clock.h"
#include "core/tensor.h"
#include "data/dataset.h"
#include "nn/module.h"
#include "ptq/matrix.h"
#include "qat/convert.h"
#include "train/quantize/rounding.h"
#include "train/run/run.h"

#include <string.h>

/* Forward and backward of an example take as long as three evaluations. */
static const double weights[DT__RUN_WORKS] = {
    [DT__TRAIN_FLOAT] = 3, [DT__TRAIN_QAT] = 3, [DT__EVAL_FLOAT] = 1,
    [DT__EVAL_QAT] = 1,    [DT__ROUND] = 1,
};

/* ---- what is planned ------------------------------------------------------------------------ */

static void plan(dt__run *r, dt__run_work kind, double examples)
{
    if (examples > 0) r->pace.work[kind].planned += examples;
}

/* Updates first + 1 ... last of a stage, with their validations. */
static void plan_updates(dt__run *r, bool quantized, int64_t first, int64_t last)
{
    if (last <= first) return;
    const double epoch = (double)dt__dataset_epoch(r->data.train, true);
    plan(r, quantized ? DT__TRAIN_QAT : DT__TRAIN_FLOAT,
         (double)(last - first) * epoch / (double)r->data.per_epoch);
    if (r->data.validation == NULL) return;
    const int64_t validations = dt__run_validations(r, last) - dt__run_validations(r, first);
    plan(r, quantized ? DT__EVAL_QAT : DT__EVAL_FLOAT,
         (double)validations * (double)dt_dataset_count(r->data.validation));
}

/* The comparison of float weights with the same rounded to nearest. */
static void plan_comparison(dt__run *r)
{
    const double evaluated = (double)dt_dataset_count(r->data.evaluated);
    plan(r, DT__EVAL_FLOAT, evaluated);
    if (r->o->qat.given) plan(r, DT__EVAL_QAT, evaluated);
}

static bool is_weight(const dt__entry *e) { return e != NULL && e->x->rank >= 2; }

static int64_t layers_of(const dt__run *r)
{
    int64_t n = 0;
    DT__EACH_MODULE(m, r->stage.model) n += is_weight(dt__entry_find(m, "weight"));
    return n;
}

/* Multiply-adds of rounding the weight at `path`; NULL: of all. */
static double cost_of_rounding(const dt__run *r, const char *path)
{
    const dt__rounding p = dt__rounding_of(r->o, true, dt__dataset_epoch(r->data.train, true));
    const int64_t context = dt_dataset_context(r->data.train);
    double cost = 0;
    DT__EACH_MODULE(m, r->stage.model) {
        const dt__entry *e = dt__entry_find(m, "weight");
        const size_t n = strlen(m->path);
        const bool wanted =
            path == NULL || (strncmp(path, m->path, n) == 0 && strcmp(path + n, ".weight") == 0);
        if (!is_weight(e) || !wanted) continue;
        cost += dt__rounding_cost(e->x->rank, e->x->dims, p.choice.samples,
                                  e->x->rank > 3 ? 0 : (double)context);
    }
    return cost;
}

/* In examples that are evaluated. */
static void plan_rounding(dt__run *r)
{
    const int64_t each = dt__max_i64(1, r->summary->multiply_adds);
    if (!dt__needs_data(dt__method_of(r->o->convert.rounding.rounder))) return;
    plan(r, DT__ROUND, cost_of_rounding(r, NULL) / (double)each);
    r->pace.work[DT__ROUND].doubt = r->pace.work[DT__ROUND].planned / 4;
}

static void plan_end(dt__run *r)
{
    const double evaluated = (double)dt_dataset_count(r->data.evaluated);
    const bool chooses = r->o->train.threshold != DT_THRESHOLD_NONE && r->data.validation != NULL;
    const double chosen = chooses ? (double)dt_dataset_count(r->data.validation) + evaluated : 0;
    if (!r->o->qat.given) {
        plan_comparison(r);
        plan(r, DT__EVAL_FLOAT, chosen);
        return;
    }
    const int64_t n = layers_of(r);
    plan(r, DT__EVAL_QAT, 3 * evaluated + chosen);
    if (r->o->run.report) {
        plan(r, DT__EVAL_QAT, (double)(2 * n + 1) * (double)dt__run_sensitivity_examples(r, n));
    }
    plan_rounding(r);
}

void dt__run_plan(dt__run *r)
{
    const bool baseline = *dt__run_count(r, DT__COUNT_STAGE) == DT__BASELINE;
    const bool prepared = *dt__run_count(r, DT__COUNT_PREPARED) != 0;
    const int64_t step = *dt__run_count(r, DT__COUNT_STEP);
    for (int i = 0; i < DT__RUN_WORKS; i++)
        r->pace.work[i] = (dt__work_kind){ .weight = weights[i] };
    if (baseline) plan_updates(r, false, step, r->data.steps);
    if (baseline) plan_comparison(r);
    const int64_t from = baseline ? 0 : step;
    plan_updates(r, false, from, r->data.start);
    const dt_float_weights kept = dt__run_float_weights(r);
    const bool compared = kept != DT_FLOAT_BASELINE && kept != DT_FLOAT_NONE;
    if (r->o->qat.given && compared && !prepared) plan_comparison(r);
    plan_updates(r, true, dt__max_i64(from, r->data.start), r->data.steps);
    plan_end(r);
}

/* ---- what is done --------------------------------------------------------------------------- */

/* The first update of a phase by this process makes what later ones find there. */
void dt__run_time_update(dt__run *r, int64_t samples, double seconds)
{
    const char *phase = dt__run_phase(r);
    const bool first = r->pace.timed_phase != phase;
    r->pace.timed_phase = phase;
    const bool quantized = *dt__run_count(r, DT__COUNT_PREPARED) != 0;
    dt__work_did(&r->pace.work[quantized ? DT__TRAIN_QAT : DT__TRAIN_FLOAT], (double)samples,
                 first ? -1 : seconds);
}

static void tell(dt__run *r, const char *doing)
{
    if (r->control.doing == NULL) return;
    dt_progress p = dt__run_progress(r);
    p.doing = doing;
    r->control.doing(r->control.user, &p);
}

typedef struct timing {
    dt__run *r;
    dt__work_kind *kind;
    int64_t done;
    double before;
} timing;

static void count_examples(void *user, int64_t done, int64_t all)
{
    timing *t = user;
    const double now = dt__seconds();
    dt__work_did(t->kind, (double)(done - t->done), now - t->before);
    t->done = done;
    t->before = now;
    if (done < all) tell(t->r, "evaluating");
}

dt_status dt__run_time_evaluation(dt__run *r, const dt__evaluation *e, dt_metrics *metrics,
                                  dt_tensor **out)
{
    const bool quantized = dt_is_prepared(e->m) || dt_is_converted(e->m);
    timing t = { r, &r->pace.work[quantized ? DT__EVAL_QAT : DT__EVAL_FLOAT], 0, dt__seconds() };
    dt_evaluation how = *e->options;
    dt__evaluation timed = *e;
    how.progress = count_examples;
    how.user = &t;
    timed.options = &how;
    return dt__evaluate(&timed, metrics, out);
}

void dt__run_time_rounding(dt__run *r, const char *path, double *before)
{
    const double now = dt__seconds(), all = cost_of_rounding(r, NULL);
    const double by_shape = all > 0 ? cost_of_rounding(r, path) / all : 0;
    const double share = (by_shape + 1 / (double)dt__max_i64(layers_of(r), 1)) / 2;
    dt__work_did(&r->pace.work[DT__ROUND], share * r->pace.work[DT__ROUND].planned, now - *before);
    *before = now;
    tell(r, "rounding");
}

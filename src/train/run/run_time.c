/* Estimates the remaining time of a run (core/estimate.h): updates and evaluations, in float,
 * quantized and converted, and rounding. Checkpoints, other files and early stopping are not
 * included. */
#include "core/ranks.h"
#include "core/tensor.h"
#include "data/dataset.h"
#include "nn/module.h"
#include "ptq/positions.h"
#include "ptq/target.h"
#include "train/quantize/rounding.h"
#include "train/run/run.h"

/* ---- what is planned ------------------------------------------------------------------------ */

#define ELEMENT 400 /* the time to read an element of an example, in multiply-adds */

/* The cost of forward passes of examples, in multiply-adds. */
static double passes(const dt__run *r, double examples)
{
    dt__side side, target;
    int64_t elements = 1;
    r->data.train->kind->sides(r->data.train, &side, &target);
    for (int i = 0; i < side.rank; i++) elements *= dt__max_i64(1, side.dims[i]);
    return examples * ((double)r->summary->multiply_adds + ELEMENT * (double)elements);
}

static void plan(dt__run *r, dt__work_of kind, double examples)
{
    dt__plan_work(r->ctx, kind, passes(r, examples));
}

/* Plans updates first + 1 ... last of a stage, with their validations. */
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

/* Plans the comparison of float weights with those rounded to nearest. */
static void plan_comparison(dt__run *r)
{
    const double evaluated = (double)dt_dataset_count(r->data.evaluated);
    plan(r, DT__EVAL_FLOAT, evaluated);
    if (r->o->qat.given) plan(r, DT__EVAL_QAT, evaluated);
}

void dt__run_cost_rounding(dt__run *r, dt_module *trial, const dt__positions *counted)
{
    const int64_t examples = dt__dataset_epoch(r->data.train, true);
    const dt__rounding p = dt__rounding_of(r->o, true, examples);
    const dt__method *method = dt__method_of(p.options.rounder);
    const int64_t context = dt__max_i64(1, dt_dataset_context(r->data.train));
    r->data.rounding = (dt__round_cost){ .codes = 0 };
    r->data.layers = 0;
    DT__EACH_MODULE(m, trial) {
        dt_weight_op op;
        const dt__entry *e = dt__entry_find(m, "weight");
        r->data.layers += e != NULL && e->x->rank >= 2;
        if (e == NULL || !dt__weight_op_of(m, &op)) continue;
        const double known = dt__positions_of(counted, m->path);
        const bool routed = op.kind == DT_WEIGHT_GROUPED_LINEAR;
        const double each = known > 0 ? known : (double)context,
                     experts = routed ? (double)e->x->dims[0] : 1;
        const dt__round_case of = { .method = method,
                                    .op = &op,
                                    .rank = e->x->rank,
                                    .dims = e->x->dims,
                                    .samples = (double)p.choice.samples * each / experts };
        dt__round_cost_add(r->ctx, &of, &r->data.rounding);
    }
}

static dt_status plan_rounding(dt__run *r)
{
    const int rounder = r->o->convert.rounding.rounder;
    if (!dt__needs_data(dt__method_of(rounder))) return DT_OK;
    dt__plan_rounding(r->ctx, &r->data.rounding);
    return r->control.progress == NULL ? DT_OK
                                       : dt__try_rounding(r->ctx, rounder, &r->data.rounding);
}

static dt_status plan_end(dt__run *r)
{
    const double evaluated = (double)dt_dataset_count(r->data.evaluated);
    const bool chooses = r->o->train.threshold != DT_THRESHOLD_NONE && r->data.validation != NULL;
    const double chosen = chooses ? (double)dt_dataset_count(r->data.validation) + evaluated : 0;
    if (!r->o->qat.given) {
        plan_comparison(r);
        plan(r, DT__EVAL_FLOAT, chosen);
        return DT_OK;
    }
    const int64_t n = r->data.layers;
    plan(r, DT__EVAL_QAT, evaluated);
    plan(r, DT__EVAL_CONVERTED, 2 * evaluated + chosen);
    if (r->o->run.report) {
        plan(r, DT__EVAL_QAT, (double)(2 * n + 1) * (double)dt__run_sensitivity_examples(r, n));
    }
    return plan_rounding(r);
}

dt_status dt__run_plan(dt__run *r)
{
    const bool baseline = *dt__run_count(r, DT__COUNT_STAGE) == DT__BASELINE;
    const bool prepared = *dt__run_count(r, DT__COUNT_PREPARED) != 0;
    const int64_t step = *dt__run_count(r, DT__COUNT_STEP);
    dt__begin_work(r->ctx);
    if (baseline) plan_updates(r, false, step, r->data.steps);
    if (baseline) plan_comparison(r);
    const int64_t from = baseline ? 0 : step;
    plan_updates(r, false, from, r->data.start);
    const dt_float_weights kept = dt__run_float_weights(r);
    const bool compared = kept != DT_FLOAT_BASELINE && kept != DT_FLOAT_NONE;
    if (r->o->qat.given && compared && !prepared) plan_comparison(r);
    plan_updates(r, true, dt__max_i64(from, r->data.start), r->data.steps);
    return plan_end(r);
}

/* ---- what is done --------------------------------------------------------------------------- */

void dt__run_time_update(dt__run *r, int64_t samples)
{
    const bool quantized = *dt__run_count(r, DT__COUNT_PREPARED) != 0;
    dt__did_work(r->ctx, quantized ? DT__TRAIN_QAT : DT__TRAIN_FLOAT, passes(r, (double)samples));
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
    dt__work_of kind;
    int64_t done;
} timing;

static void count_examples(void *user, int64_t done, int64_t all)
{
    timing *t = user;
    dt__did_work(t->r->ctx, t->kind, passes(t->r, (double)(done - t->done)));
    t->done = done;
    if (done < all) tell(t->r, "evaluating");
}

dt_status dt__run_time_evaluation(dt__run *r, const dt__evaluation *e, dt_metrics *metrics,
                                  dt_tensor **out)
{
    timing t = { r, DT__EVAL_FLOAT, 0 };
    if (dt_is_converted(e->m)) t.kind = DT__EVAL_CONVERTED;
    else if (dt_is_prepared(e->m)) t.kind = DT__EVAL_QAT;
    dt_evaluation how = *e->options;
    dt__evaluation timed = *e;
    how.progress = count_examples;
    how.user = &t;
    timed.options = &how;
    dt__pass_work(r->ctx);
    return dt__evaluate(&timed, metrics, out);
}

static void tell_rounding(void *user, const dt_work_state *state)
{
    (void)state;
    tell(user, "rounding");
}

/* Reports parts of the rounding as they are done. */
dt_status dt__run_time_rounding(dt__run *r, const dt__rounding *p, const dt__rounding_job *job)
{
    const dt_work_told told = r->ctx->told;
    void *const user = r->ctx->told_user;
    r->ctx->told = tell_rounding;
    r->ctx->told_user = r;
    dt__pass_work(r->ctx);
    const dt_status s = dt__rounding_run(p, job, NULL);
    r->ctx->told = told;
    r->ctx->told_user = user;
    return s;
}

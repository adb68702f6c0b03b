/* The learning rate of an update: the schedule's rate times the reductions by schedule plateau,
 * whose state is in counters of the run, the reductions by spikes, and for a prepared model
 * qat.rate. Groups of parameters have factors. */
#include "core/text/glob.h"
#include "nn/module.h"
#include "train/run/run.h"

#include <math.h>
#include <stdio.h>

static dt_plateau plateau_of(dt__run *r)
{
    return (dt_plateau){ .best = *dt__run_value(r, DT__VALUE_PLATEAU_BEST),
                         .seen = *dt__run_count(r, DT__COUNT_PLATEAU_SEEN),
                         .waited = *dt__run_count(r, DT__COUNT_PLATEAU_WAITED),
                         .cooling = *dt__run_count(r, DT__COUNT_PLATEAU_COOLING),
                         .reductions = *dt__run_count(r, DT__COUNT_REDUCTIONS) };
}

static void keep(dt__run *r, const dt_plateau *p)
{
    *dt__run_value(r, DT__VALUE_PLATEAU_BEST) = p->best;
    *dt__run_count(r, DT__COUNT_PLATEAU_SEEN) = p->seen;
    *dt__run_count(r, DT__COUNT_PLATEAU_WAITED) = p->waited;
    *dt__run_count(r, DT__COUNT_PLATEAU_COOLING) = p->cooling;
    *dt__run_count(r, DT__COUNT_REDUCTIONS) = p->reductions;
}

double dt__run_rate(dt__run *r)
{
    const dt_plateau p = plateau_of(r);
    const double lr = dt_schedule_rate(&r->stage.schedule, r->o->train.optimizer.lr,
                                       *dt__run_count(r, DT__COUNT_STEP));
    const double lowered = (double)*dt__run_count(r, DT__COUNT_LOWERED);
    return lr * dt__run_qat_rate(r) * dt_plateau_factor(&r->stage.schedule, &p) *
           pow(r->o->train.spikes.factor, lowered);
}

void dt__run_plateau(dt__run *r, double loss)
{
    dt_plateau p = plateau_of(r);
    if (r->stage.schedule.name != DT_PLATEAU) return;
    const bool reduced = dt_plateau_take(&r->stage.schedule, &p, loss);
    keep(r, &p);
    if (!reduced) return;
    dt__say(r->ctx, "%s: step %lld: the validation loss is at a plateau of %.6g: the rate is %.4g",
            dt__run_phase(r), (long long)*dt__run_count(r, DT__COUNT_STEP), p.best,
            dt__run_rate(r));
}

void dt__run_forget_plateau(dt__run *r)
{
    const dt_plateau p = { .reductions = *dt__run_count(r, DT__COUNT_REDUCTIONS) };
    keep(r, &p);
}

/* ---- groups ---------------------------------------------------------------------------------- */

dt_status dt__run_check_groups(dt__run *r, dt_module *m)
{
    const dt_optimizer_options *o = &r->o->train.optimizer;
    const dt__param *params;
    int64_t n, trained = 0;
    DT__TRY(dt__module_params(m, &params, &n));
    for (int64_t i = 0; i < o->n_groups; i++) {
        char path[64];
        int64_t k = 0;
        while (k < n && !dt__glob_match(o->groups[i].match, params[k].path)) k++;
        if (k < n) continue;
        snprintf(path, sizeof path, "train.optimizer.groups.%lld.match", (long long)i);
        return dt_recipe_refuse(r->recipe, path, "'%s': '%s' matches no parameter of the model",
                                path, o->groups[i].match);
    }
    for (int64_t i = 0; i < n; i++) trained += params[i].x->requires_grad;
    if (trained > 0 || o->n_groups == 0) return DT_OK;
    return dt_recipe_refuse(r->recipe, "train.optimizer.groups",
                            "'train.optimizer.groups' freezes every parameter: none is trained");
}

/* How a prepared model trains: the keys qat.rate, layer_steps, estimator and damping, which depend
 * only on the step, and qat.norm_batches after the last update. With t from 0 at qat.start_step to
 * 1 at the end of training:
 *     factor    1 + (rate - 1) min(1, 10 t)       of the learning rate
 *     layers    the first 1 + floor(updates / layer_steps) are quantized
 *     strength  first + (last - first) t
 *     lambda    damping (1 - cos(pi t)) / 2       [Nagel et al. 2022]
 *     threshold freeze + (freeze_from - freeze) (1 + cos(pi t)) / 2       [likewise] */
#include "nn/module.h"
#include "train/run/run.h"

#include <math.h>

static int64_t since_start(dt__run *r) { return *dt__run_count(r, DT__COUNT_STEP) - r->data.start; }

static double progress(dt__run *r)
{
    return (double)since_start(r) / (double)dt__max_i64(1, r->data.steps - r->data.start - 1);
}

double dt__run_qat_rate(dt__run *r)
{
    if (*dt__run_count(r, DT__COUNT_PREPARED) == 0) return 1;
    return 1 + (r->o->qat_schedule.rate - 1) * fmin(1, 10 * progress(r));
}

static dt_status set_estimator(dt__run *r)
{
    const dt_qat_schedule *o = &r->o->qat_schedule;
    if (o->estimator == DT_ESTIMATOR_STE) return DT_OK;
    const double first = o->strength > 0 ? o->strength : dt_estimator_strength(o->estimator);
    const double last = o->strength_end > 0 ? o->strength_end : first;
    return dt_set_estimator(r->stage.model, o->estimator, first + (last - first) * progress(r));
}

void dt__run_say_best(const dt__run *r)
{
    const char *chosen = dt__recipe_best(r->recipe);
    if (r->o->qat_schedule.recipe != DT_QAT_BEST) return;
    dt__say(r->ctx, "qat.recipe: best chose %s", *chosen != 0 ? chosen : "no key: the preset's");
}

dt_status dt__run_quantize_more(dt__run *r)
{
    const int64_t each = r->o->qat_schedule.layer_steps;
    if (each > 0) DT__TRY(dt_enable_layers(r->stage.model, 1 + since_start(r) / each, NULL));
    return set_estimator(r);
}

dt_status dt__run_damp(dt__run *r)
{
    const double most = r->o->qat_schedule.damping;
    if (most == 0 || *dt__run_count(r, DT__COUNT_PREPARED) == 0) return DT_OK;
    return dt_damp(r->stage.model, r->stage.tape, most * 0.5 * (1 - cos(acos(-1.0) * progress(r))));
}

dt_status dt__run_freeze(dt__run *r)
{
    const dt_qat_schedule *o = &r->o->qat_schedule;
    if (o->freeze == 0 || *dt__run_count(r, DT__COUNT_PREPARED) == 0) return DT_OK;
    const double from = o->freeze_from > 0 ? o->freeze_from : o->freeze;
    const double share = 0.5 * (1 + cos(acos(-1.0) * progress(r)));
    DT__TRY(dt_freezer_step(r->stage.freezer, r->stage.tape, o->freeze_momentum,
                            o->freeze + (from - o->freeze) * share, &r->stage.frozen));
    if (since_start(r) == 0 && r->stage.frozen.weights == 0) {
        dt__say(r->ctx, "qat.freeze: no weight has 4 bits or fewer, so that none is frozen");
    }
    return DT_OK;
}

void dt__run_say_frozen(dt__run *r)
{
    const dt_frozen *n = &r->stage.frozen;
    if (r->o->qat_schedule.freeze == 0 || n->weights == 0) return;
    dt__say(r->ctx, "qat.freeze: %lld of %lld weights are frozen (%.1f %%)", (long long)n->frozen,
            (long long)n->weights, 100.0 * (double)n->frozen / (double)n->weights);
}

dt_status dt__run_follow_norms(dt__run *r)
{
    const int64_t batches = r->o->qat_schedule.norm_batches;
    if (!r->o->qat.given || batches == 0) return DT_OK;
    if (dt_is_observed(r->stage.model)) DT__TRY(dt_observers_freeze(r->stage.model, true));
    dt_norms_freeze(r->stage.model, false);
    return dt__run_follow(r, batches);
}

static bool has_statistics(dt_module *m)
{
    DT__EACH_MODULE(norm, m) {
        if (dt__entry_find(norm, "running_mean") != NULL) return true;
    }
    return false;
}

static dt_status nothing(void *user, const char *slot, const char *path, dt_tensor *x)
{
    (void)user;
    (void)slot;
    (void)path;
    (void)x;
    return DT_OK;
}

/* Checks that weights of the prepared model can be frozen. */
static dt_status check_freeze(dt__run *r, dt_module *trial)
{
    dt_freezer *f;
    if (r->o->qat_schedule.freeze == 0) return DT_OK;
    if (r->o->cluster.experts == DT_EXPERTS_SPREAD) {
        return dt_recipe_refuse(r->recipe, "qat.freeze",
                                "'qat.freeze' and 'cluster.experts' spread exclude each other: a "
                                "rank would know the codes of its own experts alone");
    }
    DT__TRY(dt_freezer_create(trial, &f));
    const dt_status s = dt_freezer_visit(f, nothing, NULL);
    dt_freezer_free(f);
    return dt__recipe_blame(r->recipe, "qat.freeze", DT_ERR_UNSUPPORTED, s);
}

dt_status dt__run_check_quantizing(dt__run *r, dt_module *trial)
{
    int64_t layers;
    const int64_t each = r->o->qat_schedule.layer_steps;
    DT__TRY(check_freeze(r, trial));
    DT__TRY(
        dt__recipe_blame(r->recipe, "qat.cache", DT_ERR_UNSUPPORTED, dt__run_set_cache(r, trial)));
    if (r->o->qat_schedule.norm_batches > 0 && !has_statistics(trial)) {
        return dt_recipe_refuse(r->recipe, "qat.norm_batches",
                                "the model has no norms with running statistics");
    }
    if (r->o->qat_schedule.freeze_norm_step > 0 && !has_statistics(trial)) {
        return dt_recipe_refuse(r->recipe, "qat.freeze_norm_step",
                                "the model has no norms with running statistics");
    }
    if (each == 0) return DT_OK;
    DT__TRY(dt__recipe_blame(r->recipe, "qat.layer_steps", DT_ERR_UNSUPPORTED,
                             dt_enable_layers(trial, INT64_MAX, &layers)));
    if (each <= (r->data.steps - r->data.start - 1) / dt__max_i64(1, layers - 1)) return DT_OK;
    return dt_recipe_refuse(
        r->recipe, "qat.layer_steps",
        "the last of %lld layers would be quantized after training, which has %lld updates behind "
        "qat.start_step; %lld is the most",
        (long long)layers, (long long)(r->data.steps - r->data.start),
        (long long)((r->data.steps - r->data.start - 1) / dt__max_i64(1, layers - 1)));
}

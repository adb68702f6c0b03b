/* Keys that say nothing beside another one: a warning says which of the two counts. A recipe may
 * hold them, for an override to choose from. */
#include "ptq/matrix.h"
#include "train/recipe/choices.h"
#include "train/recipe/recipe.h"

#include <string.h>

static bool epochs(const dt_recipe *r) { return r->options.train.steps > 0; }

static bool dampening(const dt_recipe *r)
{
    const dt_optimizer_options *o = &r->options.train.optimizer;
    return o->name == DT_SGD && o->momentum == 0 && o->dampening > 0;
}

static bool total_steps(const dt_recipe *r)
{
    const int name = r->options.train.schedule.name;
    const unsigned without = DT__BIT(DT_CONSTANT) | DT__BIT(DT_STEP) | DT__BIT(DT_MULTISTEP) |
                             DT__BIT(DT_COSINE_RESTARTS) | DT__BIT(DT_PLATEAU);
    return r->options.train.schedule.total_steps > 0 && (without & DT__BIT(name)) != 0;
}

static bool temperature(const dt_recipe *r) { return r->options.train.distill.weight == 0; }

static bool layer_figures(const dt_recipe *r)
{
    return !r->options.qat.given && r->options.train.log.layers_every_steps > 0;
}

static bool sync_norm(const dt_recipe *r)
{
    return r->options.cluster.sync_norm && r->options.train.shards < 2;
}

static bool coefficients(const dt_recipe *r)
{
    return r->options.data.features.kind == DT_FEATURES_LOG_MEL;
}

static bool convert_share(const dt_recipe *r)
{
    return r->options.convert.rounding.rounding.damping_absolute > 0;
}

static bool calibration(const dt_recipe *r)
{
    return !dt__needs_data(dt__method_of(r->options.convert.rounding.rounder));
}

static bool weight_own(const dt_recipe *r)
{
    const dt_quant_patch *p = &r->options.qat.weight;
    return p->has_own && !(p->has_scheme && p->quant.scheme == DT_SCHEME_OWN);
}

static bool activation_own(const dt_recipe *r)
{
    const dt_quant_patch *p = &r->options.qat.activation;
    return p->has_own && !(p->has_scheme && p->quant.scheme == DT_SCHEME_OWN);
}

static const struct {
    const char *path, *by; /* the key that counts in its place */
    bool (*is_idle)(const dt_recipe *r);
    const char *why;
} idle[] = {
    { "train.epochs", "train.steps", epochs,
      "'train.steps' says how long training is; ~train.steps leaves it out" },
    { "train.optimizer.dampening", "train.optimizer.momentum", dampening,
      "'train.optimizer.momentum' is 0" },
    { "train.schedule.total_steps", "train.schedule.name", total_steps,
      "this 'train.schedule.name' has no end" },
    { "train.distill.temperature", "train.distill.weight", temperature,
      "'train.distill.weight' is 0" },
    { "train.log.layers_every_steps", "qat", layer_figures,
      "there is no 'qat', of whose layers it is" },
    { "cluster.sync_norm", "train.shards", sync_norm, "'train.shards' is below 2" },
    { "data.features.coefficients", "data.features.kind", coefficients,
      "'data.features.kind' is log_mel" },
    { "convert.calibration", "convert.rounder", calibration,
      "'convert.rounder' is nearest, which reads no data" },
    { "convert.rounding.damping", "convert.rounding.damping_absolute", convert_share,
      "'convert.rounding.damping_absolute' is above 0" },
    { "qat.weight.own", "qat.weight.scheme", weight_own, "'qat.weight.scheme' is not own" },
    { "qat.activation.own", "qat.activation.scheme", activation_own,
      "'qat.activation.scheme' is not own" },
};

bool dt__recipe_is_idle(const dt_recipe *r, const char *path)
{
    for (int i = 0; i < DT__COUNT_OF(idle); i++) {
        if (strcmp(idle[i].path, path) == 0 && idle[i].is_idle(r)) return true;
    }
    return false;
}

/* Nothing is said of a key of the file that an override makes idle: that is its purpose. */
void dt__recipe_remark_idle(dt_recipe *r)
{
    for (int i = 0; i < DT__COUNT_OF(idle); i++) {
        const dt__node *node = dt__given(r, idle[i].path), *by = dt__node_at(r, idle[i].by, NULL);
        if (node == NULL || !idle[i].is_idle(r)) continue;
        if (by != NULL && by->origin != DT__FROM_FILE && node->origin == DT__FROM_FILE) continue;
        dt__remark(r, node, "'%s' is not read: %s", idle[i].path, idle[i].why);
    }
}

/* Checks of a recipe that need its model: every rule must match a module; adapters and activation
 * checkpointing must find their layers. */
#include "nn/module.h"
#include "train/recipe/recipe.h"

#include <string.h>

#define MOST_NAMES 12 /* most modules listed in a message */

/* *n: the number of modules that can be quantized. Returns the names of the first. */
static const char *name_modules(dt_recipe *r, dt_module *m, int *n)
{
    const char *all = "";
    *n = 0;
    DT__EACH_MODULE(each, m) {
        if (each->type->quantizable == DT_NOT_QUANTIZED || (*n)++ >= MOST_NAMES) continue;
        const char *path = dt__path_within(m, each->path);
        all = dt__recipe_format(r, "%s%s%s", all, *n > 1 ? ", " : "", path);
    }
    return all;
}

dt_status dt_recipe_check_model(dt_recipe *r, dt_module *m)
{
    DT__NEED(dt_module_ctx(m), r);
    const dt_qat_options *qat = &r->options.qat;
    if (!qat->given) return DT_OK;
    dt_qat_options *one = dt__recipe_alloc(r, sizeof *one);
    int n;
    const char *modules = name_modules(r, m, &n);
    dt_status status = DT_OK;
    for (int64_t i = 0; one != NULL && status == DT_OK && i < qat->n_rules; i++) {
        int64_t lost = -1;
        *one = *qat;
        one->rules[0] = qat->rules[i];
        one->n_rules = 1;
        status = dt_qat_unmatched_rule(m, one, &lost);
        if (status != DT_OK || lost < 0) continue;
        const char *path = dt__recipe_format(r, "qat.rules.%lld.match", (long long)i);
        const char *match = qat->rules[i].match;
        dt_recipe_refuse(r, path, "'%s': '%s' matches no module with weights to quantize (%s%s)",
                         path, dt__recipe_quote_text(r, match, strlen(match)), modules,
                         n > MOST_NAMES ? ", ..." : "");
    }
    if (status != DT_OK && !r->out_of_memory) return status;
    return dt__recipe_verdict(r);
}

dt_status dt_recipe_adapt(dt_recipe *r, dt_module *m)
{
    DT__NEED(dt_module_ctx(m), r);
    const dt_lora_options *adapters = &r->options.adapters;
    if (r->options.train.recompute && dt_recompute(m, true) == 0) {
        return dt_recipe_refuse(r, "train.recompute",
                                "'train.recompute' is for families that are made of blocks: "
                                "resnet, gpt and llama");
    }
    if (!adapters->given) return DT_OK;
    return dt__recipe_blame(r, "adapters", DT_ERR_CONFIG, dt_lora_add(m, adapters));
}

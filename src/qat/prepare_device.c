/* Presets for devices in dt_prepare: all layers of an integer network compute integers, and each
 * result has a range. */
#include "core/text/glob.h"
#include "nn/fold.h"
#include "nn/lists/graph.h"
#include "nn/module.h"
#include "qat/prepare_plan.h"

#include <stdio.h>
#include <string.h>

#define DT__RANGE_PATH 512

/* Writes the path of a range, such as "conv.output" or "input". */
static void range_path(const char *path, const char *name, char text[DT__RANGE_PATH])
{
    snprintf(text, DT__RANGE_PATH, "%s%s%s", path, path[0] != '\0' ? "." : "", name);
}

/* Marks the rules that match a range: a rule may name ranges of inputs and of layers without
 * weights. */
static void match_range(void *user, const char *path, const char *name)
{
    dt__plan *p = user;
    char text[DT__RANGE_PATH];
    range_path(path, name, text);
    for (int64_t r = 0; r < p->options->n_rules; r++) {
        p->matched[r] = p->matched[r] || dt__glob_selects(p->options->rules[r].match, text);
    }
}

dt_status dt__plan_record_device(dt__plan *p)
{
    const dt_qat_options *o = p->options;
    const dt_shape *inputs = o->inputs;
    int n = o->n_inputs;
    if (!dt_is_device_preset(o->preset)) return DT_OK;
    if (o->forward != DT_FORWARD_INTEGER) {
        return dt_fail(p->ctx, DT_ERR_CONFIG,
                       "prepare: a preset for devices computes integers; forward is 'integer'");
    }
    if (inputs == NULL) n = dt__graph_inputs(p->m, &inputs);
    dt_shape example = { .rank = p->m->example_rank };
    memcpy(example.dims, p->m->example, sizeof p->m->example);
    if (n == 0 && example.rank > 0) {
        inputs = &example;
        n = 1;
    }
    DT__TRY(dt__device_record(p->m, inputs, n, &p->device));
    dt__device_visit_ranges(p->device, match_range, p);
    return DT_OK;
}

/* Fails where a layer's weight stays float, has a spec that devices lack, or the batch norm behind
 * it is not folded. */
dt_status dt__plan_check_device(dt__plan *p, const dt__plan_line *l)
{
    char why[DT__DEVICE_BAR];
    if (!dt__device_holds(p->device, l->module)) return DT_OK;
    const bool whole = l->selected && l->quantize_weight;
    if (!whole) snprintf(why, sizeof why, "it stays float, and all layers must be integers");
    if (whole && dt__device_takes(l->module, &l->weight_quant, why)) {
        if (!dt__can_fold(l->module, true) || l->derived) return DT_OK;
        snprintf(why, sizeof why, "the batch norm behind it is not folded");
    }
    return dt_fail(p->ctx, DT_ERR_CONFIG, "prepare: %s: %s", l->path, why);
}

/* The settings of the range of a result or an input: the preset, the changes for all modules, and
 * rules that match the module or the range. */
dt_status dt__plan_device_spec(void *user, const char *path, const char *name, dt_quant_spec *spec,
                               bool *fixed)
{
    dt__plan *p = user;
    char text[DT__RANGE_PATH];
    range_path(path, name, text);
    *fixed = false;
    const dt_qat_options *o = p->options;
    dt_quant_spec weight;
    dt_qat_preset(o->preset, &weight, spec);
    dt_quant_apply(spec, &o->activation);
    for (int64_t r = 0; r < o->n_rules; r++) {
        if (!dt__glob_selects(o->rules[r].match, text)) continue;
        dt_quant_apply(spec, &o->rules[r].activation);
    }
    spec->activation = true;
    if (spec->scheme == DT_SCHEME_DEVICE && spec->bits == 8 && spec->range != DT_RANGE_DYNAMIC &&
        spec->granularity == DT_PER_TENSOR) {
        dt__quant_fault fault;
        if (dt__quant_is_valid(spec, DT__QUANT_MODEL, &fault)) return DT_OK;
        return dt_fail(p->ctx, DT_ERR_CONFIG, "prepare: %s: %s", text, fault.text);
    }
    return dt_fail(p->ctx, DT_ERR_CONFIG,
                   "prepare: %s: results in a network for devices are int8 codes of scheme device, "
                   "granularity tensor, with a static, learned or fixed range",
                   text);
}

/* Which modules dt_prepare quantizes, and by which specs: the preset, then changes for all modules,
 * then the rules that match. */
#include "core/text/glob.h"
#include "nn/convolution/conv_layers.h"
#include "nn/module.h"
#include "qat/prepare_plan.h"
#include "qat/schemes/scheme.h"

/* Whether a patch gave these keys. */
typedef struct given {
    bool scheme, granularity, quantize;
} given;

static void apply_patch(const dt_quant_patch *patch, dt_quant_spec *quant, bool *on, given *keys)
{
    dt_quant_apply(quant, patch);
    if (patch->has_quantize) *on = patch->quantize;
    keys->scheme = keys->scheme || patch->has_scheme;
    keys->granularity = keys->granularity || patch->has_granularity;
    keys->quantize = keys->quantize || patch->has_quantize;
}

/* Chooses settings that LiteRT multiplies as integers, where no key gives them
 * (docs/runtimes.md). */
static void take_litert(dt__plan_line *l, const given *weight, const given *input)
{
    const dt__conv_state *conv = dt__conv_state_of(l->module);
    dt_quant_spec *q = &l->weight_quant;
    if (!weight->granularity && (conv != NULL || q->bits > 4)) q->granularity = DT_PER_CHANNEL;
    if (!weight->scheme && q->bits == 8) q->scheme = DT_SCHEME_NARROW;
    const bool turned = conv != NULL && conv->kind->transposed && conv->layer.conv.groups > 1;
    if (turned && !input->quantize) l->quantize_input = false;
}

/* Inputs of convolutions are quantized by sample where the preset has one scale per token. No
 * runtime quantizes them in blocks, so under presets of blocks they stay float; a key that
 * quantizes them gives 8 bits by sample. */
static void take_samples(dt__plan_line *l)
{
    const int granularity = l->input_quant.granularity;
    if (!dt_module_type_of(l->module)->samples) return;
    if (granularity == DT_PER_GROUP) l->quantize_input = false;
    if (granularity != DT_PER_TOKEN && granularity != DT_PER_GROUP) return;
    if (dt__levels_of(&l->input_quant) != NULL) l->input_quant = dt_activation_quant_defaults();
    l->input_quant.granularity = DT_PER_SAMPLE;
}

/* Applies the preset, the patches for all modules and every rule that matches, in this order; a
 * later value of a key replaces an earlier one. */
static void decide(dt__plan *p, dt__plan_line *l)
{
    const dt_qat_options *o = p->options;
    l->quantize_weight = true;
    l->quantize_input = dt_qat_preset(o->preset, &l->weight_quant, &l->input_quant);
    const dt_module_type *type = dt_module_type_of(l->module);
    take_samples(l);
    if (dt_is_device_preset(o->preset)) dt__device_weight_spec(l->module, &l->weight_quant);
    given weight = { false }, input = { false };
    apply_patch(&o->weight, &l->weight_quant, &l->quantize_weight, &weight);
    apply_patch(&o->activation, &l->input_quant, &l->quantize_input, &input);
    l->sizes_blocks = o->activation.has_group_size;
    const dt_quantizable how = type->quantizable;
    l->selected = how == DT_QUANTIZED_BY_PRESET;
    for (int64_t r = 0; r < o->n_rules; r++) {
        const dt_qat_rule *rule = &o->rules[r];
        if (!dt__glob_selects(rule->match, l->path)) continue;
        p->matched[r] = true;
        l->selected = true;
        if (rule->has_skip) l->skipped = rule->skip;
        apply_patch(&rule->weight, &l->weight_quant, &l->quantize_weight, &weight);
        apply_patch(&rule->activation, &l->input_quant, &l->quantize_input, &input);
        l->sizes_blocks = l->sizes_blocks || rule->activation.has_group_size;
    }
    if (o->litert) take_litert(l, &weight, &input);
    const bool sized = dt__scheme_of(l->input_quant.scheme)->group != 0 || l->sizes_blocks;
    if (l->input_quant.granularity == DT_PER_GROUP && !sized) {
        l->input_quant.group_size = l->weight_quant.group_size;
    }
    if (l->skipped) l->selected = false;
    if (how == DT_QUANTIZED_WEIGHT_ONLY) l->quantize_input = false;
    l->weight_quant.activation = false;
    l->input_quant.activation = true;
    if (dt_is_device_preset(o->preset)) l->quantize_input = false; /* ranges belong to results */
    dt__find_scheme(p->ctx, &l->weight_quant);
    dt__find_scheme(p->ctx, &l->input_quant);
}

static dt_status add_line(dt__plan *p, const char *path, dt_module *m)
{
    DT__TRY(DT__RESERVE(p->ctx, p->line, p->n, p->room));
    const char *copy = dt__copy_string(p->ctx, path);
    if (copy == NULL) return DT_ERR_NOMEM;
    p->line[p->n] = (dt__plan_line){ .path = copy, .module = m };
    dt__plan_line *l = &p->line[p->n++];
    l->weight = dt_param(m, "weight");
    if (l->weight == NULL) return dt_error_status(p->ctx);
    decide(p, l);
    return DT_OK;
}

void dt__plan_free(dt__plan *p)
{
    for (int64_t i = 0; i < p->n; i++) {
        DT__RELEASE(p->ctx, (void *)(uintptr_t)p->line[i].path, p->line[i].hook);
        if (!p->line[i].input.attached) dt_module_free(p->line[i].input.range);
        if (!p->line[i].scale.attached) dt_module_free(p->line[i].scale.range);
    }
    dt__release(p->ctx, p->line);
    dt__device_free(p->ctx, p->device);
}

dt_status dt__plan_make(dt_module *m, dt__plan *p)
{
    const dt_qat_options *o = p->options;
    const int64_t rules = o->n_rules;
    if (o->preset < DT_INT8_DYNAMIC_INT4_WEIGHT || o->preset > DT_DEVICE_INT4) {
        return dt_fail(p->ctx, DT_ERR_ARG, "prepare: %d is not a preset", o->preset);
    }
    if (o->forward != DT_FORWARD_INTEGER && o->forward != DT_FORWARD_SIMULATED) {
        return dt_fail(p->ctx, DT_ERR_ARG,
                       "prepare: forward is %d, which is not one of its choices", o->forward);
    }
    if (rules < 0 || rules > DT_MAX_RULES) {
        return dt_fail(p->ctx, DT_ERR_ARG, "prepare: %lld rules; 0...%d are allowed",
                       (long long)rules, DT_MAX_RULES);
    }
    DT__EACH_MODULE(layer, m) {
        if (layer->type->quantizable == DT_NOT_QUANTIZED) continue;
        DT__TRY(add_line(p, dt__path_within(m, layer->path), layer));
    }
    return DT_OK;
}

int64_t dt__plan_unmatched(const dt__plan *p)
{
    for (int64_t r = 0; r < p->options->n_rules; r++) {
        if (!p->matched[r]) return r;
    }
    return -1;
}

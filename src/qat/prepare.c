/* Prepare: preset and rules decide which modules are quantized, and by which specs. Then the weight
 * of each becomes a FakeQuantTensor on the same handle, and its input gets a hook. All checks and
 * allocations come before the first module changes. */
#include "core/glob.h"
#include "nn/conv_layers.h"
#include "nn/fold.h"
#include "nn/graph.h"
#include "nn/module.h"
#include "qat/derived_quant.h"
#include "qat/device_plan.h"
#include "qat/learned.h"
#include "qat/prepare.h"
#include "qat/scheme.h"

#include <stdio.h>
#include <string.h>

/* ---- the plan: one line a quantizable module ------------------------------------------------ */

typedef struct dt__plan_line {
    const char *path; /* owned */
    dt_module *module;
    dt_tensor *weight;
    bool selected; /* and not skipped */
    bool skipped;  /* by an explicit `skip` */
    bool quantize_weight, quantize_input;
    bool sizes_blocks; /* the input's group size is given; else it is the weight's */
    /* the layer derives the quantized weight: it folds a norm, or has an adapter */
    bool derived;
    dt_quant_spec weight_quant, input_quant;
    dt__row_map map;      /* of the weight */
    dt__input_hook *hook; /* made, not yet added */
    struct {
        dt_module *range; /* the quantizer of a static or learned range */
        bool attached;    /* the module owns it */
    } input, scale;       /* scale: of the weight */
} plan_line;

typedef struct dt__plan {
    dt_ctx *ctx;
    dt_module *m;
    const dt_qat_options *options;
    plan_line *line;
    int64_t n, room;
    bool matched[DT_MAX_RULES];
    dt__device *device; /* of presets for devices, until it is installed */
} plan;

static void apply_patch(const dt_quant_patch *patch, dt_quant_spec *quant, bool *on)
{
    dt_quant_apply(quant, patch);
    if (patch->has_quantize) *on = patch->quantize;
}

/* Inputs of convolutions are quantized by sample where others are by token. No runtime quantizes
 * them in blocks, so under presets of blocks they stay float. */
static void take_samples(plan_line *l)
{
    const int granularity = l->input_quant.granularity;
    if (!dt_module_type_of(l->module)->samples) return;
    if (granularity == DT_PER_GROUP) l->quantize_input = false;
    if (granularity == DT_PER_TOKEN || granularity == DT_PER_GROUP) {
        l->input_quant.granularity = DT_PER_SAMPLE;
    }
}

/* The preset, then the patches for all modules, then every rule that matches, in order: the last
 * wins key by key. */
static void decide(plan *p, plan_line *l)
{
    const dt_qat_options *o = p->options;
    l->quantize_weight = true;
    l->quantize_input = dt_qat_preset(o->preset, &l->weight_quant, &l->input_quant);
    const dt_module_type *type = dt_module_type_of(l->module);
    take_samples(l);
    if (dt_is_device_preset(o->preset)) dt__device_weight_spec(l->module, &l->weight_quant);
    apply_patch(&o->weight, &l->weight_quant, &l->quantize_weight);
    apply_patch(&o->activation, &l->input_quant, &l->quantize_input);
    l->sizes_blocks = o->activation.has_group_size;
    const dt_quantizable how = type->quantizable;
    l->selected = how == DT_QUANTIZED_BY_PRESET;
    for (int64_t r = 0; r < o->n_rules; r++) {
        const dt_qat_rule *rule = &o->rules[r];
        if (!dt__glob_selects(rule->match, l->path)) continue;
        p->matched[r] = true;
        l->selected = true;
        if (rule->has_skip) l->skipped = rule->skip;
        apply_patch(&rule->weight, &l->weight_quant, &l->quantize_weight);
        apply_patch(&rule->activation, &l->input_quant, &l->quantize_input);
        l->sizes_blocks = l->sizes_blocks || rule->activation.has_group_size;
    }
    if (l->input_quant.granularity == DT_PER_GROUP && !l->sizes_blocks) {
        l->input_quant.group_size = l->weight_quant.group_size;
    }
    if (l->skipped) l->selected = false;
    if (how == DT_QUANTIZED_WEIGHT_ONLY) l->quantize_input = false;
    l->weight_quant.activation = false;
    l->input_quant.activation = true;
    if (dt_is_device_preset(o->preset)) l->quantize_input = false; /* results have ranges */
}

static dt_status add_line(void *user, const char *path, dt_module *m)
{
    plan *p = user;
    if (dt_module_type_of(m)->quantizable == DT_NOT_QUANTIZED) return DT_OK;
    DT__TRY(DT__RESERVE(p->ctx, p->line, p->n, p->room));
    const char *copy = dt__copy_string(p->ctx, path);
    if (copy == NULL) return DT_ERR_NOMEM;
    p->line[p->n] = (plan_line){ .path = copy, .module = m };
    plan_line *l = &p->line[p->n++];
    l->weight = dt_param(m, "weight");
    if (l->weight == NULL) return dt_error_status(p->ctx);
    decide(p, l);
    return DT_OK;
}

static void free_plan(plan *p)
{
    for (int64_t i = 0; i < p->n; i++) {
        dt__release(p->ctx, (void *)(uintptr_t)p->line[i].path);
        dt__release(p->ctx, p->line[i].hook);
        if (!p->line[i].input.attached) dt_module_free(p->line[i].input.range);
        if (!p->line[i].scale.attached) dt_module_free(p->line[i].scale.range);
    }
    dt__release(p->ctx, p->line);
    dt__device_free(p->ctx, p->device);
}

/* ---- checks --------------------------------------------------------------------------------- */

static int64_t unmatched_rule(const plan *p)
{
    for (int64_t r = 0; r < p->options->n_rules; r++) {
        if (!p->matched[r]) return r;
    }
    return -1;
}

dt_status dt__check_input_quant(const dt_module *m, const dt_quant_spec *quant)
{
    const int g = quant->granularity;
    if (m->type->samples && (g == DT_PER_TOKEN || g == DT_PER_GROUP)) {
        return dt_fail(m->ctx, DT_ERR_CONFIG,
                       "the input of a %s is quantized per sample or per tensor, not per %s; a "
                       "rule can leave it out (skip: true)",
                       m->type->name, g == DT_PER_TOKEN ? "token" : "group");
    }
    return dt__quant_check(m->ctx, quant, DT__QUANT_MODEL);
}

int64_t dt__input_channels(const dt_module *m, const dt_tensor *w)
{
    const dt__conv_state *conv = dt__conv_state_of(m);
    if (conv != NULL) return conv->layer.in;
    return w->grouped ? w->dims[w->rank - 1] : w->rank > 1 ? w->dims[1] : 1;
}

int64_t dt__op_groups(const dt_module *m)
{
    const dt__conv_state *conv = dt__conv_state_of(m);
    const dt__entry *weight = dt__entry_find(m, "weight");
    if (conv != NULL) return conv->layer.conv.groups;
    return weight != NULL && weight->x->grouped ? weight->x->dims[0] : 1;
}

dt_status dt__weight_map(const dt_module *m, const dt_tensor *w, dt__row_map *out)
{
    const dt_module_type *type = m->type;
    const int64_t groups = type->transposed_groups == NULL ? 0 : type->transposed_groups(m);
    if (w->grouped) {
        *out = dt__row_map_of_experts(w->dims[0]);
        return DT_OK;
    }
    if (dt__row_map_of(groups, w->rank, w->dims, out)) return DT_OK;
    return dt_fail(m->ctx, DT_ERR_SHAPE, "the weight of a %s does not have %lld groups", type->name,
                   (long long)groups);
}

/* Puts the module's path in front of the message of a check. */
static dt_status blame(plan *p, const plan_line *l, dt_status s)
{
    if (s == DT_OK) return s;
    char text[DT__MESSAGE_SIZE];
    snprintf(text, sizeof text, "%s", dt_error(p->ctx));
    return dt_fail(p->ctx, s, "prepare: %s: %s", l->path, text);
}

static dt_status check_weight(plan *p, plan_line *l)
{
    dt__panel_layout layout;
    DT__TRY(dt__quant_check(p->ctx, &l->weight_quant, DT__QUANT_MODEL));
    DT__TRY(dt__weight_map(l->module, l->weight, &l->map));
    const dt__weight_shape shape = dt__weight_shape_of(l->weight, &l->map);
    return dt__weight_layout(p->ctx, &l->weight_quant, &shape, &layout);
}

/* Blocks of an input are multiplied by the same groups of the weight. */
static dt_status check_blocks(plan *p, const plan_line *l)
{
    const dt_quant_spec *x = &l->input_quant, *w = &l->weight_quant;
    if (!l->quantize_input || !l->quantize_weight || x->granularity != DT_PER_GROUP) return DT_OK;
    const int64_t columns = dt__input_channels(l->module, l->weight);
    if (w->granularity == DT_PER_GROUP && w->group_size == x->group_size &&
        !dt__scheme_of(w->scheme)->has_zero && dt__min_i64(x->group_size, columns) <= DT__PIECE) {
        return DT_OK;
    }
    return dt_fail(p->ctx, DT_ERR_CONFIG,
                   "activations in groups of %lld want a weight in groups of as many, at most "
                   "%lld, without zero points",
                   (long long)x->group_size, (long long)DT__PIECE);
}

static dt_status check_line(plan *p, plan_line *l)
{
    if (l->weight->kind != NULL || dt__input_hook_of(l->module) != NULL ||
        dt__derived_quant(l->module) != NULL) {
        return dt_fail(p->ctx, DT_ERR_STATE, "prepare: %s is %s already", l->path,
                       dt_is_packed(l->weight) ? "converted" : "prepared");
    }
    if (!l->selected) return DT_OK;
    if (l->weight->dtype != DT_F32) {
        return dt_fail(p->ctx, DT_ERR_DTYPE, "prepare: %s: schemes take f32 weights, not %s",
                       l->path, dt_dtype_name(l->weight->dtype));
    }
    if (l->quantize_input) {
        DT__TRY(blame(p, l, dt__check_input_quant(l->module, &l->input_quant)));
    }
    if (l->quantize_weight) DT__TRY(blame(p, l, check_weight(p, l)));
    return blame(p, l, check_blocks(p, l));
}

/* A tied weight needs one spec; `skip` for only one of its paths is an error. */
static dt_status check_tie(plan *p, const plan_line *a, const plan_line *b)
{
    if (a->weight != b->weight) return DT_OK;
    if (a->skipped != b->skipped) {
        return dt_fail(p->ctx, DT_ERR_CONFIG,
                       "prepare: %s and %s share a weight, but only %s is skipped", a->path,
                       b->path, a->skipped ? a->path : b->path);
    }
    const bool both = a->selected && b->selected;
    if (both && (a->quantize_weight != b->quantize_weight || !dt__same_map(&a->map, &b->map) ||
                 !dt__same_quant(&a->weight_quant, &b->weight_quant))) {
        return dt_fail(p->ctx, DT_ERR_CONFIG,
                       "prepare: %s and %s share a weight, but are given two schemes", a->path,
                       b->path);
    }
    return DT_OK;
}

/* A norm can be folded if no other layer shares the weight or the norm. */
static bool folds(const plan *p, const plan_line *l)
{
    bool alone = p->options->fold_norm && dt__can_fold(l->module);
    for (int64_t i = 0; i < p->n && alone; i++) {
        const plan_line *other = &p->line[i];
        alone =
            other == l || (other->weight != l->weight && other->module->norm != l->module->norm);
    }
    return alone;
}

static void decide_derived(const plan *p, plan_line *l)
{
    l->derived = l->selected && l->quantize_weight && (dt__has_lora(l->module) || folds(p, l));
}

/* ---- presets for devices -------------------------------------------------------------------- */

#define DT__RANGE_PATH 512

/* "conv.output", "input": the path of a range. */
static void range_path(const char *path, const char *name, char text[DT__RANGE_PATH])
{
    snprintf(text, DT__RANGE_PATH, "%s%s%s", path, path[0] != '\0' ? "." : "", name);
}

/* Rules match ranges, too, of layers without weights and of inputs. */
static void match_range(void *user, const char *path, const char *name)
{
    plan *p = user;
    char text[DT__RANGE_PATH];
    range_path(path, name, text);
    for (int64_t r = 0; r < p->options->n_rules; r++) {
        p->matched[r] = p->matched[r] || dt__glob_selects(p->options->rules[r].match, text);
    }
}

static dt_status record_device(plan *p)
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

/* Every layer of such a network computes integers. */
static dt_status check_device_line(plan *p, const plan_line *l)
{
    char why[DT__DEVICE_BAR];
    if (!dt__device_holds(p->device, l->module)) return DT_OK;
    const bool whole = l->selected && l->quantize_weight;
    if (!whole) snprintf(why, sizeof why, "it stays float, and all layers must be integers");
    if (whole && dt__device_takes(l->module, &l->weight_quant, why)) {
        if (!dt__can_fold(l->module) || l->derived) return DT_OK;
        snprintf(why, sizeof why, "the batch norm behind it is not folded");
    }
    return dt_fail(p->ctx, DT_ERR_CONFIG, "prepare: %s: %s", l->path, why);
}

/* The settings of the range of a result or an input: the preset, the changes for all modules, and
 * rules that match the module or the range. */
static dt_status device_spec(void *user, const char *path, const char *name, dt_quant_spec *spec,
                             bool *fixed)
{
    plan *p = user;
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

static dt_status check_plan(plan *p)
{
    DT__TRY(record_device(p));
    const int64_t unmatched = unmatched_rule(p);
    if (unmatched >= 0) {
        return dt_fail(p->ctx, DT_ERR_CONFIG,
                       "prepare: rule %lld: '%s' matches no quantizable module",
                       (long long)unmatched, p->options->rules[unmatched].match);
    }
    bool some = false;
    for (int64_t i = 0; i < p->n; i++) {
        DT__TRY(check_line(p, &p->line[i]));
        some = some || (p->line[i].selected && p->line[i].quantize_weight);
        for (int64_t k = 0; k < i; k++) DT__TRY(check_tie(p, &p->line[k], &p->line[i]));
        decide_derived(p, &p->line[i]);
        if (p->device != NULL) DT__TRY(check_device_line(p, &p->line[i]));
    }
    if (!some) return dt_fail(p->ctx, DT_ERR_CONFIG, "prepare: no weight is left to quantize");
    return DT_OK;
}

/* ---- acting --------------------------------------------------------------------------------- */

/* Whether this line is the first of those that share its weight. */
static bool is_first(const plan *p, const plan_line *l)
{
    const plan_line *first = p->line;
    while (first->weight != l->weight || !first->selected || !first->quantize_weight) first++;
    return first == l;
}

/* The module that owns the range of this line's weight: the first with this weight, selected or
 * not. */
static dt_module *holder_of(const plan *p, const plan_line *l)
{
    const plan_line *first = p->line;
    while (first->weight != l->weight) first++;
    return first->module;
}

/* Initializes the static or learned range of a weight from its present values. */
static dt_status begin_scale(const plan_line *l, const dt__quantizer *range)
{
    dt__derived derived;
    if (!l->derived) return dt__quantizer_begin(l->weight, &l->map, range);
    dt_status s = dt__derived_begin(l->module, &derived);
    if (s == DT_OK) s = dt__quantizer_begin(derived.weight, &l->map, range);
    dt__derived_end(&derived, false);
    return s;
}

static dt_status make_scale(plan *p, plan_line *l)
{
    if (!l->selected || !l->quantize_weight) return DT_OK;
    if (l->weight_quant.range == DT_RANGE_DYNAMIC || !is_first(p, l)) return DT_OK;
    dt__quantizer_size size = { .scales = 1 };
    DT__TRY(dt__quantizer_scales(l->weight, &l->map, &l->weight_quant, &size.scales));
    DT__TRY(dt__quantizer_create(p->ctx, &l->weight_quant, &size, &l->scale.range));
    const dt__quantizer *range = dt__quantizer_of(l->scale.range);
    DT__TRY(begin_scale(l, range));
    return dt_fill(range->count, 0); /* it is computed again when its training begins */
}

static dt_status make_hook(plan *p, plan_line *l)
{
    if (!l->selected || !l->quantize_input) return DT_OK;
    l->hook = dt__alloc(p->ctx, sizeof *l->hook);
    if (l->hook == NULL) return DT_ERR_NOMEM;
    *l->hook = (dt__input_hook){ .quant = l->input_quant,
                                 .enabled = true,
                                 .simulated = p->options->forward == DT_FORWARD_SIMULATED };
    if (l->input_quant.range == DT_RANGE_DYNAMIC) return DT_OK;
    const dt__quantizer_size size = { .scales = 1,
                                      .channels = dt__input_channels(l->module, l->weight) };
    DT__TRY(dt__quantizer_create(p->ctx, &l->input_quant, &size, &l->input.range));
    l->hook->range = dt__quantizer_of(l->input.range);
    return DT_OK;
}

static dt_status change_input(plan_line *l)
{
    if (l->hook == NULL) return DT_OK;
    if (l->input.range != NULL) {
        DT__TRY(dt__module_attach(l->module, "input", l->input.range));
        l->input.attached = true;
    }
    DT__TRY(dt__hook_input(l->module, l->hook));
    l->hook = NULL; /* the module owns it */
    return DT_OK;
}

static dt_status change_weight(plan *p, plan_line *l)
{
    dt__fq fq = { .quant = l->weight_quant,
                  .simulated = p->options->forward == DT_FORWARD_SIMULATED,
                  .map = l->map };
    if (l->scale.range != NULL) {
        DT__TRY(dt__module_attach(holder_of(p, l), "weight", l->scale.range));
        l->scale.attached = true;
        fq.scale = dt__quantizer_of(l->scale.range)->scale;
        fq.zero_point = dt__quantizer_of(l->scale.range)->zero_point;
        fq.count = dt__quantizer_of(l->scale.range)->count;
    }
    return l->derived ? dt__derive(l->module, &fq) : dt__fq_wrap(l->weight, &fq);
}

static dt_status change(plan *p, plan_line *l)
{
    if (!l->selected) return DT_OK;
    if (l->quantize_weight && l->weight->kind == NULL) DT__TRY(change_weight(p, l));
    return change_input(l);
}

static void change_back(plan_line *l)
{
    if (dt_is_fake_quant(l->weight)) dt__fq_unwrap(l->weight);
    dt__underive(l->module);
    dt__unhook_input(l->module);
    if (l->input.attached) dt_module_free(l->input.range);
    if (l->scale.attached) dt_module_free(l->scale.range);
    if (l->input.attached) l->input.range = NULL;
    if (l->scale.attached) l->scale.range = NULL;
}

static dt_status act(plan *p)
{
    dt_status s = DT_OK;
    for (int64_t i = 0; i < p->n && s == DT_OK; i++) s = make_hook(p, &p->line[i]);
    for (int64_t i = 0; i < p->n && s == DT_OK; i++) s = make_scale(p, &p->line[i]);
    for (int64_t i = 0; i < p->n && s == DT_OK; i++) s = change(p, &p->line[i]);
    if (s == DT_OK && p->device != NULL) s = dt__device_check_joined(p->device, device_spec, p);
    if (s == DT_OK && p->device != NULL) s = dt__device_ranges(p->device, device_spec, p);
    if (s == DT_OK && p->device != NULL) {
        dt__device_plan_norms(p->device);
        s = dt__device_probe(p->device);
    }
    for (int64_t i = 0; i < p->n && s != DT_OK; i++) change_back(&p->line[i]);
    if (p->device == NULL) return s;
    if (s == DT_OK) {
        dt__device_install(p->device);
        p->device = NULL;
    } else {
        dt__device_unrange(p->device);
    }
    return s;
}

static dt_status make_plan(dt_module *m, plan *p)
{
    const dt_qat_options *o = p->options;
    const int64_t rules = o->n_rules;
    if (o->preset < DT_INT8_DYNAMIC_INT4_WEIGHT || o->preset > DT_DEVICE_INT4) {
        return dt_fail(p->ctx, DT_ERR_ARG, "prepare: %d is no preset", o->preset);
    }
    if (o->forward != DT_FORWARD_INTEGER && o->forward != DT_FORWARD_SIMULATED) {
        return dt_fail(p->ctx, DT_ERR_ARG, "prepare: %d is no forward", o->forward);
    }
    if (rules < 0 || rules > DT_MAX_RULES) {
        return dt_fail(p->ctx, DT_ERR_ARG, "prepare: %lld rules; 0...%d can be", (long long)rules,
                       DT_MAX_RULES);
    }
    return dt_module_visit_modules(m, add_line, p);
}

dt_status dt_prepare(dt_module *m, const dt_qat_options *options)
{
    DT__NEED(dt_module_ctx(m), m);
    const dt_qat_options defaults = dt_qat_defaults();
    plan p = { .ctx = dt_module_ctx(m), .m = m, .options = options != NULL ? options : &defaults };
    dt_status s = make_plan(m, &p);
    if (s == DT_OK) s = check_plan(&p);
    if (s == DT_OK) s = act(&p);
    free_plan(&p);
    return s;
}

dt_status dt_qat_unmatched_rule(dt_module *m, const dt_qat_options *options, int64_t *rule)
{
    DT__NEED(dt_module_ctx(m), m);
    DT__NEED(dt_module_ctx(m), rule);
    const dt_qat_options defaults = dt_qat_defaults();
    plan p = { .ctx = dt_module_ctx(m), .m = m, .options = options != NULL ? options : &defaults };
    const dt_status s = make_plan(m, &p);
    if (s == DT_OK) (void)record_device(&p); /* its refusal is dt_prepare's */
    *rule = s == DT_OK ? unmatched_rule(&p) : -1;
    free_plan(&p);
    return s;
}

/* ---- the model's state ---------------------------------------------------------------------- */

void dt__layer_enable(dt_module *m, bool weight, bool input)
{
    dt__input_hook *hook = dt__input_hook_of(m);
    dt__fq *derived = dt__derived_quant(m);
    const dt__entry *w = dt__entry_find(m, "weight");
    if (hook != NULL) hook->enabled = input;
    if (derived != NULL) derived->enabled = weight;
    if (dt_module_type_of(m)->quantizable == DT_NOT_QUANTIZED || w == NULL) return;
    if (dt_is_fake_quant(w->x)) dt_fake_quant_enable(w->x, weight);
}

static dt_status enable_one(void *user, const char *path, dt_module *m)
{
    const bool on = *(const bool *)user;
    (void)path;
    if (dt__device_of(m) != NULL) dt__device_of(m)->enabled = on;
    dt__layer_enable(m, on, on);
    return DT_OK;
}

dt_status dt_enable(dt_module *m, bool on)
{
    DT__NEED(dt_module_ctx(m), m);
    if (!dt_is_prepared(m)) {
        return dt_fail(dt_module_ctx(m), DT_ERR_STATE, "enable: the model is not prepared");
    }
    return dt_module_visit_modules(m, enable_one, &on);
}

typedef struct watching {
    bool on, freezes;
} watching;

static dt_status watch_one(void *user, const char *path, dt_module *m)
{
    const watching *w = user;
    (void)path;
    dt__device *device = dt__device_of(m);
    if (device != NULL && w->freezes) device->frozen = w->on;
    if (device != NULL && !w->freezes) device->observing = w->on;
    dt__input_hook *hook = dt__input_hook_of(m);
    if (hook == NULL || hook->range == NULL || hook->range->count == NULL) return DT_OK;
    if (w->freezes) hook->frozen = w->on;
    else hook->observing = w->on;
    return DT_OK;
}

static dt_status refresh_one(void *user, const char *path, dt_module *m)
{
    (void)path;
    dt__quantizer *range = dt__quantizer_of(dt__quantizer_at(m, "weight"));
    if (range == NULL || range->quant.range != DT_RANGE_STATIC) return DT_OK;
    *(bool *)user = true;
    return dt_fill(range->count, 0);
}

dt_status dt_refresh(dt_module *m)
{
    DT__NEED(dt_module_ctx(m), m);
    bool found = false;
    DT__TRY(dt_module_visit_modules(m, refresh_one, &found));
    if (found) return DT_OK;
    return dt_fail(dt_module_ctx(m), DT_ERR_STATE, "refresh: no weight has a static range");
}

static dt_status find_observed(void *user, const char *path, dt_module *m)
{
    (void)path;
    const dt__input_hook *hook = dt__input_hook_of(m);
    if (hook != NULL && hook->range != NULL && hook->range->count != NULL) *(bool *)user = true;
    if (dt__device_of(m) != NULL && dt__device_observes(dt__device_of(m))) *(bool *)user = true;
    return DT_OK;
}

bool dt_is_observed(dt_module *m)
{
    if (m == NULL) return false;
    bool found = false;
    dt_module_visit_modules(m, find_observed, &found);
    return found;
}

static dt_status watch(dt_module *m, watching w)
{
    dt_module_visit_modules(m, watch_one, &w);
    if (dt_is_observed(m)) return DT_OK;
    return dt_fail(dt_module_ctx(m), DT_ERR_STATE, "observe: the model has no range to observe");
}

dt_status dt_observe(dt_module *m, bool on)
{
    DT__NEED(dt_module_ctx(m), m);
    return watch(m, (watching){ .on = on });
}

dt_status dt_observers_freeze(dt_module *m, bool on)
{
    DT__NEED(dt_module_ctx(m), m);
    return watch(m, (watching){ .on = on, .freezes = true });
}

static dt_status find_prepared(void *user, const char *path, dt_tensor *x, dt_entry_kind kind)
{
    (void)path;
    if (kind == DT_PARAM && dt_is_fake_quant(x)) *(bool *)user = true;
    return DT_OK;
}

static dt_status find_converted(void *user, const char *path, dt_tensor *x, dt_entry_kind kind)
{
    (void)path;
    if (kind == DT_PARAM && dt_is_packed(x)) *(bool *)user = true;
    return DT_OK;
}

static dt_status find_derived(void *user, const char *path, dt_module *m)
{
    (void)path;
    if (dt__derived_quant(m) != NULL) *(bool *)user = true;
    return DT_OK;
}

bool dt_is_prepared(dt_module *m)
{
    if (m == NULL) return false;
    bool found = false;
    dt_module_visit(m, find_prepared, &found);
    dt_module_visit_modules(m, find_derived, &found);
    return found;
}

bool dt_is_converted(dt_module *m)
{
    if (m == NULL) return false;
    bool found = false;
    dt_module_visit(m, find_converted, &found);
    return found;
}

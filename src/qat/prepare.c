/* Prepare: preset and rules decide which modules are quantized, and by which specs
 * (prepare_plan.h). Then the weight of each becomes a FakeQuantTensor on the same handle, and its
 * input gets a hook. All checks and allocations come before the first module changes. */
#include "nn/module.h"
#include "qat/derived_quant.h"
#include "qat/folded_range.h"
#include "qat/prepare_plan.h"

/* Whether no earlier line quantizes the same weight. */
static bool is_first(const dt__plan *p, const dt__plan_line *l)
{
    const dt__plan_line *first = p->line;
    while (first->weight != l->weight || !first->selected || !first->quantize_weight) first++;
    return first == l;
}

/* The module that owns the range of this line's weight: the first with this weight, selected or
 * not. */
static dt_module *holder_of(const dt__plan *p, const dt__plan_line *l)
{
    const dt__plan_line *first = p->line;
    while (first->weight != l->weight) first++;
    return first->module;
}

/* Initializes the static or learned range of a weight from its present values. */
static dt_status begin_scale(const dt__plan_line *l, const dt__quantizer *range)
{
    dt__derived derived;
    if (!l->derived) return dt__quantizer_begin(l->weight, &l->map, range);
    dt_status s = dt__derived_begin(l->module, &derived);
    if (s == DT_OK) s = dt__quantizer_begin(derived.weight, &l->map, range);
    dt__derived_end(&derived, false);
    if (s != DT_OK || dt__has_lora(l->module)) return s;
    const dt__fq fq = { .quant = l->weight_quant,
                        .scale = range->scale,
                        .zero_point = range->zero_point };
    dt__range_unfold(l->module, &fq);
    return DT_OK;
}

static dt_status make_scale(dt__plan *p, dt__plan_line *l)
{
    if (!l->selected || !l->quantize_weight) return DT_OK;
    if (l->weight_quant.range == DT_RANGE_DYNAMIC || !is_first(p, l)) return DT_OK;
    dt__quantizer_size size = { .scales = 1 };
    DT__TRY(dt__quantizer_scales(l->weight, &l->map, &l->weight_quant, &size.scales));
    DT__TRY(dt__quantizer_create(p->ctx, &l->weight_quant, &size, &l->scale.range));
    const dt__quantizer *range = dt__quantizer_of(l->scale.range);
    DT__TRY(begin_scale(l, range));
    return dt_fill(range->count,
                   0); /* marked as unseen: it is initialized again at the first training step */
}

static dt_status make_hook(dt__plan *p, dt__plan_line *l)
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

static dt_status change_input(dt__plan_line *l)
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

static dt_status change_weight(dt__plan *p, dt__plan_line *l)
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

static dt_status change(dt__plan *p, dt__plan_line *l)
{
    if (!l->selected) return DT_OK;
    if (l->quantize_weight && l->weight->kind == NULL) DT__TRY(change_weight(p, l));
    return change_input(l);
}

static void change_back(dt__plan_line *l)
{
    if (dt_is_fake_quant(l->weight)) dt__fq_unwrap(l->weight);
    dt__underive(l->module);
    dt__unhook_input(l->module);
    if (l->input.attached) dt_module_free(l->input.range);
    if (l->scale.attached) dt_module_free(l->scale.range);
    if (l->input.attached) l->input.range = NULL;
    if (l->scale.attached) l->scale.range = NULL;
}

static dt_status act(dt__plan *p)
{
    dt_status s = DT_OK;
    for (int64_t i = 0; i < p->n && s == DT_OK; i++) s = make_hook(p, &p->line[i]);
    for (int64_t i = 0; i < p->n && s == DT_OK; i++) s = make_scale(p, &p->line[i]);
    for (int64_t i = 0; i < p->n && s == DT_OK; i++) s = change(p, &p->line[i]);
    if (s == DT_OK && p->device != NULL)
        s = dt__device_check_joined(p->device, dt__plan_device_spec, p);
    if (s == DT_OK && p->device != NULL) s = dt__device_ranges(p->device, dt__plan_device_spec, p);
    if (s == DT_OK && p->device != NULL) {
        dt__device_plan_norms(p->device);
        s = dt__device_probe(p->device, false);
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

dt_status dt_prepare(dt_module *m, const dt_qat_options *options)
{
    DT__NEED(dt_module_ctx(m), m);
    const dt_qat_options defaults = dt_qat_defaults();
    dt__plan p = { .ctx = dt_module_ctx(m),
                   .m = m,
                   .options = options != NULL ? options : &defaults };
    dt_status s = dt__plan_make(m, &p);
    if (s == DT_OK) s = dt__plan_check(&p);
    if (s == DT_OK) s = act(&p);
    dt__plan_free(&p);
    return s;
}

dt_status dt_qat_unmatched_rule(dt_module *m, const dt_qat_options *options, int64_t *rule)
{
    DT__NEED2(dt_module_ctx(m), m, rule);
    const dt_qat_options defaults = dt_qat_defaults();
    dt__plan p = { .ctx = dt_module_ctx(m),
                   .m = m,
                   .options = options != NULL ? options : &defaults };
    const dt_status s = dt__plan_make(m, &p);
    if (s == DT_OK)
        (void)dt__plan_record_device(
            &p); /* a refusal of the model is an error of dt_prepare alone */
    *rule = s == DT_OK ? dt__plan_unmatched(&p) : -1;
    dt__plan_free(&p);
    return s;
}

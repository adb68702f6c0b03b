/* Checks of the plan of dt_prepare: specs against weights and inputs, tied weights, and which
 * layers derive their quantized weight. */
#include "nn/convolution/conv_layers.h"
#include "nn/fold.h"
#include "nn/module.h"
#include "qat/derived_quant.h"
#include "qat/prepare_plan.h"
#include "qat/schemes/scheme.h"

#include <stdio.h>

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
static dt_status blame(dt__plan *p, const dt__plan_line *l, dt_status s)
{
    if (s == DT_OK) return s;
    char text[DT__MESSAGE_SIZE];
    snprintf(text, sizeof text, "%s", dt_error(p->ctx));
    return dt_fail(p->ctx, s, "prepare: %s: %s", l->path, text);
}

static dt_status check_weight(dt__plan *p, dt__plan_line *l)
{
    dt__panel_layout layout;
    DT__TRY(dt__quant_check(p->ctx, &l->weight_quant, DT__QUANT_MODEL));
    DT__TRY(dt__weight_map(l->module, l->weight, &l->map));
    const dt__weight_shape shape = dt__weight_shape_of(l->weight, &l->map);
    return dt__weight_layout(p->ctx, &l->weight_quant, &shape, &layout);
}

/* Checks the block sizes of an input and its weight: products multiply blocks of an input by the
 * same groups of the weight. Where the codes of either are floats, products read values and any
 * sizes do. */
static dt_status check_blocks(dt__plan *p, const dt__plan_line *l)
{
    const dt_quant_spec *x = &l->input_quant, *w = &l->weight_quant;
    if (!l->quantize_input || !l->quantize_weight || x->granularity != DT_PER_GROUP) return DT_OK;
    if (dt__real_of(x) != NULL || dt__real_of(w) != NULL) return DT_OK;
    const int64_t columns = dt__input_channels(l->module, l->weight);
    if (w->granularity == DT_PER_GROUP && w->group_size == x->group_size &&
        !dt__scheme_of(w->scheme)->has_zero && dt__min_i64(x->group_size, columns) <= DT__PIECE) {
        return DT_OK;
    }
    return dt_fail(p->ctx, DT_ERR_CONFIG,
                   "activations in groups of %lld require a weight in groups of as many, at most "
                   "%lld, without zero points",
                   (long long)x->group_size, (long long)DT__PIECE);
}

static dt_status check_line(dt__plan *p, dt__plan_line *l)
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

/* Checks two lines with a tied weight: they need the same spec, and `skip` for both or none. */
static dt_status check_tie(dt__plan *p, const dt__plan_line *a, const dt__plan_line *b)
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

#define FOLDED_BITS 6 /* the fewest bits of a folded weight with one scale */

/* Whether a folded weight by this spec keeps enough levels. One scale for all channels suits the
 * weight itself, but not the folded one: the norm makes its channels differ in size, and with few
 * bits the small ones are rounded to 0. Training normalizes them by the batch's statistics;
 * evaluation does not. Integer networks always fold, since they have no norms. */
static bool has_levels(const dt__plan *p, const dt_quant_spec *q)
{
    return q->granularity != DT_PER_TENSOR || q->bits >= FOLDED_BITS || p->device != NULL;
}

/* Whether the layer's norm is folded: no other layer may share the weight or the norm. Behind a
 * linear layer only presets for devices fold: elsewhere its input may have more dimensions, of
 * which the norm treats another one as channels. */
static bool folds(const dt__plan *p, const dt__plan_line *l)
{
    bool alone = p->options->fold_norm && dt__can_fold(l->module, p->device != NULL) &&
                 has_levels(p, &l->weight_quant);
    for (int64_t i = 0; i < p->n && alone; i++) {
        const dt__plan_line *other = &p->line[i];
        alone =
            other == l || (other->weight != l->weight && other->module->norm != l->module->norm);
    }
    return alone;
}

static void decide_derived(const dt__plan *p, dt__plan_line *l)
{
    l->derived = l->selected && l->quantize_weight && (dt__has_lora(l->module) || folds(p, l));
}

dt_status dt__plan_check(dt__plan *p)
{
    DT__TRY(dt__plan_record_device(p));
    const int64_t unmatched = dt__plan_unmatched(p);
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
        if (p->device != NULL) DT__TRY(dt__plan_check_device(p, &p->line[i]));
    }
    if (!some && p->device == NULL)
        return dt_fail(p->ctx, DT_ERR_CONFIG, "prepare: no weight is left to quantize");
    return DT_OK;
}

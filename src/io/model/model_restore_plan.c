/* The plan of a restore: the tensors of the tree, and what the file's metadata say of each tensor
 * and module. Changes nothing but the plan. */
#include "autograd/write.h"
#include "io/model/model_restore.h"

#include <stdio.h>
#include <string.h>

static dt_status check_writable(const dt__load *l, const char *path, dt_tensor *x)
{
    char why[DT__WHY_SIZE];
    const dt__write_bar bar = dt__may_write(x, NULL, why);
    if (l->r->quantized && dt_is_fake_quant(x)) {
        return dt_fail(l->ctx, DT_ERR_STATE,
                       "load: '%s' is prepared; the file says how, so give the plain model", path);
    }
    return bar == DT__WRITABLE ? DT_OK : dt_fail(l->ctx, DT_ERR_STATE, "load: '%s' %s", path, why);
}

static dt_status add_items(dt__load_plan *p)
{
    const dt__load *l = p->load;
    DT__EACH_ENTRY(m, e, l->r->m) {
        const char *path = dt__path_within(l->r->m, e->path);
        if (!dt__entry_is_first(l->r->m, e)) continue;
        if (l->beside && dt_file_find(l->file, path) == NULL) continue;
        DT__TRY(check_writable(l, path, e->x));
        DT__TRY(DT__RESERVE(l->ctx, p->item, p->n_items, p->room_items));
        p->item[p->n_items++] =
            (dt__load_item){ .x = e->x, .path = path, .trained = e->x->requires_grad };
    }
    return DT_OK;
}

dt__load_item *dt__load_item_of(const dt__load_plan *p, const dt_tensor *x)
{
    int64_t i = 0;
    while (p->item[i].x != x) i++;
    return &p->item[i];
}

static bool same_weight(const dt__module_quant *a, const dt__module_quant *b)
{
    return dt__same_quant(&a->weight.scheme, &b->weight.scheme) && a->simulated == b->simulated &&
           a->weight.state == b->weight.state &&
           a->weight.transposed_groups == b->weight.transposed_groups &&
           a->weight.experts == b->weight.experts && a->weight.g_idx == b->weight.g_idx;
}

static dt_status match_derived(dt__load_plan *p, const dt__module_quant *q, dt_module *m)
{
    const dt__load *l = p->load;
    if (q->weight.state == DT__PACKED)
        return dt__load_refuse(l, q->path, "it is packed, with an adapter");
    if (!dt__has_lora(m) && !dt__can_fold(m, true))
        return dt__load_refuse(l, q->path, "the model has no norm to fold into it");
    p->derived[p->n_derived++] = (dt__load_derived){ .m = m, .quant = q };
    return DT_OK;
}

static dt_status match_weight(dt__load_plan *p, const dt__module_quant *q, dt_module *m)
{
    const dt__load *l = p->load;
    const dt__entry *expert = dt__entry_find(m, "weight");
    if (expert == NULL) return dt__load_refuse(l, q->path, "it has no weight");
    const dt_tensor *x = expert->x;
    const dt_ints *shape = &q->weight.shape;
    bool same = shape->n == x->rank && x->dtype == DT_F32;
    for (int i = 0; same && i < shape->n; i++) same = shape->v[i] == x->dims[i];
    if (!same) return dt__load_refuse(l, q->path, "its shape is not that of the model's weight");
    dt__row_map map;
    if (dt__weight_map(m, x, &map) != DT_OK || map.groups != q->weight.transposed_groups) {
        return dt__load_refuse(l, q->path,
                               "its transposed_groups are not those of the model's weight");
    }
    if (map.experts != q->weight.experts) {
        return dt__load_refuse(l, q->path, "its experts are not those of the model's weight");
    }
    dt__load_item *to = dt__load_item_of(p, x);
    const bool folds = q->weight.has_norm && q->weight.norm != DT__NORM_REMOVED;
    if (folds || (dt__has_lora(m) && !m->lora.beside)) return match_derived(p, q, m);
    if (to->quant != NULL && !same_weight(to->quant, q)) {
        return dt__load_refuse(l, q->path, "its weight is tied to one with other settings");
    }
    if (to->quant == NULL && q->weight.has_g_idx && q->weight.g_idx != dt__op_groups(m)) {
        return dt__load_refuse(l, q->path,
                               "its g_idx is not of as many groups as the model's op has");
    }
    if (to->quant == NULL) to->quant = q;
    if (!q->weight.has_range || q->weight.state == DT__PACKED) return DT_OK;
    const char *name;
    const dt_module *first = dt__holder(l->r->m, to->path, &name);
    to->range = dt__quantizer_of(dt__quantizer_at(first, "weight"));
    return to->range != NULL ? DT_OK
                             : dt__load_refuse(l, q->path, "the scale of its weight is not there");
}

static dt_status make_hook(dt__load_plan *p, const dt__module_quant *q, dt_module *m)
{
    const dt__load *l = p->load;
    if (dt__check_input_quant(m, &q->input.scheme) != DT_OK) {
        char text[DT__MESSAGE_SIZE / 2];
        snprintf(text, sizeof text, "%s", dt_error(l->ctx));
        return dt__load_refuse(l, q->path, text);
    }
    dt__input_hook *hook = dt__alloc(l->ctx, sizeof *hook);
    if (hook == NULL) return DT_ERR_NOMEM;
    *hook = (dt__input_hook){ .quant = q->input.scheme,
                              .enabled = q->input.enabled,
                              .simulated = q->simulated,
                              .range = dt__quantizer_of(dt__quantizer_at(m, "input")),
                              .frozen = q->input.range_state == DT__FROZEN };
    p->hook[p->n_hooks++] = (dt__load_hook){ .m = m, .hook = hook };
    return DT_OK;
}

static dt_status match_module(dt__load_plan *p, const dt__module_quant *q)
{
    const dt__load *l = p->load;
    dt_module *m = dt_module_at(l->r->m, q->path);
    if (q->has_weight) DT__TRY(match_weight(p, q, m));
    return q->has_input ? make_hook(p, q, m) : DT_OK;
}

static dt_status match_ties(const dt__load *l)
{
    for (int64_t i = 0; i < l->meta.n_ties; i++) {
        const dt__tie *t = &l->meta.tie[i];
        const dt_tensor *x = dt_param(l->r->m, t->path);
        const char *first = x == NULL ? NULL : dt_param_path(l->r->m, x);
        if (first != NULL && strcmp(first, t->first) == 0 && strcmp(first, t->path) != 0) {
            continue;
        }
        char path[DT__SHOWN], to[DT__SHOWN];
        return dt_fail(l->ctx, DT_ERR_FORMAT,
                       "%s: " DT__KEY_TIED ": the model does not tie '%s' to '%s'", l->file->path,
                       dt__shown(t->path, path), dt__shown(t->first, to));
    }
    return DT_OK;
}

/* For a folder of another program, which has no float model: values are the dequantized codes. */
static dt_status match_values(dt__load_plan *p, const dt__module_quant *q)
{
    const dt__load *l = p->load;
    dt_module *m = dt_module_at(l->r->m, q->path);
    const dt__entry *weight = m == NULL ? NULL : dt__entry_find(m, "weight");
    if (weight == NULL) return dt__load_refuse(l, q->path, "the model has no such weight");
    dt__load_item_of(p, weight->x)->quant = q;
    return DT_OK;
}

static dt_status match_modules(dt__load_plan *p)
{
    const dt__load *l = p->load;
    const dt__model_meta *meta = &l->meta;
    for (int64_t i = 0; i < meta->n_quants && !l->r->quantized; i++) {
        if (!meta->quant[i].has_weight || meta->quant[i].weight.state != DT__PACKED) continue;
        if (l->file->part != NULL) {
            DT__TRY(match_values(p, &meta->quant[i]));
            continue;
        }
        return dt_fail(l->ctx, DT_ERR_FORMAT,
                       "%s: a converted model: its weights are integers. Give a checkpoint from "
                       "before the conversion, or train adapters beside them (model.pack: true)",
                       l->file->path);
    }
    if (!l->r->quantized) return DT_OK;
    DT__TRY(match_ties(l));
    p->hook = dt__alloc_array(l->ctx, meta->n_quants, sizeof *p->hook);
    p->derived = dt__alloc_array(l->ctx, meta->n_quants, sizeof *p->derived);
    if (p->hook == NULL || p->derived == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < meta->n_quants; i++) DT__TRY(match_module(p, &meta->quant[i]));
    return DT_OK;
}

dt_status dt__load_plan_make(const dt__load *l, dt__load_plan *p)
{
    *p = (dt__load_plan){ .load = l };
    DT__TRY(add_items(p));
    return match_modules(p);
}

void dt__load_plan_free(dt__load_plan *p)
{
    if (p->load == NULL) return;
    dt_ctx *ctx = p->load->ctx;
    for (int64_t i = 0; i < p->n_items; i++) {
        dt_tensor_free(p->item[i].value);
        if (p->item[i].packed != NULL) dt__codes_release(p->item[i].packed->codes);
        dt__release(ctx, p->item[i].packed);
    }
    for (int64_t i = 0; i < p->n_hooks; i++) {
        if (!p->hook[i].added) dt__release(ctx, p->hook[i].hook);
    }
    DT__RELEASE(ctx, p->item, p->hook, p->derived);
}

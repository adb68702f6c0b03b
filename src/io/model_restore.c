/* Makes a module what a file says. Everything is read and checked first, then all that may fail is
 * made (wrappers, hooks), then values and codes go in, which cannot fail: the module is the new one
 * or untouched. */
#include "io/code_rows.h"
#include "io/differences.h"
#include "io/per_expert.h"
#include "io/model.h"
#include "nn/module.h"
#include "qat/derived.h"
#include "qat/lora.h"

#include <stdio.h>
#include <string.h>

/* A parameter or buffer, once, under its first path. */
typedef struct item {
    dt_tensor *x;
    const char *path;              /* lent by the module */
    const dt__module_quant *quant; /* of a weight; NULL: plain */
    const dt__quantizer *range;    /* of a weight whose range stands */
    dt_tensor *value;              /* what goes in: a dense tensor, */
    dt__packed *packed;            /* or codes */
    bool trained;                  /* it required a gradient before */
} item;

typedef struct hooked {
    dt_module *m;
    dt__input_hook *hook;
    bool added; /* the module owns it */
} hooked;

/* A layer whose weight is derived: its norm is folded in, or was; or it has an adapter. */
typedef struct folding {
    dt_module *m;
    const dt__module_quant *quant;
    dt__removed_norm norm; /* of a converted layer: what it was */
    bool added;            /* derived: by this load; converted: a bias, that it had not */
} folding;

typedef struct work {
    dt_ctx *ctx;
    const dt__restoring *r;
    const dt_file *file; /* as the model has it */
    dt__model_meta meta;
    item *item;
    hooked *hook;
    dt_module **range;   /* quantizers that this load made, in the tree */
    dt_module **adapted; /* layers that this load gave an adapter */
    folding *fold, *gone;
    bool *used; /* entries of the file that belong to the model */
    int64_t n_items, room_items, n_hooks, n_ranges, n_folds, n_gone, n_adapted;
    dt__differences wrong;
} work;

static dt_status refuse(const work *w, const char *path, const char *rule)
{
    char shown[DT__SHOWN];
    return dt_fail(w->ctx, DT_ERR_FORMAT, "%s: " DT__KEY_QUANT ": module '%s': %s", w->file->path,
                   dt__shown(path, shown), rule);
}

/* ---- adapters -------------------------------------------------------------------------------- */

static dt_status refuse_lora(const work *w, const char *path, const char *rule)
{
    char shown[DT__SHOWN];
    return dt_fail(w->ctx, DT_ERR_FORMAT, "%s: " DT__KEY_LORA ": module '%s': %s", w->file->path,
                   dt__shown(path, shown), rule);
}

static dt_status add_adapter(work *w, const dt__module_lora *l)
{
    dt_module *m = dt_module_at(w->r->m, l->path);
    if (m == NULL) return refuse_lora(w, l->path, "the model has no such module");
    if (!dt__can_lora(m)) return refuse_lora(w, l->path, "it is no linear layer");
    if (dt__has_lora(m)) {
        if (m->lora.rank == l->lora.rank && m->lora.alpha == l->lora.alpha) return DT_OK;
        return refuse_lora(w, l->path, "its adapter has another rank or alpha");
    }
    const dt_tensor *weight = dt__entry_find(m, "weight")->x;
    if (l->lora.rank > dt__min_i64(weight->dims[0], weight->dims[1])) {
        return refuse_lora(w, l->path, "its rank is above the shorter side of the weight");
    }
    DT__TRY(dt__lora_attach(m, &l->lora));
    w->adapted[w->n_adapted++] = m;
    return DT_OK;
}

/* Adapters become part of the tree before its tensors are listed. They are drawn only to be
 * overwritten: streams stay as they were. */
static dt_status add_adapters(work *w)
{
    const dt__model_meta *meta = &w->meta;
    dt__stream before[DT__PURPOSES];
    dt_status s = DT_OK;
    if (meta->n_loras == 0) return DT_OK;
    if (!w->r->quantized) {
        if (dt_has_lora(w->r->m)) return DT_OK;
        return dt_fail(w->ctx, DT_ERR_FORMAT,
                       "%s: a model with adapters (" DT__KEY_LORA
                       "); one that was merged is wanted",
                       w->file->path);
    }
    w->adapted = dt__alloc_array(w->ctx, meta->n_loras, sizeof(dt_module *));
    if (w->adapted == NULL) return DT_ERR_NOMEM;
    memcpy(before, w->ctx->stream, sizeof before);
    for (int64_t i = 0; i < meta->n_loras && s == DT_OK; i++) s = add_adapter(w, &meta->lora[i]);
    memcpy(w->ctx->stream, before, sizeof before);
    return s;
}

/* What the file's adapters were trained with, or nothing has happened. */
static void settle_adapters(work *w, bool done)
{
    for (int64_t i = 0; i < w->n_items && !done && w->meta.n_loras > 0; i++) {
        if (!w->item[i].x->requires_grad) dt_set_requires_grad(w->item[i].x, w->item[i].trained);
    }
    for (int64_t i = 0; i < w->n_adapted && !done; i++) dt__lora_remove(w->adapted[i]);
}

/* ---- the model's side ----------------------------------------------------------------------- */

static dt_status check_writable(const work *w, const char *path, dt_tensor *x)
{
    const dt__kind *kind = dt__kind_of(x);
    dt_tensor *inner = kind->inner == NULL ? NULL : kind->inner(x);
    const char *why = NULL;
    if (inner == NULL) {
        why = "is converted, so nothing can be loaded into it";
    } else if (w->r->quantized && x->kind != NULL) {
        why = "is prepared; the file says how, so the plain model is wanted";
    } else if (inner->storage->frozen) {
        why = "belongs to a frozen model";
    } else if (atomic_load(&inner->storage->needed) > 0) {
        why = "is still needed by a recorded forward pass";
    }
    return why == NULL ? DT_OK : dt_fail(w->ctx, DT_ERR_STATE, "load: '%s' %s", path, why);
}

static dt_status add_item(void *user, const char *path, dt_tensor *x, dt_entry_kind kind)
{
    work *w = user;
    (void)kind;
    if (dt_param_path(w->r->m, x) != path) return DT_OK;
    DT__TRY(check_writable(w, path, x));
    DT__TRY(DT__RESERVE(w->ctx, w->item, w->n_items, w->room_items));
    w->item[w->n_items++] = (item){ .x = x, .path = path, .trained = x->requires_grad };
    return DT_OK;
}

static item *item_of(const work *w, const dt_tensor *x)
{
    int64_t i = 0;
    while (w->item[i].x != x) i++;
    return &w->item[i];
}

/* ---- quantized modules ---------------------------------------------------------------------- */

static bool same_weight(const dt__module_quant *a, const dt__module_quant *b)
{
    return dt__same_quant(&a->weight.scheme, &b->weight.scheme) && a->simulated == b->simulated &&
           a->weight.state == b->weight.state &&
           a->weight.transposed_groups == b->weight.transposed_groups &&
           a->weight.experts == b->weight.experts && a->weight.g_idx == b->weight.g_idx;
}

static dt_status match_derived(work *w, const dt__module_quant *q, dt_module *m)
{
    if (q->weight.state == DT__PACKED) return refuse(w, q->path, "it is packed, with an adapter");
    if (!dt__has_lora(m) && !dt__can_fold(m))
        return refuse(w, q->path, "the model has no norm to fold into it");
    w->fold[w->n_folds++] = (folding){ .m = m, .quant = q };
    return DT_OK;
}

static dt_status match_weight(work *w, const dt__module_quant *q, dt_module *m)
{
    const dt__entry *expert = dt__entry_find(m, "weight");
    if (expert == NULL) return refuse(w, q->path, "it has no weight");
    const dt_tensor *x = expert->x;
    const dt_ints *shape = &q->weight.shape;
    bool same = shape->n == x->rank && x->dtype == DT_F32;
    for (int i = 0; same && i < shape->n; i++) same = shape->v[i] == x->dims[i];
    if (!same) return refuse(w, q->path, "its shape is not that of the model's weight");
    dt__row_map map;
    if (dt__weight_map(m, x, &map) != DT_OK || map.groups != q->weight.transposed_groups) {
        return refuse(w, q->path, "its transposed_groups are not those of the model's weight");
    }
    if (map.experts != q->weight.experts) {
        return refuse(w, q->path, "its experts are not those of the model's weight");
    }
    item *to = item_of(w, x);
    const bool folds = q->weight.has_norm && q->weight.norm != DT__NORM_REMOVED;
    if (folds || dt__has_lora(m)) return match_derived(w, q, m);
    if (to->quant != NULL && !same_weight(to->quant, q)) {
        return refuse(w, q->path, "its weight is tied to one with other settings");
    }
    if (to->quant == NULL && q->weight.has_g_idx && q->weight.g_idx != dt__op_groups(m)) {
        return refuse(w, q->path, "its g_idx is not of as many groups as the model's op has");
    }
    if (to->quant == NULL) to->quant = q;
    if (!q->weight.has_range || q->weight.state == DT__PACKED) return DT_OK;
    const char *name;
    const dt_module *first = dt__holder(w->r->m, to->path, &name);
    to->range = dt__quantizer_of(dt__quantizer_at(first, "weight"));
    return to->range != NULL ? DT_OK : refuse(w, q->path, "the scale of its weight is not there");
}

/* The module, if the file may quantize it so. */
static dt_status find_module(work *w, const dt__module_quant *q, dt_module **out)
{
    dt_module *m = *out = dt_module_at(w->r->m, q->path);
    if (m == NULL) return refuse(w, q->path, "the model has no such module");
    const dt_quantizable how = dt_module_type_of(m)->quantizable;
    if (how == DT_NOT_QUANTIZED || (how == DT_QUANTIZED_WEIGHT_ONLY && q->has_input)) {
        return refuse(w, q->path, "nothing of it that can be quantized");
    }
    if (dt__input_hook_of(m) == NULL) return DT_OK;
    return dt_fail(w->ctx, DT_ERR_STATE, "load: module '%s' is prepared; the plain model is wanted",
                   q->path);
}

/* A file that says how many values it holds of an observer must hold them. */
static dt_status check_values(work *w, const dt__module_quant *q)
{
    const dt_quant_spec *s = &q->input.scheme;
    if (s->range != DT_RANGE_STATIC || s->observer != DT_OBSERVER_PERCENTILE ||
        q->input.range_state == DT__FIXED) {
        return DT_OK;
    }
    const dt_file_entry *e;
    DT__TRY(dt__file_part(w->file, q->path, ".input.values", &e));
    if (e != NULL && e->rank == 1 && e->dims[0] == s->samples) return DT_OK;
    return refuse(w, q->path, "the values of its observer are not there, or not so many");
}

static dt_status attach(work *w, dt_module *m, const char *name, dt_module *range)
{
    const dt_status s = dt__module_attach(m, name, range);
    if (s == DT_OK) w->range[w->n_ranges++] = range;
    else dt_module_free(range);
    return s;
}

static dt_status add_input_range(work *w, const dt__module_quant *q, dt_module *m,
                                 const dt_tensor *weight)
{
    dt_module *range;
    const dt__quantizer_size size = { .scales = 1,
                                      .channels = dt__input_channels(m, weight),
                                      .fixed = q->input.range_state == DT__FIXED };
    DT__TRY(check_values(w, q));
    DT__TRY(dt__quantizer_create(w->ctx, &q->input.scheme, &size, &range));
    return attach(w, m, "input", range);
}

/* A weight's range stands where the weight does: under its first path. */
static dt_status add_weight_range(work *w, const dt__module_quant *q, dt_module *m,
                                  const dt_tensor *weight)
{
    const dt_quant_spec *scheme = &q->weight.scheme;
    dt_module *range;
    const char *name;
    dt__row_map map;
    dt__quantizer_size size = { .scales = 1 };
    if (dt__holder(w->r->m, dt_param_path(w->r->m, weight), &name) != m) return DT_OK;
    DT__TRY(dt__weight_map(m, weight, &map));
    DT__TRY(dt__quantizer_scales(weight, &map, scheme, &size.scales));
    DT__TRY(dt__quantizer_create(w->ctx, scheme, &size, &range));
    return attach(w, m, "weight", range);
}

/* Quantizers become part of the tree before its tensors are listed, in the order in which prepare adds
 * them: norms of gradients are summed in the order of parameters. */
static dt_status add_range(work *w, const dt__module_quant *q)
{
    dt_module *m;
    DT__TRY(find_module(w, q, &m));
    const dt__entry *weight = dt__entry_find(m, "weight");
    if (weight == NULL) return refuse(w, q->path, "it has no weight");
    const bool stands = q->has_weight && q->weight.has_range && q->weight.state != DT__PACKED;
    if (stands) DT__TRY(add_weight_range(w, q, m, weight->x));
    return q->has_input && q->input.has_range ? add_input_range(w, q, m, weight->x) : DT_OK;
}

static dt_status add_ranges(work *w)
{
    const dt__model_meta *meta = &w->meta;
    if (!w->r->quantized) return DT_OK;
    w->range = dt__alloc_array(w->ctx, meta->n_quants, 2 * sizeof *w->range);
    if (w->range == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < meta->n_quants; i++) DT__TRY(add_range(w, &meta->quant[i]));
    return DT_OK;
}

/* A norm that is folded for good is no part of the tree; the bias that took it in is. */
static dt_status remove_norm(work *w, const dt__module_quant *q)
{
    dt_module *m;
    dt_tensor *bias;
    DT__TRY(find_module(w, q, &m));
    if (!dt__can_fold(m)) return refuse(w, q->path, "the model has no norm that it could hold");
    const int64_t channels = dt__entry_find(m->norm, "bias")->x->count;
    folding *f = &w->gone[w->n_gone++];
    *f = (folding){ .m = m, .quant = q };
    dt__norm_remove(m->norm, &f->norm);
    if (dt__entry_find(m, "bias") != NULL) return DT_OK;
    DT__TRY(dt__new_param(m, "bias", 1, &channels, &bias));
    f->added = true;
    return DT_OK;
}

static dt_status remove_norms(work *w)
{
    const dt__model_meta *meta = &w->meta;
    if (!w->r->quantized) return DT_OK;
    w->gone = dt__alloc_array(w->ctx, meta->n_quants, sizeof *w->gone);
    w->fold = dt__alloc_array(w->ctx, meta->n_quants, sizeof *w->fold);
    if (w->gone == NULL || w->fold == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < meta->n_quants; i++) {
        const dt__module_quant *q = &meta->quant[i];
        const bool removed = q->has_weight && q->weight.has_norm;
        if (removed && q->weight.norm == DT__NORM_REMOVED) DT__TRY(remove_norm(w, q));
    }
    return DT_OK;
}

static void settle_norms(work *w, bool done)
{
    for (int64_t i = 0; i < w->n_gone; i++) {
        const folding *f = &w->gone[i];
        if (done) dt__norm_forget(&f->norm);
        else dt__norm_put_back(&f->norm);
        if (!done && f->added) dt__module_remove(f->m, "bias");
    }
}

static dt_status make_hook(work *w, const dt__module_quant *q, dt_module *m)
{
    if (dt__check_input_quant(m, &q->input.scheme) != DT_OK) {
        char text[DT__MESSAGE_SIZE / 2];
        snprintf(text, sizeof text, "%s", dt_error(w->ctx));
        return refuse(w, q->path, text);
    }
    dt__input_hook *hook = dt__alloc(w->ctx, sizeof *hook);
    if (hook == NULL) return DT_ERR_NOMEM;
    *hook = (dt__input_hook){ .quant = q->input.scheme,
                              .enabled = q->input.enabled,
                              .simulated = q->simulated,
                              .range = dt__quantizer_of(dt__quantizer_at(m, "input")),
                              .frozen = q->input.range_state == DT__FROZEN };
    w->hook[w->n_hooks++] = (hooked){ .m = m, .hook = hook };
    return DT_OK;
}

static dt_status match_module(work *w, const dt__module_quant *q)
{
    dt_module *m = dt_module_at(w->r->m, q->path);
    if (q->has_weight) DT__TRY(match_weight(w, q, m));
    return q->has_input ? make_hook(w, q, m) : DT_OK;
}

static dt_status match_ties(const work *w)
{
    for (int64_t i = 0; i < w->meta.n_ties; i++) {
        const dt__tie *t = &w->meta.tie[i];
        const dt_tensor *x = dt_param(w->r->m, t->path);
        const char *first = x == NULL ? NULL : dt_param_path(w->r->m, x);
        if (first != NULL && strcmp(first, t->first) == 0 && strcmp(first, t->path) != 0) {
            continue;
        }
        char path[DT__SHOWN], to[DT__SHOWN];
        return dt_fail(w->ctx, DT_ERR_FORMAT,
                       "%s: " DT__KEY_TIED ": the model does not tie '%s' to '%s'", w->file->path,
                       dt__shown(t->path, path), dt__shown(t->first, to));
    }
    return DT_OK;
}

static dt_status match_modules(work *w)
{
    const dt__model_meta *meta = &w->meta;
    for (int64_t i = 0; i < meta->n_quants && !w->r->quantized; i++) {
        if (!meta->quant[i].has_weight || meta->quant[i].weight.state != DT__PACKED) continue;
        return dt_fail(w->ctx, DT_ERR_FORMAT,
                       "%s: a converted model: its weights are integers. A "
                       "checkpoint from before the conversion is wanted",
                       w->file->path);
    }
    if (!w->r->quantized) return DT_OK;
    DT__TRY(match_ties(w));
    w->hook = dt__alloc_array(w->ctx, meta->n_quants, sizeof *w->hook);
    if (w->hook == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < meta->n_quants; i++) DT__TRY(match_module(w, &meta->quant[i]));
    return DT_OK;
}

/* ---- the file's side ------------------------------------------------------------------------ */

static void use(work *w, const dt_file_entry *e)
{
    if (e != NULL) w->used[e - w->file->entry] = true;
}

static dt_status use_part(work *w, const char *name, const char *suffix)
{
    const dt_file_entry *e;
    DT__TRY(dt__file_part(w->file, name, suffix, &e));
    use(w, e);
    return DT_OK;
}

static dt_status read_packed(work *w, item *i)
{
    const dt__packed_place place = { w->file, i->path, i->quant };
    for (int k = 0; k < DT__ROW_PARTS; k++) DT__TRY(use_part(w, i->path, dt__row_suffix[k]));
    return dt__packed_read(&place, &i->packed);
}

static bool same_shape(const dt_file_entry *e, const dt_tensor *x)
{
    bool same = e->rank == x->rank;
    for (int i = 0; same && i < x->rank; i++) same = e->dims[i] == x->dims[i];
    return same;
}

static void complain_of_shape(work *w, const item *i, const dt_file_entry *e)
{
    char has[160] = "[...]", wants[160], text[352], name[DT__SHOWN];
    if (e->rank <= DT_MAX_RANK) dt__dims_text(e->rank, e->dims, has, sizeof has);
    dt__dims_text(i->x->rank, i->x->dims, wants, sizeof wants);
    snprintf(text, sizeof text, " is %s%s, not %s", e->dtype, has, wants);
    dt__names_add(&w->wrong.of[DT__MISSHAPEN], dt__name_in(w->file, i->path, name), text);
}

static dt_status read_value(work *w, item *i, const dt_file_entry *e)
{
    if (e == NULL) return DT_OK; /* perhaps under another name */
    use(w, e);
    if (!same_shape(e, i->x)) {
        complain_of_shape(w, i, e);
        return DT_OK;
    }
    const dt_status s = dt_file_load(w->file, e->name, i->x->dtype, &i->value);
    if (s != DT_ERR_DTYPE && s != DT_ERR_NUMERIC) return s;
    char text[64], name[DT__SHOWN];
    snprintf(text, sizeof text, s == DT_ERR_DTYPE ? " is %s, not %s" : " is %s beyond %s", e->dtype,
             dt_dtype_name(i->x->dtype));
    dt__names_add(&w->wrong.of[DT__MISSHAPEN], dt__name_in(w->file, i->path, name), text);
    return DT_OK;
}

/* Other programs may name a tied parameter by another of its paths, or by several. */
static dt_status use_tied(void *user, const char *path, dt_tensor *x, dt_entry_kind kind)
{
    work *w = user;
    (void)kind;
    const dt_file_entry *e = dt_file_find(w->file, path);
    item *i = item_of(w, x);
    if (e == NULL || i->path == path || i->quant != NULL) return DT_OK;
    const dt_file_entry *first = dt_file_find(w->file, i->path);
    if (first == NULL && i->value == NULL) return read_value(w, i, e);
    use(w, e);
    if (first == NULL || (strcmp(first->dtype, e->dtype) == 0 && first->bytes == e->bytes &&
                          memcmp(first->data, e->data, e->bytes) == 0)) {
        return DT_OK;
    }
    char text[DT__SHOWN + 64], shown[DT__SHOWN];
    snprintf(text, sizeof text, " differs from %s, which it is tied to", dt__shown(i->path, shown));
    dt__names_add(&w->wrong.of[DT__MISSHAPEN], path, text);
    return DT_OK;
}

static bool is_models(const char *name)
{
    return strncmp(name, DT__OWN_PREFIX, strlen(DT__OWN_PREFIX)) != 0;
}

/* Whether a name is of a range, which a load of weights alone has no use for. */
static bool is_of_range(const work *w, const char *name)
{
    for (int64_t i = 0; i < w->meta.n_quants && !w->r->quantized; i++) {
        const dt__module_quant *q = &w->meta.quant[i];
        const size_t n = strlen(q->path);
        if (strncmp(name, q->path, n) != 0) continue;
        if (q->has_input && q->input.has_range && strncmp(name + n, ".input.", 7) == 0) return true;
        if (q->has_weight && q->weight.has_range && strncmp(name + n, ".weight.", 8) == 0) {
            return true;
        }
    }
    return false;
}

static dt_status check_names(work *w)
{
    char shown[DT__SHOWN];
    const dt_file *file = w->file;
    for (int64_t i = 0; i < w->n_items; i++) {
        const item *it = &w->item[i];
        const bool there = it->value != NULL || it->packed != NULL;
        if (there || dt_file_find(file, it->path) != NULL) continue;
        dt__names_add(&w->wrong.of[DT__MISSING], dt__name_in(file, it->path, shown), "");
    }
    for (int64_t i = 0; i < file->count; i++) {
        const char *name = file->entry[i].name;
        if (w->used[i] || !is_models(name) || is_of_range(w, name)) continue;
        dt__names_add(&w->wrong.of[DT__UNEXPECTED], dt__name_in(file, name, shown), "");
    }
    return dt__differences_report(file, &w->wrong);
}

static dt_status read_values(work *w)
{
    w->used = dt__alloc_zero(w->ctx, (size_t)w->file->count);
    if (w->used == NULL) return DT_ERR_NOMEM;
    for (int64_t k = 0; k < w->n_items; k++) {
        item *i = &w->item[k];
        const bool packed = i->quant != NULL && i->quant->weight.state == DT__PACKED;
        DT__TRY(packed ? read_packed(w, i) : read_value(w, i, dt_file_find(w->file, i->path)));
    }
    DT__TRY(dt_module_visit(w->r->m, use_tied, w));
    return check_names(w);
}

/* A quantizer as it will be. */
static dt_status check_sound(const work *w, dt_module *range)
{
    dt__quantizer q = *dt__quantizer_of(range);
    dt_tensor **const expert[] = { &q.scale, &q.zero_point, &q.shift, &q.lo,
                                   &q.hi,    &q.values,     &q.count };
    for (int k = 0; k < DT__COUNT_OF(expert); k++) {
        if (*expert[k] != NULL) *expert[k] = item_of(w, *expert[k])->value;
    }
    const char *why;
    if (dt__quantizer_is_sound(&q, &why)) return DT_OK;
    return refuse(w, range->path, why);
}

/* ---- acting --------------------------------------------------------------------------------- */

static dt_status derive(work *w, folding *f)
{
    const dt__module_quant *q = f->quant;
    const dt__quantizer *range = dt__quantizer_of(dt__quantizer_at(f->m, "weight"));
    if (dt__entry_find(f->m, "weight")->x->kind != NULL) {
        return refuse(w, q->path, "its weight is tied to one with other settings");
    }
    const dt__fq fq = { .quant = q->weight.scheme,
                        .simulated = q->simulated,
                        .map = dt__described_map(q),
                        .scale = range == NULL ? NULL : range->scale,
                        .zero_point = range == NULL ? NULL : range->zero_point,
                        .count = range == NULL ? NULL : range->count };
    DT__TRY(dt__derive(f->m, &fq));
    f->added = true;
    dt__derived_quant(f->m)->enabled = q->weight.state == DT__ENABLED;
    if (q->weight.has_norm && q->weight.norm == DT__NORM_FROZEN) f->m->folding = DT__FOLDED_FROZEN;
    return DT_OK;
}

static dt_status wrap(work *w)
{
    for (int64_t k = 0; k < w->n_items; k++) {
        const item *i = &w->item[k];
        if (i->quant == NULL || i->packed != NULL) continue;
        const dt__fq fq = { .quant = i->quant->weight.scheme,
                            .simulated = i->quant->simulated,
                            .map = dt__described_map(i->quant),
                            .scale = i->range == NULL ? NULL : i->range->scale,
                            .zero_point = i->range == NULL ? NULL : i->range->zero_point,
                            .count = i->range == NULL ? NULL : i->range->count };
        DT__TRY(dt__fq_wrap(i->x, &fq));
        DT__TRY(dt_fake_quant_enable(i->x, i->quant->weight.state == DT__ENABLED));
    }
    for (int64_t k = 0; k < w->n_folds; k++) DT__TRY(derive(w, &w->fold[k]));
    for (int64_t k = 0; k < w->n_hooks; k++) {
        DT__TRY(dt__hook_input(w->hook[k].m, w->hook[k].hook));
        w->hook[k].added = true;
    }
    return w->r->then == NULL ? DT_OK : w->r->then(w->r->user, w->file);
}

static void unwrap(work *w)
{
    for (int64_t k = 0; k < w->n_items; k++) {
        const item *i = &w->item[k];
        if (i->quant != NULL && dt_is_fake_quant(i->x)) dt__fq_unwrap(i->x);
    }
    for (int64_t k = 0; k < w->n_folds; k++) {
        if (w->fold[k].added) dt__underive(w->fold[k].m);
    }
    for (int64_t k = 0; k < w->n_hooks; k++) {
        hooked *h = &w->hook[k];
        const dt__hook *of_m = h->added ? h->m->hooks : NULL;
        while (of_m != NULL && of_m->user != h->hook) of_m = of_m->next;
        if (of_m != NULL) dt_unhook(h->m, of_m->id);
    }
}

static void write_value(dt_tensor *x, const dt_tensor *from)
{
    const dt__kind *kind = dt__kind_of(x);
    dt_tensor *inner = kind->inner(x);
    inner->storage->version++;
    dt__copy_tensor(from, inner);
    if (kind->write_end != NULL) kind->write_end(x);
}

static dt_status act(work *w)
{
    const dt_status s = wrap(w);
    if (s != DT_OK) {
        unwrap(w);
        return s;
    }
    for (int64_t k = 0; k < w->n_items; k++) {
        item *i = &w->item[k];
        if (i->packed == NULL) {
            write_value(i->x, i->value);
        } else {
            dt__packed_take(i->x, i->packed);
            i->packed = NULL; /* the handle owns it */
        }
    }
    return DT_OK;
}

static dt_status restore(work *w)
{
    DT__TRY(dt__model_meta_read(w->file, &w->meta));
    DT__TRY(add_adapters(w));
    DT__TRY(add_ranges(w));
    DT__TRY(remove_norms(w));
    DT__TRY(dt_module_visit(w->r->m, add_item, w));
    DT__TRY(match_modules(w));
    DT__TRY(read_values(w));
    for (int64_t i = 0; i < w->n_ranges; i++) DT__TRY(check_sound(w, w->range[i]));
    const bool adapted = w->meta.n_loras > 0 && w->r->quantized;
    if (adapted) DT__TRY(dt__lora_set_trainable(w->r->m, w->meta.trains_rest));
    return act(w);
}

static void free_work(work *w)
{
    for (int64_t i = 0; i < w->n_items; i++) {
        dt_tensor_free(w->item[i].value);
        if (w->item[i].packed != NULL) dt__codes_release(w->item[i].packed->codes);
        dt__release(w->ctx, w->item[i].packed);
    }
    for (int64_t i = 0; i < w->n_hooks; i++) {
        if (!w->hook[i].added) dt__release(w->ctx, w->hook[i].hook);
    }
    dt__release(w->ctx, w->item);
    dt__release(w->ctx, w->hook);
    dt__release(w->ctx, w->range);
    dt__release(w->ctx, w->adapted);
    dt__release(w->ctx, w->fold);
    dt__release(w->ctx, w->gone);
    dt__release(w->ctx, w->used);
    dt__model_meta_free(&w->meta);
}

static dt_status restore_fitted(const dt__restoring *r, const dt_file *file)
{
    work w = { .ctx = r->m->ctx, .r = r, .file = file, .meta.ctx = r->m->ctx };
    const dt_status s = restore(&w);
    settle_norms(&w, s == DT_OK);
    settle_adapters(&w, s == DT_OK);
    for (int64_t i = 0; i < w.n_ranges && s != DT_OK; i++) dt_module_free(w.range[i]);
    free_work(&w);
    if (s == DT_OK && r->after != NULL) r->after(r->user);
    return s;
}

/* A folder of others is in the form of those; what is made of it is detent's. */
static int form_of(const dt__fit *fit)
{
    return fit->joined > 0 && fit->view.part == NULL ? DT_GROUPED_EXPERTS : DT_GROUPED_STACKED;
}

dt_status dt__restore(const dt__restoring *r)
{
    dt__groups groups;
    dt__fit fit;
    DT__TRY(dt__groups_of(r->m, &groups));
    dt_status s = dt__fit_open(r->file, &groups, &fit);
    if (s == DT_OK) s = restore_fitted(r, &fit.view);
    if (r->grouped != NULL) *r->grouped = form_of(&fit);
    dt__fit_free(&fit);
    dt__groups_free(&groups);
    return s;
}

/* Changes the module tree before a file's tensors are read, and undoes the changes: adapters and
 * quantizers are added, norms that the file lacks are removed. */
#include "io/model/model_restore.h"

#include <string.h>

/* ---- adapters -------------------------------------------------------------------------------- */

static dt_status refuse_lora(const dt__load *l, const char *path, const char *what)
{
    char shown[DT__SHOWN];
    return dt_fail(l->ctx, DT_ERR_FORMAT, "%s: " DT__KEY_LORA ": module '%s': %s", l->file->path,
                   dt__shown(path, shown), what);
}

/* Whether the file stores the module's weight as codes. */
static bool becomes_packed(const dt__load *l, const char *path)
{
    for (int64_t i = 0; i < l->meta.n_quants; i++) {
        const dt__module_quant *q = &l->meta.quant[i];
        if (strcmp(q->path, path) == 0) return q->has_weight && q->weight.state == DT__PACKED;
    }
    return false;
}

static dt_status add_adapter(const dt__load *l, dt__load_made *made, const dt__module_lora *of)
{
    dt_module *m = dt_module_at(l->r->m, of->path);
    if (m == NULL) return refuse_lora(l, of->path, "the model has no such module");
    if (!dt__can_lora(m)) return refuse_lora(l, of->path, "it is not a linear layer");
    if (dt__has_lora(m)) {
        if (m->lora.rank == of->lora.rank && m->lora.alpha == of->lora.alpha) return DT_OK;
        return refuse_lora(l, of->path, "its adapter has another rank or alpha");
    }
    const dt_tensor *weight = dt__entry_find(m, "weight")->x;
    if (of->lora.rank > dt__min_i64(weight->dims[0], weight->dims[1])) {
        return refuse_lora(l, of->path, "its rank is above the shorter side of the weight");
    }
    dt__lora lora = of->lora;
    lora.beside = dt_is_packed(weight) || becomes_packed(l, of->path);
    DT__TRY(dt__lora_attach(m, &lora));
    made->adapted[made->n_adapted++] = m;
    return DT_OK;
}

/* An adapter file may omit base weights, never its own lora_a and lora_b. */
static dt_status check_there(const dt__load *l, const char *path)
{
    static const char *const parts[] = { ".lora_a", ".lora_b" };
    for (int i = 0; i < 2; i++) {
        const dt_file_entry *e;
        DT__TRY(dt__file_part(l->file, path, parts[i], &e));
        if (e == NULL) return refuse_lora(l, path, "its adapter is not in the file");
    }
    return DT_OK;
}

/* Adapters are added to the tree before its tensors are listed. Their initial values are
 * overwritten, so random streams must not change. */
static dt_status add_adapters(const dt__load *l, dt__load_made *made)
{
    const dt__model_meta *meta = &l->meta;
    dt__stream before[DT__PURPOSES];
    dt_status s = DT_OK;
    if (meta->n_loras == 0) return DT_OK;
    if (!l->r->quantized) {
        if (dt_has_lora(l->r->m) && !l->beside) return DT_OK;
        return dt_fail(l->ctx, DT_ERR_FORMAT,
                       "%s: a model with adapters (" DT__KEY_LORA "); merge it first",
                       l->file->path);
    }
    made->adapted = dt__alloc_array(l->ctx, meta->n_loras, sizeof(dt_module *));
    if (made->adapted == NULL) return DT_ERR_NOMEM;
    memcpy(before, l->ctx->stream, sizeof before);
    for (int64_t i = 0; i < meta->n_loras && s == DT_OK; i++) {
        s = add_adapter(l, made, &meta->lora[i]);
        if (s == DT_OK && l->beside) s = check_there(l, meta->lora[i].path);
    }
    memcpy(l->ctx->stream, before, sizeof before);
    return s;
}

/* ---- ranges ---------------------------------------------------------------------------------- */

/* Finds the module and checks that it can be quantized as in the file. */
static dt_status find_module(const dt__load *l, const dt__module_quant *q, dt_module **out)
{
    dt_module *m = *out = dt_module_at(l->r->m, q->path);
    if (m == NULL) return dt__load_refuse(l, q->path, "the model has no such module");
    const dt_quantizable how = dt_module_type_of(m)->quantizable;
    if (how == DT_NOT_QUANTIZED || (how == DT_QUANTIZED_WEIGHT_ONLY && q->has_input)) {
        return dt__load_refuse(l, q->path, "the model has nothing there that can be quantized");
    }
    if (dt__input_hook_of(m) == NULL) return DT_OK;
    return dt_fail(l->ctx, DT_ERR_STATE, "load: module '%s' is prepared; give the plain model",
                   q->path);
}

/* The number of values of an observer must agree with the file. */
static dt_status check_values(const dt__load *l, const dt__module_quant *q)
{
    const dt_quant_spec *s = &q->input.scheme;
    if (s->range != DT_RANGE_STATIC || s->observer != DT_OBSERVER_PERCENTILE ||
        q->input.range_state == DT__FIXED) {
        return DT_OK;
    }
    const dt_file_entry *e;
    DT__TRY(dt__file_part(l->file, q->path, ".input.values", &e));
    if (e != NULL && e->rank == 1 && e->dims[0] == s->samples) return DT_OK;
    return dt__load_refuse(l, q->path, "the values of its observer are not there, or not so many");
}

static dt_status attach(dt__load_made *made, dt_module *m, const char *name, dt_module *range)
{
    const dt_status s = dt__module_attach(m, name, range);
    if (s == DT_OK) made->range[made->n_ranges++] = range;
    else dt_module_free(range);
    return s;
}

static dt_status add_input_range(const dt__load *l, dt__load_made *made, const dt__module_quant *q,
                                 dt_module *m, const dt_tensor *weight)
{
    dt_module *range;
    const dt__quantizer_size size = { .scales = 1,
                                      .channels = dt__input_channels(m, weight),
                                      .fixed = q->input.range_state == DT__FIXED };
    DT__TRY(check_values(l, q));
    DT__TRY(dt__quantizer_create(l->ctx, &q->input.scheme, &size, &range));
    return attach(made, m, "input", range);
}

/* The quantizer of a tied weight belongs to the module of the weight's first path. */
static dt_status add_weight_range(const dt__load *l, dt__load_made *made, const dt__module_quant *q,
                                  dt_module *m, const dt_tensor *weight)
{
    const dt_quant_spec *scheme = &q->weight.scheme;
    dt_module *range;
    const char *name;
    dt__row_map map;
    dt__quantizer_size size = { .scales = 1 };
    if (dt__holder(l->r->m, dt_param_path(l->r->m, weight), &name) != m) return DT_OK;
    DT__TRY(dt__weight_map(m, weight, &map));
    DT__TRY(dt__quantizer_scales(weight, &map, scheme, &size.scales));
    DT__TRY(dt__quantizer_create(l->ctx, scheme, &size, &range));
    return attach(made, m, "weight", range);
}

/* Adds quantizers to the tree before its tensors are listed, in the order of dt_prepare: gradient
 * norms are summed in the order of parameters. */
static dt_status add_range(const dt__load *l, dt__load_made *made, const dt__module_quant *q)
{
    dt_module *m;
    DT__TRY(find_module(l, q, &m));
    const dt__entry *weight = dt__entry_find(m, "weight");
    if (weight == NULL) return dt__load_refuse(l, q->path, "it has no weight");
    const bool has_range = q->has_weight && q->weight.has_range && q->weight.state != DT__PACKED;
    if (has_range) DT__TRY(add_weight_range(l, made, q, m, weight->x));
    return q->has_input && q->input.has_range ? add_input_range(l, made, q, m, weight->x) : DT_OK;
}

/* ---- integer networks ------------------------------------------------------------------------ */

static dt_status read_inputs(const dt__load *l, dt_shape in[DT_MAX_IN], int *n)
{
    const dt_ints *list = &l->meta.device.inputs;
    *n = 0;
    for (int at = 0; at < list->n;) {
        const int64_t rank = list->v[at++];
        if (rank < 0 || rank >= DT_MAX_RANK || rank > list->n - at || *n == DT_MAX_IN) {
            return dt__load_refuse(l, "", "the inputs of its plan are not shapes");
        }
        in[*n] = (dt_shape){ .rank = (int)rank };
        memcpy(in[(*n)++].dims, list->v + at, (size_t)rank * sizeof *list->v);
        at += (int)rank;
    }
    return DT_OK;
}

static dt_status spec_of_file(void *user, const char *path, const char *name, dt_quant_spec *spec,
                              bool *fixed)
{
    const dt__load *l = user;
    const size_t n = strlen(path);
    for (int64_t i = 0; i < l->meta.n_ranges; i++) {
        const dt__module_quant *q = &l->meta.range[i];
        const bool below = strncmp(q->path, path, n) == 0 && (n == 0 || q->path[n] == '.');
        if (!below || strcmp(q->path + n + (n > 0), name) != 0) continue;
        *spec = q->input.scheme;
        *fixed = q->input.range_state == DT__FIXED;
        return DT_OK;
    }
    return dt__load_refuse(l, path, "a result of it has no range in the file");
}

/* Records the plan while the tree is unchanged since its construction, and adds the ranges. */
static dt_status add_device(const dt__load *l, dt__load_made *made)
{
    dt_shape in[DT_MAX_IN];
    int n;
    if (!l->meta.device.given) return DT_OK;
    DT__TRY(read_inputs(l, in, &n));
    DT__TRY(dt__device_record(l->r->m, in, n, &made->device));
    const dt_status s = dt__device_ranges(made->device, spec_of_file, (void *)(uintptr_t)l);
    dt_module **more =
        dt__alloc_array(l->ctx, l->meta.n_quants * 2 + made->device->n, sizeof *more);
    if (s != DT_OK || more == NULL) {
        dt__release(l->ctx, more);
        dt__device_unrange(made->device);
        return s != DT_OK ? s : DT_ERR_NOMEM;
    }
    made->range = more;
    for (int64_t i = 0; i < made->device->n; i++) {
        dt_module *range = made->device->node[i].range;
        if (range != NULL) made->range[made->n_ranges++] = range;
    }
    return DT_OK;
}

static void settle_device(const dt__load *l, dt__load_made *made, bool keep)
{
    const dt__device_meta *meta = &l->meta.device;
    dt__device *d = made->device;
    if (d == NULL) return;
    if (!keep) {
        dt__device_free(l->ctx, d); /* does not free its ranges, which belong to `made` */
        return;
    }
    d->enabled = meta->enabled;
    d->frozen = meta->range_state != DT__OBSERVING;
    dt__device_install(d);
}

static dt_status add_ranges(const dt__load *l, dt__load_made *made)
{
    const dt__model_meta *meta = &l->meta;
    if (!l->r->quantized) return DT_OK;
    DT__TRY(add_device(l, made));
    if (made->range == NULL) {
        made->range = dt__alloc_array(l->ctx, meta->n_quants, 2 * sizeof *made->range);
    }
    if (made->range == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < meta->n_quants; i++) DT__TRY(add_range(l, made, &meta->quant[i]));
    return DT_OK;
}

/* ---- norms ----------------------------------------------------------------------------------- */

/* Removes the norm from the tree, and adds the bias that contains its shift. */
static dt_status remove_norm(const dt__load *l, dt__load_made *made, const dt__module_quant *q)
{
    dt_module *m;
    dt_tensor *bias;
    DT__TRY(find_module(l, q, &m));
    if (!dt__can_fold(m, true))
        return dt__load_refuse(l, q->path, "the model has no norm that it could hold");
    const int64_t channels = dt__entry_find(m->norm, "bias")->x->count;
    dt__load_norm *n = &made->norm[made->n_norms++];
    *n = (dt__load_norm){ .m = m };
    dt__norm_remove(m->norm, &n->norm);
    if (dt__entry_find(m, "bias") != NULL) return DT_OK;
    DT__TRY(dt__new_param(m, "bias", 1, &channels, &bias));
    n->added_bias = true;
    return DT_OK;
}

static dt_status remove_norms(const dt__load *l, dt__load_made *made)
{
    const dt__model_meta *meta = &l->meta;
    if (!l->r->quantized) return DT_OK;
    made->norm = dt__alloc_array(l->ctx, meta->n_quants, sizeof *made->norm);
    if (made->norm == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < meta->n_quants; i++) {
        const dt__module_quant *q = &meta->quant[i];
        const bool removed = q->has_weight && q->weight.has_norm;
        if (removed && q->weight.norm == DT__NORM_REMOVED) DT__TRY(remove_norm(l, made, q));
    }
    return DT_OK;
}

static void settle_norms(dt__load_made *made, bool keep)
{
    for (int64_t i = 0; i < made->n_norms; i++) {
        const dt__load_norm *n = &made->norm[i];
        if (keep) dt__norm_forget(&n->norm);
        else dt__norm_put_back(&n->norm);
        if (!keep && n->added_bias) dt__module_remove(n->m, "bias");
    }
}

/* ---- all of them ----------------------------------------------------------------------------- */

dt_status dt__load_make(const dt__load *l, dt__load_made *made)
{
    DT__TRY(add_adapters(l, made));
    DT__TRY(add_ranges(l, made));
    return remove_norms(l, made);
}

void dt__load_made_end(const dt__load *l, dt__load_made *made, bool keep)
{
    settle_norms(made, keep);
    settle_device(l, made, keep);
    for (int64_t i = 0; i < made->n_adapted && !keep; i++) dt__lora_remove(made->adapted[i]);
    for (int64_t i = 0; i < made->n_ranges && !keep; i++) dt_module_free(made->range[i]);
    DT__RELEASE(l->ctx, made->norm, made->adapted, made->range);
}

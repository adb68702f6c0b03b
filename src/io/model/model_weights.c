/* Lists the quantized weights of a file. */
#include "io/model/model.h"
#include "io/safetensors/tensors_meta.h"

#include <stdio.h>
#include <string.h>

struct dt_file_weights {
    dt_ctx *ctx;
    dt_file_weight *at;
    int64_t n;
};

static dt_status count_bytes(const dt_file *file, dt_file_weight *w)
{
    const dt_file_entry *e;
    for (int i = 0; i < DT__ROW_PARTS && w->packed; i++) {
        DT__TRY(dt__file_part(file, w->name, dt__row_suffix[i], &e));
        if (e != NULL) w->bytes += e->bytes;
    }
    if (w->packed) return DT_OK;
    DT__TRY(dt__file_part(file, w->name, "", &e));
    if (e != NULL) w->bytes = e->bytes;
    return DT_OK;
}

/* Cannot overflow: the metadata check covers the product of extents. */
static dt_status describe(const dt_file *file, const dt__module_quant *q, dt_file_weight *w)
{
    const dt_ints *shape = &q->weight.shape;
    w->packed = q->weight.state == DT__PACKED;
    w->enabled = q->weight.state != DT__DISABLED;
    w->g_idx = q->weight.has_g_idx;
    w->experts = q->weight.experts;
    w->quant = q->weight.scheme;
    dt__quant_text(&w->quant, w->scheme, sizeof w->scheme);
    w->rank = shape->n;
    memcpy(w->dims, shape->v, (size_t)shape->n * sizeof w->dims[0]);
    dt__product(w->rank, w->dims, &w->count);
    return count_bytes(file, w);
}

static dt_status add(dt_file_weights *list, const dt_file *file, const dt__model_meta *meta,
                     const dt__module_quant *q)
{
    char *name = dt__weight_name(list->ctx, q->path);
    if (name == NULL) return DT_ERR_NOMEM;
    if (dt__first_name(meta, name) != name) { /* tied: listed under its first path */
        dt__release(list->ctx, name);
        return DT_OK;
    }
    dt_file_weight *w = &list->at[list->n++];
    *w = (dt_file_weight){ .name = name };
    return describe(file, q, w);
}

/* Adds a weight of a file without a model. */
static dt_status add_tensor(dt_file_weights *list, const dt_file *file, const dt__tensor_weight *t)
{
    char *name = dt__copy_string(list->ctx, t->name);
    if (name == NULL) return DT_ERR_NOMEM;
    dt_file_weight *w = &list->at[list->n++];
    *w = (dt_file_weight){ .name = name, .packed = true, .enabled = true, .quant = t->scheme };
    w->g_idx = t->ordered;
    dt__quant_text(&w->quant, w->scheme, sizeof w->scheme);
    snprintf(w->rounder, sizeof w->rounder, "%s", t->rounder);
    w->rank = t->shape.n;
    memcpy(w->dims, t->shape.v, (size_t)t->shape.n * sizeof w->dims[0]);
    dt__product(w->rank, w->dims, &w->count);
    return count_bytes(file, w);
}

static dt_status fill(dt_file_weights *list, const dt_file *file, const dt__model_meta *meta,
                      const dt__tensors *tensors)
{
    list->at = dt__alloc_array(list->ctx, meta->n_quants + tensors->n, sizeof *list->at);
    dt_status s = list->at == NULL ? DT_ERR_NOMEM : DT_OK;
    for (int64_t i = 0; i < meta->n_quants && s == DT_OK; i++) {
        if (meta->quant[i].has_weight) s = add(list, file, meta, &meta->quant[i]);
    }
    for (int64_t i = 0; i < tensors->n && s == DT_OK; i++) {
        s = add_tensor(list, file, &tensors->at[i]);
    }
    return s;
}

/* Fills the list for grouped weights in either form. */
static dt_status fill_fitted(dt_file_weights *list, const dt_file *file, const dt__model_meta *meta,
                             const dt__tensors *tensors)
{
    dt__groups groups;
    dt__fit fit;
    DT__TRY(dt__groups_of_meta(meta, &groups));
    dt_status s = dt__fit_open(file, &groups, &fit);
    if (s == DT_OK) s = fill(list, &fit.view, meta, tensors);
    dt__fit_free(&fit);
    dt__groups_free(&groups);
    return s;
}

static dt_status read(dt_file_weights *list, const dt_file *file)
{
    dt__model_meta meta;
    dt__tensors tensors;
    DT__TRY(dt__model_meta_read(file, &meta));
    dt_status s = dt__tensors_read(file, &tensors);
    if (s == DT_OK) {
        s = fill_fitted(list, file, &meta, &tensors);
        dt__tensors_free(&tensors);
    }
    dt__model_meta_free(&meta);
    return s;
}

dt_status dt_file_weights_read(const dt_file *file, dt_file_weights **out)
{
    DT__NEED2(NULL, file, out);
    *out = NULL;
    dt_file_weights *list = dt__alloc_zero(file->ctx, sizeof *list);
    if (list == NULL) return DT_ERR_NOMEM;
    list->ctx = file->ctx;
    dt__ctx_retain(list->ctx);
    const dt_status s = read(list, file);
    if (s != DT_OK) {
        dt_file_weights_free(list);
        return s;
    }
    *out = list;
    return DT_OK;
}

bool dt__is_batch_count(const dt_file_entry *e)
{
    static const char end[] = "num_batches_tracked";
    const size_t n = strlen(e->name), tail = sizeof end - 1;
    return n >= tail && strcmp(e->name + n - tail, end) == 0 &&
           (n == tail || e->name[n - tail - 1] == '.') && e->count == 1;
}

void dt_file_weights_free(dt_file_weights *w)
{
    if (w == NULL) return;
    dt_ctx *ctx = w->ctx;
    for (int64_t i = 0; i < w->n; i++) dt__release(ctx, (void *)(uintptr_t)w->at[i].name);
    DT__RELEASE(ctx, w->at, w);
    dt__ctx_release(ctx);
}

int64_t dt_file_weights_count(const dt_file_weights *w) { return w == NULL ? 0 : w->n; }

const dt_file_weight *dt_file_weights_at(const dt_file_weights *w, int64_t i)
{
    if (w == NULL) return NULL;
    return i >= 0 && i < w->n ? &w->at[i] : NULL;
}

/* The quantized weights of a file as a list, for people and programs that look at it. */
#include "io/model.h"

#include <string.h>

struct dt_file_weights {
    dt_ctx *ctx;
    dt_file_weight *at;
    int64_t n;
};

static dt_status count_bytes(const dt_file *file, dt_file_weight *w)
{
    static const char *const parts[] = { "", ".codes", ".scale", ".zero_point" };
    for (int i = w->packed ? 1 : 0; i < (w->packed ? DT__COUNT_OF(parts) : 1); i++) {
        const dt_file_entry *e;
        DT__TRY(dt__file_part(file, w->name, parts[i], &e));
        if (e != NULL) w->bytes += e->bytes;
    }
    return DT_OK;
}

/* The product of extents was checked with the metadata. */
static dt_status describe(const dt_file *file, const dt__module_quant *q, dt_file_weight *w)
{
    const dt_ints *shape = &q->weight.shape;
    w->packed = q->weight.state == DT__PACKED;
    w->enabled = q->weight.state != DT__DISABLED;
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
    if (dt__first_name(meta, name) != name) { /* tied: listed where its values stand */
        dt__release(list->ctx, name);
        return DT_OK;
    }
    dt_file_weight *w = &list->at[list->n++];
    *w = (dt_file_weight){ .name = name };
    return describe(file, q, w);
}

static dt_status fill(dt_file_weights *list, const dt_file *file)
{
    dt__model_meta meta;
    DT__TRY(dt__model_meta_read(file, &meta));
    list->at = dt__alloc_array(list->ctx, meta.n_quants, sizeof *list->at);
    dt_status s = list->at == NULL ? DT_ERR_NOMEM : DT_OK;
    for (int64_t i = 0; i < meta.n_quants && s == DT_OK; i++) {
        if (meta.quant[i].has_weight) s = add(list, file, &meta, &meta.quant[i]);
    }
    dt__model_meta_free(&meta);
    return s;
}

dt_status dt_file_weights_read(const dt_file *file, dt_file_weights **out)
{
    *out = NULL;
    dt_file_weights *list = dt__alloc_zero(file->ctx, sizeof *list);
    if (list == NULL) return DT_ERR_NOMEM;
    list->ctx = file->ctx;
    dt__ctx_retain(list->ctx);
    const dt_status s = fill(list, file);
    if (s != DT_OK) {
        dt_file_weights_free(list);
        return s;
    }
    *out = list;
    return DT_OK;
}

void dt_file_weights_free(dt_file_weights *w)
{
    if (w == NULL) return;
    dt_ctx *ctx = w->ctx;
    for (int64_t i = 0; i < w->n; i++) dt__release(ctx, (void *)(uintptr_t)w->at[i].name);
    dt__release(ctx, w->at);
    dt__release(ctx, w);
    dt__ctx_release(ctx);
}

int64_t dt_file_weights_count(const dt_file_weights *w) { return w->n; }

const dt_file_weight *dt_file_weights_at(const dt_file_weights *w, int64_t i)
{
    return i >= 0 && i < w->n ? &w->at[i] : NULL;
}

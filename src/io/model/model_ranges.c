/* Scales of a folder of integers (hf_compressed.c) for a model that was prepared from its values:
 * its static and learned ranges of weights begin as the folder has them, so that it begins with the
 * folder's codes. */
#include "core/tensor.h"
#include "io/model/model.h"
#include "nn/module.h"
#include "qat/quantizer.h"

#include <string.h>

/* The range of a weight, if it can be that of the file; NULL: it cannot. */
static dt__quantizer *range_of(dt_module *m, const dt__module_quant *q)
{
    const char *name;
    dt_module *layer = dt_module_at(m, q->path);
    const dt__entry *weight = layer == NULL ? NULL : dt__entry_find(layer, "weight");
    if (weight == NULL) return NULL;
    const dt_module *holder = dt__holder(m, dt_param_path(m, weight->x), &name);
    dt__quantizer *range = dt__quantizer_of(dt__quantizer_at(holder, "weight"));
    const dt_quant_spec *file = &q->weight.scheme;
    if (range == NULL || range->count == NULL) return NULL;
    const dt_quant_spec *own = &range->quant;
    const bool same_groups =
        own->granularity != DT_PER_GROUP || own->group_size == file->group_size;
    const bool fits = own->bits == file->bits && own->granularity == file->granularity &&
                      same_groups && dt__has_zero(own) == dt__has_zero(file);
    return fits && file->scheme != DT_SCHEME_Q4_0 ? range : NULL;
}

/* Copies the first elements: all of them, or the one that all rows share. */
static dt_status take(const dt_file *file, const char *path, const char *suffix, dt_dtype dtype,
                      dt_tensor *to)
{
    dt_tensor *x;
    char *name = dt__format_string(file->ctx, "%s%s", path, suffix);
    if (name == NULL) return DT_ERR_NOMEM;
    dt_status s = dt_file_load(file, name, dtype, &x);
    dt__release(file->ctx, name);
    if (s != DT_OK) return s;
    void *data = x->count < to->count ? NULL : dt_data_mut(to);
    if (data == NULL) s = dt_fail(file->ctx, DT_ERR_FORMAT, "%s: too few scales", file->path);
    else memcpy(data, dt_data(x), (size_t)to->count * dt_dtype_size(dtype));
    dt_tensor_free(x);
    return s;
}

static dt_status take_all(dt_module *m, const dt_file *file, const dt__model_meta *meta,
                          int64_t *taken, int64_t *all)
{
    for (int64_t i = 0; i < meta->n_quants; i++) {
        const dt__module_quant *q = &meta->quant[i];
        if (!q->has_weight || q->weight.state != DT__PACKED) continue;
        dt__quantizer *range = range_of(m, q);
        ++*all;
        if (range == NULL) continue;
        DT__TRY(take(file, q->path, ".weight.scale", DT_F32, range->scale));
        if (range->zero_point != NULL) {
            DT__TRY(take(file, q->path, ".weight.zero_point", DT_I8, range->zero_point));
        }
        DT__TRY(dt_fill(range->count, 1));
        ++*taken;
    }
    return DT_OK;
}

dt_status dt__ranges_take(dt_module *m, const char *path, int64_t *taken, int64_t *all)
{
    dt_file *file;
    dt__model_meta meta;
    *taken = *all = 0;
    DT__TRY(dt_file_open(m->ctx, path, &file));
    dt_status s = file->part == NULL ? DT_OK : dt__model_meta_read(file, &meta);
    if (s == DT_OK && file->part != NULL) {
        s = take_all(m, file, &meta, taken, all);
        dt__model_meta_free(&meta);
    }
    dt_file_close(file);
    return s;
}

/* Copies scales from the file whose values a prepared model has. From a folder of integers
 * (hf_compressed.c): static and learned ranges of weights start at the folder's scales, so that the
 * model starts with the folder's codes. From a prepared model: static ranges of weights, and frozen
 * ranges of inputs and results, are copied. */
#include "core/tensor.h"
#include "io/model/model.h"
#include "nn/module.h"
#include "qat/given.h"
#include "qat/quantizer.h"

#include <string.h>

/* The range of a weight, if it can take the file's scales; else NULL. */
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

/* Copies the first elements: all, or the one that all rows share. */
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

/* A range in a file: its tensors, whose names begin with `path`. The caller frees both. */
typedef struct stored {
    dt_tensor *scale, *zero; /* zero NULL: the scheme has none */
} stored;

static dt_status load(const dt_file *file, const char *path, const char *suffix, dt_dtype dtype,
                      dt_tensor **out)
{
    char *name = dt__format_string(file->ctx, "%s%s", path, suffix);
    *out = NULL;
    if (name == NULL) return DT_ERR_NOMEM;
    const bool there = dt_file_find(file, name) != NULL;
    const dt_status s = there ? dt_file_load(file, name, dtype, out) : DT_OK;
    dt__release(file->ctx, name);
    return s;
}

/* Reads a range from the file and passes it to `give`, for a layer or a quantizer. */
static dt_status give(const dt_file *file, const char *path, const dt_quant_spec *quant,
                      dt_module *m, dt_status (*to)(dt_module *, const dt__given *))
{
    stored of = { NULL, NULL };
    dt_status s = load(file, path, ".scale", DT_F32, &of.scale);
    if (s == DT_OK) s = load(file, path, ".zero_point", DT_I8, &of.zero);
    if (s == DT_OK && of.scale != NULL && (of.zero == NULL || of.zero->count == of.scale->count)) {
        s = to(m, &(dt__given){ .quant = *quant,
                                .scales = of.scale->count,
                                .scale = dt_data(of.scale),
                                .zero = of.zero == NULL ? NULL : dt_data(of.zero) });
    } else if (s == DT_OK) {
        s = dt_fail(file->ctx, DT_ERR_FORMAT, "%s: the range %s is not whole", file->path, path);
    }
    DT__TENSORS_FREE(of.scale, of.zero);
    return s;
}

static bool is_alike(const dt_quant_spec *own, const dt_quant_spec *file)
{
    const bool groups = file->granularity == DT_PER_GROUP;
    return own != NULL && own->bits == file->bits && own->granularity == file->granularity &&
           (!groups || own->group_size == file->group_size) &&
           dt__has_zero(own) == dt__has_zero(file);
}

/* Copies the range of a layer's weight if the layer was prepared with the same bits and groups. */
static dt_status keep_weight(const dt_file *file, const dt__module_quant *q, dt_module *layer,
                             int64_t *taken)
{
    const dt__entry *w = dt__entry_find(layer, "weight");
    if (w == NULL || !dt_is_fake_quant(w->x) || dt__quantizer_at(layer, "weight") != NULL ||
        !is_alike(dt__quant_of(w->x), &q->weight.scheme)) {
        return DT_OK;
    }
    char *path = dt__weight_name(file->ctx, q->path);
    if (path == NULL) return DT_ERR_NOMEM;
    const dt_status s = give(file, path, &q->weight.scheme, layer, dt__give_weight);
    dt__release(file->ctx, path);
    *taken += s == DT_OK;
    return s;
}

/* Copies the range of a quantizer if its settings are the same in the file. */
static dt_status keep_range(const dt_file *file, const char *path, const dt_quant_spec *quant,
                            dt_module *range, int64_t *taken)
{
    const dt__quantizer *q = dt__quantizer_of(range);
    if (q == NULL || q->lo == NULL || !is_alike(&q->quant, quant)) return DT_OK;
    DT__TRY(give(file, path, quant, range, dt__give_scales));
    ++*taken;
    return DT_OK;
}

static dt_status keep_input(dt_module *layer, const dt_file *file, const dt__module_quant *q,
                            int64_t *taken)
{
    dt__input_hook *hook = dt__input_hook_of(layer);
    const int64_t before = *taken;
    if (hook == NULL || hook->range == NULL) return DT_OK;
    char *path = dt__format_string(file->ctx, "%s.input", q->path);
    if (path == NULL) return DT_ERR_NOMEM;
    const dt_status s =
        keep_range(file, path, &q->input.scheme, dt__quantizer_at(layer, "input"), taken);
    dt__release(file->ctx, path);
    hook->frozen = hook->frozen || *taken > before;
    return s;
}

static dt_status keep_all(dt_module *m, const dt_file *file, const dt__model_meta *meta,
                          int64_t *taken, int64_t *all)
{
    int64_t results = 0;
    for (int64_t i = 0; i < meta->n_quants; i++) {
        const dt__module_quant *q = &meta->quant[i];
        dt_module *layer = dt_module_at(m, q->path);
        const bool weight =
            q->has_weight && q->weight.has_range && q->weight.scheme.range == DT_RANGE_STATIC;
        const bool input = q->has_input && q->input.has_range && q->input.range_state == DT__FROZEN;
        if (layer == NULL || (q->has_weight && q->weight.state == DT__PACKED)) continue;
        *all += weight + input;
        if (weight) DT__TRY(keep_weight(file, q, layer, taken));
        if (input) DT__TRY(keep_input(layer, file, q, taken));
    }
    for (int64_t i = 0; i < meta->n_ranges; i++) {
        const dt__module_quant *q = &meta->range[i];
        if (q->input.range_state != DT__FROZEN) continue;
        ++*all;
        DT__TRY(keep_range(file, q->path, &q->input.scheme, dt_module_at(m, q->path), &results));
    }
    dt__device *device = dt__device_of(m);
    if (device != NULL && results == meta->n_ranges && results > 0) device->frozen = true;
    *taken += results;
    return DT_OK;
}

dt_status dt__ranges_take(dt_module *m, const char *path, int64_t *taken, int64_t *all)
{
    dt_file *file;
    dt__model_meta meta;
    *taken = *all = 0;
    DT__TRY(dt_file_open(m->ctx, path, &file));
    dt_status s = dt__model_meta_read(file, &meta);
    if (s == DT_OK) {
        s = file->part != NULL ? take_all(m, file, &meta, taken, all)
                               : keep_all(m, file, &meta, taken, all);
        dt__model_meta_free(&meta);
    }
    dt_file_close(file);
    return s;
}

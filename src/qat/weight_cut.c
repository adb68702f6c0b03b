/* How weights are cut into rows and groups, by their row maps, and which panels hold them. */
#include "qat/quantized.h"
#include "qat/schemes/scheme.h"

#include <string.h>

int dt__matrix_dims(const dt__weight_shape *w, int64_t *out)
{
    const dt__row_map *map = w->map;
    if (dt__is_mapped(map)) {
        out[0] = dt__mapped_rows(map);
        out[1] = dt__mapped_columns(map);
        return 2;
    }
    memcpy(out, w->dims, (size_t)w->rank * sizeof *out);
    if (map->experts == 0 || w->rank < 2) return w->rank;
    if (!dt__product(2, w->dims, out)) out[0] = -1; /* makes dt__cut_of refuse it */
    memmove(out + 1, out + 2, (size_t)(w->rank - 2) * sizeof *out);
    return w->rank - 1;
}

dt_status dt__weight_cut(dt_ctx *ctx, const dt_quant_spec *quant, const dt__weight_shape *w,
                         dt__cut *out)
{
    int64_t dims[DT_MAX_RANK];
    const int64_t experts = w->map->experts;
    if (experts > 0 && w->rank < 3) {
        return dt_fail(ctx, DT_ERR_SHAPE,
                       "quantize: a grouped weight of rank %d; its experts must be matrices",
                       w->rank);
    }
    const int rank = dt__matrix_dims(w, dims);
    DT__TRY(dt__cut_of(ctx, quant, rank, dims, out));
    out->experts = experts;
    if (experts == 0 || !out->whole) return DT_OK;
    const int64_t columns = out->rows / experts * out->columns;
    const int64_t group = dt__max_i64(1, columns);
    *out = (dt__cut){ experts, columns, group, dt__ceil_div(columns, group), false, experts };
    return DT_OK;
}

dt_status dt__weight_layout(dt_ctx *ctx, const dt_quant_spec *quant, const dt__weight_shape *w,
                            dt__panel_layout *out)
{
    dt__cut cut;
    int64_t dims[DT_MAX_RANK];
    DT__TRY(dt__weight_cut(ctx, quant, w, &cut));
    const int rank = dt__matrix_dims(w, dims);
    /* the tensor's one scale is repeated for all rows */
    const bool repeats = quant->granularity == DT_PER_TENSOR;
    dt__panel_shape shape = { .rows = cut.rows,
                              .columns = cut.columns,
                              .group = cut.group,
                              .bits = dt__code_bits(quant),
                              .scale_dtype = dt__scale_dtype(quant),
                              .experts = w->map->experts };
    if (repeats && rank >= 2) {
        shape.rows = dims[0];
        shape.columns = dims[0] == 0 ? 0 : cut.rows * cut.columns / dims[0];
        shape.group = dt__max_i64(1, shape.columns);
    }
    const bool rows = rank >= 2 && (repeats || cut.rows == dims[0]);
    if (rows && dt__panel_layout_of(&shape, out)) {
        out->real = dt__real_of(quant);
        return DT_OK;
    }
    return dt_fail(ctx, DT_ERR_UNSUPPORTED, "panels cannot hold groups of %lld in rows of %lld",
                   (long long)cut.group, (long long)cut.columns);
}

dt_status dt__matrix_of(const dt_tensor *x, const dt__row_map *map, dt_tensor **made)
{
    dt_tensor *copy = NULL;
    *made = NULL;
    if (!dt_is_contiguous(x)) {
        DT__TRY(dt__tensor_create_raw(x->ctx, x->dtype, x->rank, x->dims, &copy));
        dt__copy_tensor(x, copy);
        *made = copy;
    }
    if (!dt__is_mapped(map)) return DT_OK;
    int64_t dims[DT_MAX_RANK];
    const dt__weight_shape shape = dt__weight_shape_of(x, map);
    const int rank = dt__matrix_dims(&shape, dims);
    const dt_status s = dt__tensor_create_raw(x->ctx, x->dtype, rank, dims, made);
    if (s == DT_OK)
        dt__rows_gather(map, dt__values(copy != NULL ? copy : x), dt__values_mut(*made));
    dt_tensor_free(copy);
    return s;
}

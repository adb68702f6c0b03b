/* The work matrices of a weight: linear [1][out][in]; grouped [experts][out][in]; convolutions
 * [G][out/G][in/G kernel]; transposed convolutions the same, their rows gathered by a row map. */
#include "core/tensor.h"
#include "kernels/convolution/row_map.h"
#include "ptq/unfold.h"

typedef struct kind {
    const char *name;
    int rank; /* 0: any except 0 */
    bool convolves, transposed, grouped;
} kind;

static const kind kinds[] = {
    [DT_WEIGHT_LINEAR] = { .name = "linear" },
    [DT_WEIGHT_CONV1D] = { "conv1d", 3, .convolves = true },
    [DT_WEIGHT_CONV2D] = { "conv2d", 4, .convolves = true },
    [DT_WEIGHT_CONV_TRANSPOSE1D] = { "conv_transpose1d", 3, .convolves = true, .transposed = true },
    [DT_WEIGHT_CONV_TRANSPOSE2D] = { "conv_transpose2d", 4, .convolves = true, .transposed = true },
    [DT_WEIGHT_GROUPED_LINEAR] = { "grouped_linear", 3, .grouped = true },
};

static bool shape_of(const kind *k, int64_t groups, int rank, const int64_t *dims,
                     dt__work_shape *out)
{
    dt__row_map map;
    int64_t columns;
    if (groups < 1 || !dt__product(rank, dims, &columns)) return false;
    if (k->grouped) {
        *out = (dt__work_shape){ dims[0], dims[1], dims[2] };
        return dims[0] > 0;
    }
    if (groups > dt__max_i64(dims[0], 1)) return false; /* 0 channels would pass the test below */
    if (k->transposed) {
        if (!dt__row_map_of(groups, rank, dims, &map)) return false;
        *out = (dt__work_shape){ groups, map.out, dt__mapped_columns(&map) };
        return true;
    }
    if (!dt__product(rank - 1, dims + 1, &columns) || dims[0] % groups != 0) return false;
    *out = (dt__work_shape){ groups, dims[0] / groups, columns };
    return true;
}

dt_status dt__work_shape_of(dt_ctx *ctx, const char *name, const dt_weight_op *op, int rank,
                            const int64_t *dims, dt__work_shape *out)
{
    char text[128];
    if (op->kind < 0 || op->kind >= DT__COUNT_OF(kinds)) {
        return dt_fail(ctx, DT_ERR_ARG, "%s: %d is not a kind of op with a weight", name, op->kind);
    }
    const kind *k = &kinds[op->kind];
    const int64_t groups = k->convolves ? op->conv.groups : 1;
    if (rank > 0 && rank <= DT_MAX_RANK && (k->rank == 0 || rank == k->rank) &&
        shape_of(k, groups, rank, dims, out)) {
        return DT_OK;
    }
    return dt_fail(ctx, DT_ERR_SHAPE, "%s: %s is not a weight of a %s in %lld groups", name,
                   dt__dims_text(rank, dims, text, sizeof text), k->name, (long long)groups);
}

/* Merging of dimensions, and tree-shaped sums. */
#include "kernels/loops.h"

dt__zip dt__zip_merged(const dt__zip *z)
{
    dt__zip out = { .rank = 0, .a = z->a, .b = z->b, .y = z->y };
    for (int d = 0; d < z->rank; d++) {
        if (z->dims[d] == 1) continue;
        const int last = out.rank - 1;
        if (last >= 0 && out.a_strides[last] == z->a_strides[d] * z->dims[d] &&
            out.b_strides[last] == z->b_strides[d] * z->dims[d]) {
            out.dims[last] *= z->dims[d];
        } else {
            out.dims[out.rank++] = z->dims[d];
        }
        out.a_strides[out.rank - 1] = z->a_strides[d];
        out.b_strides[out.rank - 1] = z->b_strides[d];
    }
    if (out.rank == 0) {
        out.rank = 1;
        out.dims[0] = out.a_strides[0] = out.b_strides[0] = 1;
    }
    return out;
}

static void append(dt__axes *axes, int64_t extent, int64_t stride)
{
    axes->dims[axes->rank] = extent;
    axes->strides[axes->rank++] = stride;
    axes->count *= extent;
}

dt__reduction dt__reduction_of(const dt__reduce *r)
{
    int rank = 0;
    int64_t dims[DT_MAX_RANK];
    bool over[DT_MAX_RANK];
    for (int d = 0; d < r->rank; d++) {
        if (r->dims[d] == 1) continue;
        if (rank > 0 && over[rank - 1] == r->over[d]) {
            dims[rank - 1] *= r->dims[d];
            continue;
        }
        dims[rank] = r->dims[d];
        over[rank++] = r->over[d];
    }
    dt__reduction out = { .kept.count = 1, .over.count = 1, .line = 1 };
    if (rank == 0) return out;
    int64_t stride[DT_MAX_RANK], step = 1;
    for (int d = rank - 1; d >= 0; d--) {
        stride[d] = step;
        step *= dims[d];
    }
    out.over_last = over[rank - 1];
    out.line = dims[rank - 1];
    for (int d = 0; d + 1 < rank; d++) append(over[d] ? &out.over : &out.kept, dims[d], stride[d]);
    return out;
}

double dt__tree_sum(int n, double *x)
{
    for (; n > 1; n = (n + 1) / 2) {
        for (int i = 0; i < n / 2; i++) x[i] = x[2 * i] + x[2 * i + 1];
        if (n % 2 != 0) x[n / 2] = x[n - 1];
    }
    return n == 1 ? x[0] : 0;
}

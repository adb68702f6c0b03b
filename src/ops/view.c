/* Permutations of dimensions: the strides move, the elements stay. */
#include "ops/view.h"

void dt__view_forward(const dt_call *c) { (void)c; }

/* Four bits a dimension: 8 dimensions fit into one number. */
#define ORDER_BITS 4

dt_status dt__permuted(dt_call *c, const int *order)
{
    const dt_tensor *x = c->arg[0];
    int64_t dims[DT_MAX_RANK], strides[DT_MAX_RANK];
    for (int d = 0; d < x->rank; d++) {
        dims[d] = x->dims[order[d]];
        strides[d] = x->strides[order[d]];
        c->state[0] |= (int64_t)order[d] << (ORDER_BITS * d);
    }
    return dt__result_view(c, 0, x->rank, dims, strides, x->offset);
}

void dt__permuted_backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    dt__copy copy = { .rank = dy->rank, .x = dt__data(dy), .y = dt__data_mut(dx[0]) };
    for (int d = 0; d < dy->rank; d++) {
        const int64_t from = c->state[0] >> (ORDER_BITS * d) & ((1 << ORDER_BITS) - 1);
        copy.dims[d] = dy->dims[d];
        copy.x_strides[d] = dy->strides[d];
        copy.y_strides[d] = dx[0]->strides[from];
    }
    c->kernels->copy(&copy);
}

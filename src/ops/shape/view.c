/* Permutations of dimensions, which are views, and reshapes. */
#include "ops/shape/view.h"

#include <string.h>

void dt__view_forward(const dt_call *c) { (void)c; }

/* Four bits per dimension, so the order of 8 dimensions fits one number. */
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

dt_status dt__reshaped(dt_call *c, int rank, const int64_t *dims)
{
    const dt_tensor *x = c->arg[0];
    int64_t strides[DT_MAX_RANK];
    if (!dt_is_contiguous(x)) return dt_result(c, 0, x->dtype, rank, dims);
    dt__contiguous_strides(rank, dims, strides);
    return dt__result_view(c, 0, rank, dims, strides, x->offset);
}

void dt__reshaped_forward(const dt_call *c)
{
    const dt_tensor *x = c->arg[0];
    if (c->y->storage == x->storage) return;
    dt__copy copy = { .rank = x->rank, .x = dt__data(x), .y = dt__data_mut(c->y) };
    memcpy(copy.dims, x->dims, sizeof copy.dims);
    memcpy(copy.x_strides, x->strides, sizeof copy.x_strides);
    dt__contiguous_strides(x->rank, x->dims, copy.y_strides);
    dt__copy_bytes(&copy, dt_dtype_size(x->dtype));
}

void dt__reshaped_backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    (void)c;
    memcpy(dt__data_mut(dx[0]), dt__data(dy), dt__bytes_of(dy));
}

dt_tensor *dt__line_to_plane(dt_tape *t, dt_tensor *x)
{
    if (x == NULL) return NULL;
    return dt_reshape(t, x, 4, (const int64_t[]){ x->dims[0], x->dims[1], x->dims[2], 1 });
}

dt_tensor *dt__plane_to_line(dt_tape *t, dt_tensor *x)
{
    return x == NULL ? NULL : dt_reshape(t, x, 3, x->dims);
}

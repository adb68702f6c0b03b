/* Broadcasting: the strides of an operand expanded to the result's dims, and the sum of a gradient
 * over broadcast dimensions. */
#include "ops/elementwise/binary.h"
#include "ops/elementwise/unary.h"

#include <string.h>

dt_status dt__binary_shape(dt_call *c)
{
    int rank;
    int64_t dims[DT_MAX_RANK];
    DT__TRY(dt__want_operands(c, 2, 2));
    DT__TRY(dt__want_float(c, 0));
    DT__TRY(dt__want_float(c, 1));
    DT__TRY(dt__broadcast(c, 0, 1, &rank, dims));
    return dt_result(c, 0, c->in[0]->dtype, rank, dims);
}

static void broadcast_strides(const dt_tensor *x, const dt_tensor *like, int64_t *strides)
{
    const int shift = like->rank - x->rank;
    for (int d = 0; d < like->rank; d++) {
        strides[d] = d < shift || x->dims[d - shift] == 1 ? 0 : x->strides[d - shift];
    }
}

dt__zip dt__zip_of(const dt_tensor *a, const dt_tensor *b, const dt_tensor *like, void *y)
{
    dt__zip z = { .rank = like->rank, .a = dt__data(a), .b = dt__data(b), .y = y };
    memcpy(z.dims, like->dims, sizeof z.dims);
    broadcast_strides(a, like, z.a_strides);
    broadcast_strides(b, like, z.b_strides);
    return z;
}

void dt__zip_run(void (*kernel)(const dt__zip *), const dt_tensor *a, const dt_tensor *b,
                 const dt_tensor *like, void *y)
{
    const dt__zip z = dt__zip_of(a, b, like, y);
    kernel(&z);
}

void dt__sum_to(const dt_call *c, const void *x, const dt_tensor *like, double divisor,
                dt_tensor *to)
{
    if (dt__same_dims(like, to)) {
        c->kernels->scale(to->count, 1 / divisor, x, dt__data_mut(to));
        return;
    }
    dt__reduce r = { .rank = like->rank, .divisor = divisor, .x = x, .y = dt__data_mut(to) };
    const int shift = like->rank - to->rank;
    for (int d = 0; d < like->rank; d++) {
        r.dims[d] = like->dims[d];
        r.over[d] = d < shift || (to->dims[d - shift] == 1 && like->dims[d] != 1);
    }
    c->kernels->sum(&r);
}

size_t dt__binary_scratch(const dt_call *c)
{
    const dt_tensor *y = c->out[0];
    const bool broadcasts = !dt__same_dims(c->arg[0], y) || !dt__same_dims(c->arg[1], y);
    return broadcasts ? dt__bytes_of(y) : 0;
}

const dt__factor_options dt__factor_defaults = { .factor = 1 };

const dt_key dt__factor_keys[] = {
    { "factor", DT_KEY_REAL, .offset = offsetof(dt__factor_options, factor), .fallback = "1" },
    { 0 },
};

dt_status dt__inplace_shape(dt_call *c)
{
    DT__TRY(dt__want_operands(c, 1, 2));
    DT__TRY(dt__want_float(c, 0));
    if (c->n_in == 1) return DT_OK;
    DT__TRY(dt__want_float(c, 1));
    return dt__want_broadcast(c, 1, 0);
}

dt_status dt__shape_with_bits(dt_call *c)
{
    DT__TRY(dt__shape_like(c, 0));
    if (!c->recording) return DT_OK;
    const int64_t bytes = dt__ceil_div(c->y->count, 8);
    return dt_result(c, 1, DT_U8, 1, &bytes);
}

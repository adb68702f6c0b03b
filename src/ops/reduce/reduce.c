/* Sums over some dimensions. */
#include "ops/reduce/reduce.h"

const dt_key dt__reduce_keys[] = {
    { "dims", DT_KEY_INTS, .offset = offsetof(dt_reduce_options, dims) },
    { "keepdim", DT_KEY_BOOL, .offset = offsetof(dt_reduce_options, keepdim), .fallback = "false" },
    { 0 },
};

const dt_reduce_options dt__reduce_defaults = { .keepdim = false };

static bool is_over(const dt_call *c, int d) { return (c->state[0] >> d & 1) != 0; }

static dt_status choose(dt_call *c, const dt_reduce_options *o)
{
    const dt_tensor *x = c->in[0];
    for (int d = 0; d < x->rank && o->dims.n == 0; d++) c->state[0] |= (int64_t)1 << d;
    for (int i = 0; i < o->dims.n; i++) {
        int d;
        DT__TRY(dt__want_dim(c, 0, o->dims.v[i], &d));
        if (is_over(c, d)) return dt_refuse(c, DT_ERR_ARG, "dimension %d is given twice", d);
        c->state[0] |= (int64_t)1 << d;
    }
    c->state[1] = 1;
    for (int d = 0; d < x->rank; d++) c->state[1] *= is_over(c, d) ? x->dims[d] : 1;
    return DT_OK;
}

dt_status dt__reduce_shape(dt_call *c)
{
    const dt_reduce_options *o = c->options;
    const dt_tensor *x = c->in[0];
    DT__TRY(dt__want_float(c, 0));
    DT__TRY(choose(c, o));
    int rank = 0;
    int64_t dims[DT_MAX_RANK];
    for (int d = 0; d < x->rank; d++) {
        if (!is_over(c, d)) dims[rank++] = x->dims[d];
        else if (o->keepdim) dims[rank++] = 1;
    }
    return dt_result(c, 0, x->dtype, rank, dims);
}

void dt__reduce_forward(const dt_call *c, double divisor)
{
    const dt_tensor *x = c->arg[0];
    dt__reduce r = {
        .rank = x->rank, .divisor = divisor, .x = dt__data(x), .y = dt__data_mut(c->y)
    };
    for (int d = 0; d < x->rank; d++) {
        r.dims[d] = x->dims[d];
        r.over[d] = is_over(c, d);
    }
    c->kernels->sum(&r);
}

void dt__reduce_backward(const dt_call *c, const void *dy, dt_tensor *dx)
{
    dt__copy copy = { .rank = dx->rank, .x = dy, .y = dt__data_mut(dx) };
    int64_t step = 1;
    for (int d = dx->rank - 1; d >= 0; d--) {
        copy.dims[d] = dx->dims[d];
        copy.y_strides[d] = dx->strides[d];
        copy.x_strides[d] = is_over(c, d) ? 0 : step;
        if (!is_over(c, d)) step *= dx->dims[d];
    }
    c->kernels->copy(&copy);
}

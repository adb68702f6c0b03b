/* The common part of softmax and log_softmax: options and shape function. */
#ifndef DT__OPS_SOFTMAX_H
#define DT__OPS_SOFTMAX_H

#include "autograd/op.h"

typedef struct dt__dim_options {
    int64_t dim;
} dt__dim_options;

extern const dt__dim_options dt__dim_defaults; /* the last dimension */
extern const dt_key dt__dim_keys[];

/* Shape function: a result of x's shape; state[0] is the dimension. */
dt_status dt__along_shape(dt_call *c);

/* x as lines along dimension `dim`. */
static inline dt__lines dt__lines_of(const dt_tensor *x, int dim)
{
    dt__lines l = { 1, x->dims[dim], 1 };
    for (int d = 0; d < dim; d++) l.outer *= x->dims[d];
    for (int d = dim + 1; d < x->rank; d++) l.inner *= x->dims[d];
    return l;
}

/* Defines an op along `dim` with kernels `kernel` and <kernel>_backward, and its public
 * function. */
#define DT__ALONG_OP(kernel, formula)                                                              \
    static void forward(const dt_call *c)                                                          \
    {                                                                                              \
        const dt__lines l = dt__lines_of(c->arg[0], (int)c->state[0]);                             \
        c->kernels->kernel(&l, dt__data(c->arg[0]), dt__data_mut(c->y));                           \
    }                                                                                              \
    static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)              \
    {                                                                                              \
        const dt__lines l = dt__lines_of(dy, (int)c->state[0]);                                    \
        c->kernels->kernel##_backward(&l, dt__data(c->out[0]), dt__data(dy), dt__data_mut(dx[0])); \
    }                                                                                              \
    const dt_op dt__op_##kernel = {                                                                \
        .name = #kernel,                                                                           \
        .text = formula,                                                                           \
        .in_name = { "x" },                                                                        \
        .out_name = { "y" },                                                                       \
        .saves = { .y = DT_VALUE },                                                                \
        DT__OP_OPTIONS(dt__dim_options, dt__dim_defaults, dt__dim_keys),                           \
        .shape = dt__along_shape,                                                                  \
        .forward = forward,                                                                        \
        .backward = backward,                                                                      \
        .lower = lower,                                                                            \
    };                                                                                             \
    dt_tensor *dt_##kernel(dt_tape *t, dt_tensor *x, int64_t dim)                                  \
    {                                                                                              \
        return dt_apply(t, &dt__op_##kernel, DT__CALL_WITH(&(dt__dim_options){ dim }, x));         \
    }

#endif

/* Functions of one element whose gradient follows from the operand, or from the result:
 *     y = f(x)      dx = dy f'(x)
 * Kernels <name> and <name>_backward compute them. */
#ifndef DT__OPS_UNARY_H
#define DT__OPS_UNARY_H

#include "autograd/op.h"
#include "ops/ops_list.h"

/* What backward reads. */
#define DT__OPERAND arg[0]
#define DT__RESULT out[0]

/* Defines the op and its public function. `meaning` is its `lower`, or NULL. */
#define DT__UNARY(op_name, formula, reads, meaning)                                                \
    static dt_status op_name##_shape(dt_call *c) { return dt__shape_like(c, 0); }                  \
    static void op_name##_forward(const dt_call *c)                                                \
    {                                                                                              \
        c->kernels->op_name(dt__count(c->y), dt__data(c->arg[0]), dt__data_mut(c->y));             \
    }                                                                                              \
    static void op_name##_backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)    \
    {                                                                                              \
        c->kernels->op_name##_backward(dt__count(dy), dt__data(c->reads), dt__data(dy),            \
                                       dt__data_mut(dx[0]));                                       \
    }                                                                                              \
    const dt_op dt__op_##op_name = {                                                               \
        .name = #op_name,                                                                          \
        .text = formula,                                                                           \
        .in_name = { "x" },                                                                        \
        .out_name = { "y" },                                                                       \
        .saves = { .reads = DT_VALUE },                                                            \
        .shape = op_name##_shape,                                                                  \
        .forward = op_name##_forward,                                                              \
        .backward = op_name##_backward,                                                            \
        .over_dy = { true },                                                                       \
        .lower = meaning,                                                                          \
    };                                                                                             \
    dt_tensor *dt_##op_name(dt_tape *t, dt_tensor *x)                                              \
    {                                                                                              \
        return dt_apply(t, &dt__op_##op_name, DT__CALL(x));                                        \
    }

/* The shape function of an op that keeps one bit per element for backward, as result 1. */
dt_status dt__shape_with_bits(dt_call *c);

/* Defines an op with kernel `kernel` that keeps such bits, named `bits`: dx = dy where the bit is
 * set, else 0. */
#define DT__MASKED(op_name, formula, bits, kernel, meaning)                                        \
    static void op_name##_forward(const dt_call *c)                                                \
    {                                                                                              \
        c->kernels->kernel(dt__count(c->y), dt__data(c->arg[0]), dt__data_mut(c->y),               \
                           c->recording ? dt__data_mut(c->out[1]) : NULL);                         \
    }                                                                                              \
    static void op_name##_backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)    \
    {                                                                                              \
        c->kernels->mask(dt__count(dy), dt__data(c->out[1]), dt__data(dy), dt__data_mut(dx[0]));   \
    }                                                                                              \
    const dt_op dt__op_##op_name = {                                                               \
        .name = #op_name,                                                                          \
        .text = formula,                                                                           \
        .in_name = { "x" },                                                                        \
        .out_name = { "y", bits },                                                                 \
        .saves = { .out = { DT_NOTHING, DT_VALUE } },                                              \
        .shape = dt__shape_with_bits,                                                              \
        .forward = op_name##_forward,                                                              \
        .backward = op_name##_backward,                                                            \
        .over_dy = { true },                                                                       \
        .lower = meaning,                                                                          \
    };                                                                                             \
    dt_tensor *dt_##op_name(dt_tape *t, dt_tensor *x)                                              \
    {                                                                                              \
        return dt_apply(t, &dt__op_##op_name, DT__CALL(x));                                        \
    }

#endif

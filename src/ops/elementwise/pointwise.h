/* The common part of losses that are a sum over elements of x and a target of its shape. */
#ifndef DT__OPS_POINTWISE_H
#define DT__OPS_POINTWISE_H

#include "autograd/op.h"

extern const char *const dt__reductions[]; /* the choices of DT_REDUCE_... */

/* Checks operands 0 and 1 and the reduction, and makes the result, a scalar. */
dt_status dt__pointwise_shape(dt_call *c, int reduction);

/* The kernel's argument; the caller sets the op's options and weight. */
dt__pointwise dt__pointwise_of(const dt_call *c, int reduction);

/* Writes the gradients of operands 0 and 1 that are needed. `kernel` computes the derivative by x;
 * that by the target is its negative. */
void dt__pointwise_backward(const dt__pointwise *p, const dt_tensor *dy, dt_tensor *const *dx,
                            void (*kernel)(const dt__pointwise *p, double scale, void *d));

/* The key of the field `reduction` of a loss's options. */
#define DT__REDUCTION_KEY(options)                                                                 \
    {                                                                                              \
        "reduction", DT_KEY_CHOICE, .offset = offsetof(options, reduction),                        \
                                    .choices = dt__reductions, .fallback = "mean"                  \
    }

/* Options of a loss with a reduction only. */
typedef struct dt__loss_options {
    int reduction;
} dt__loss_options;

extern const dt__loss_options dt__loss_defaults;
extern const dt_key dt__loss_keys[];
static inline int dt__loss_reduction(const void *options)
{
    return ((const dt__loss_options *)options)->reduction;
}
#define DT__BY(reduction) DT__WITH(dt__loss_options, reduction)

/* Defines op `op_name` of x and a target, and its public function; the file's functions have the
 * usual names. */
#define DT__LOSS_OF_TWO(op_name, formula)                                                          \
    static dt_status shape(dt_call *c)                                                             \
    {                                                                                              \
        DT__TRY(dt__want_operands(c, 2, 2));                                                       \
        return dt__pointwise_shape(c, dt__loss_reduction(c->options));                             \
    }                                                                                              \
    const dt_op dt__op_##op_name = {                                                               \
        .name = #op_name,                                                                          \
        .text = "the mean or sum of " formula,                                                     \
        .in_name = { "x", "target" },                                                              \
        .out_name = { "loss" },                                                                    \
        .saves = { .arg = { DT_VALUE, DT_VALUE } },                                                \
        DT__OP_OPTIONS(dt__loss_options, dt__loss_defaults, dt__loss_keys),                        \
        .shape = shape,                                                                            \
        .forward = forward,                                                                        \
        .backward = backward,                                                                      \
        .lower = lower,                                                                            \
    };                                                                                             \
    dt_tensor *dt_##op_name(dt_tape *t, dt_tensor *x, dt_tensor *target, int reduction)            \
    {                                                                                              \
        return dt_apply(t, &dt__op_##op_name,                                                      \
                        DT__CALL_WITH(&(dt__loss_options){ reduction }, x, target));               \
    }

/* For `lower`: the mean or sum of e. */
dt_tensor *dt__reduced(dt_tape *t, dt_tensor *e, int reduction);

#endif

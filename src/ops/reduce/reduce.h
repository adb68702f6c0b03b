/* The common part of sum and mean: options, shape function, forward and backward. */
#ifndef DT__OPS_REDUCE_H
#define DT__OPS_REDUCE_H

#include "autograd/op.h"

extern const dt_key dt__reduce_keys[];
extern const dt_reduce_options dt__reduce_defaults;

/* Checks dims and makes the result; state[0] is a bit for each reduced dimension, state[1] the
 * number of elements that one result sums. */
dt_status dt__reduce_shape(dt_call *c);

/* y = (sum of x) / divisor */
void dt__reduce_forward(const dt_call *c, double divisor);

/* dx = dy, repeated along the reduced dimensions */
void dt__reduce_backward(const dt_call *c, const void *dy, dt_tensor *dx);

/* The options of cases: dimensions; KEEP keeps them with extent 1. */
#define DT__OVER(...) DT__WITH(dt_reduce_options, .dims = { __VA_ARGS__ })
#define DT__KEEP(...) DT__WITH(dt_reduce_options, .dims = { __VA_ARGS__ }, .keepdim = true)

#endif

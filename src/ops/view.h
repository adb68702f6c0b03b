/* What ops that rearrange dimensions share. */
#ifndef DT__OPS_VIEW_H
#define DT__OPS_VIEW_H

#include "autograd/op.h"

/* Dimension i of the result, a view, is dimension order[i] of operand 0. state[0] holds the
 * order for backward. */
dt_status dt__permuted(dt_call *c, const int *order);
void dt__permuted_backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx);

/* A view needs no work. */
void dt__view_forward(const dt_call *c);

#endif

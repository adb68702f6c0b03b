/* linear where an operand is integer codes; op_linear.c has the op itself. */
#ifndef DT__OPS_LINEAR_CODES_H
#define DT__OPS_LINEAR_CODES_H

#include "autograd/codes.h"
#include "autograd/op.h"

/* Operand 0 is x [m, k], operand 1 the weight [n, k]; each as codes, or as a value. */
size_t dt__linear_forward_scratch(const dt_call *c);
/* y = x W^T of operands of which at least one is codes. Returns whether it added the bias, too, as
 * an integer product does; `bias` may be NULL. */
bool dt__linear_product_codes(const dt_call *c, const float *bias, float *y);
/* dx = dy W^, dw = dy^T x^. `dy` is [m, n]; a NULL result is not wanted. */
size_t dt__linear_backward_scratch(const dt_call *c);
void dt__linear_backward_x(const dt_call *c, const void *dy, void *dx);
void dt__linear_backward_w(const dt_call *c, const void *dy, void *dw);

#endif

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
/* Several calls that share x as one product: whether `b`, with codes, runs with `a`; and that product,
 * biases included, whose calls are all joined by the first. */
bool dt__linear_joins(const dt_call *a, const dt_call *b);
void dt__linears_product_codes(const dt_call *calls, int n);
/* dx = dy W^, dw = dy^T x^. `dy` is [m, n]; a NULL result is not wanted. */
size_t dt__linear_backward_scratch(const dt_call *c);
void dt__linear_backward_x(const dt_call *c, const void *dy, void *dx);
void dt__linear_backward_w(const dt_call *c, const void *dy, void *dw);

#endif

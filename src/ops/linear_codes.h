/* The products of linear, whole or a part of the outputs at a time, of operands that are values or
 * integer codes; op_linear.c and op_linear_cross_entropy.c have the ops themselves. */
#ifndef DT__OPS_LINEAR_CODES_H
#define DT__OPS_LINEAR_CODES_H

#include "autograd/codes.h"
#include "autograd/op.h"

/* Rows m0 ... m1-1 of x [rows, k] and n0 ... n1-1 of a weight [n, k], two operands of a call: each
 * as codes, or as a value. Parts begin at a multiple of DT__LANES. */
typedef struct dt__linear_part {
    const dt_call *c;
    int x, weight; /* operands */
    int64_t m0, m1, n0, n1;
} dt__linear_part;

dt__linear_part dt__linear_whole(const dt_call *c, int x, int weight);
/* Bytes of c->scratch that the product takes, and that backward's of those wanted do. */
size_t dt__linear_forward_scratch(const dt__linear_part *p);
size_t dt__linear_backward_scratch(const dt__linear_part *p);
/* y [m1 - m0, n1 - n0] = x W^T. Returns whether it added the bias [n], too, as an integer product
 * does; `bias` may be NULL. */
bool dt__linear_product(const dt__linear_part *p, const void *bias, void *y);
/* Several calls that share x as one product: whether `b`, with codes, runs with `a`; and that
 * product, biases included, whose calls are all joined by the first. */
bool dt__linear_joins(const dt_call *a, const dt_call *b);
void dt__linears_product_codes(const dt_call *calls, int n);
/* dx [rows, k] = dy W^ for the rows of x, dw [n, k] = dy^T x^ for those of the weight, which are
 * added up over parts in ascending order. `dy` is [m1 - m0, n1 - n0]. */
void dt__linear_backward_x(const dt__linear_part *p, const void *dy, void *dx);
void dt__linear_backward_w(const dt__linear_part *p, const void *dy, void *dw);

#endif

/* The products of linear, for all or some of the rows and outputs. Operands are values or integer
 * codes. op_linear.c and op_linear_cross_entropy.c use them. */
#ifndef DT__OPS_LINEAR_CODES_H
#define DT__OPS_LINEAR_CODES_H

#include "autograd/codes.h"
#include "autograd/op.h"

/* Rows m0 ... m1-1 of x [rows, k] and n0 ... n1-1 of a weight [n, k], two operands of a call. n0 is
 * a multiple of DT__LANES. */
typedef struct dt__linear_part {
    const dt_call *c;
    int x, weight; /* indices of the operands */
    int64_t m0, m1, n0, n1;
} dt__linear_part;

/* All rows of both. */
dt__linear_part dt__linear_whole(const dt_call *c, int x, int weight);
/* Bytes of c->scratch for the product, and for the gradients in c->wants. */
size_t dt__linear_forward_scratch(const dt__linear_part *p);
size_t dt__linear_backward_scratch(const dt__linear_part *p);
/* y [m1 - m0, n1 - n0] = x W^T. Returns whether it also added the bias [n], as integer products do;
 * if not, the caller must. `bias` may be NULL. */
bool dt__linear_product(const dt__linear_part *p, const void *bias, void *y);
/* Several calls with the same x as one product: whether call `b` can join call `a`; and the product
 * of n calls, all of which can join the first, biases included. */
bool dt__linear_joins(const dt_call *a, const dt_call *b);
void dt__linears_product_codes(const dt_call *calls, int n);
/* dx [rows, k] = dy W^ for rows m0 ... m1-1, dw [n, k] = dy^T x^ for rows n0 ... n1-1, with
 * dequantized values W^ and x^, in floats or as products of integers (numerics, "Integer
 * backward"). Either may be NULL. A part with n0 > 0 (m0 > 0) adds to dx (dw), so parts must be
 * called in ascending order. `dy` is [m1 - m0, n1 - n0]. */
void dt__linear_backward(const dt__linear_part *p, const void *dy, void *dx, void *dw);

/* Whether the product can use the codes of operand i. */
bool dt__linear_takes_codes(const dt_call *c, int i);

#endif

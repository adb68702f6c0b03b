/* Convolutions of operands that are integer codes. conv_ops.c has those of floats. */
#ifndef DT__OPS_CONV_CODES_H
#define DT__OPS_CONV_CODES_H

#include "autograd/codes.h"
#include "ops/convolution/conv_ops.h"

/* dt_op.takes_codes: whether a row of operand i's codes is a sample of x, or an output channel of
 * the weight. */
bool dt__conv_takes_codes(const dt_call *c, int i);

/* The op's functions for a call in which an operand is codes. The plan sets forward's scratch. */
dt_status dt__conv_codes_plan(dt_call *c);
void dt__conv_forward_codes(const dt_call *c);
size_t dt__conv_codes_backward_scratch(const dt_call *c);
/* The same for shape functions: makes the plans of backward, which cannot fail later. */
dt_status dt__conv_codes_backward_plan(const dt_call *c, size_t *bytes);
/* dx by dy and w^, dw by dy and x^, the dequantized values; either may be NULL. */
void dt__conv_backward_codes(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx);

#endif

/* The gradients of convolutions by products of integers (numerics, "Integer backward"). */
#ifndef DT__OPS_CONV_BACK_H
#define DT__OPS_CONV_BACK_H

#include "autograd/codes.h"
#include "ops/convolution/conv_ops.h"

/* Which gradients of a call are such products, if they are wanted. */
bool dt__conv_integer_x(const dt_call *c);
bool dt__conv_integer_w(const dt_call *c);

/* Bytes of scratch for those that are wanted; 0: none. */
size_t dt__conv_integer_scratch(const dt_call *c);
/* dx by dy and W^, dw by dy and the codes of x; NULL: not computed. */
void dt__conv_integer_backward_x(const dt_call *c, const float *dy, float *dx);
void dt__conv_integer_backward_w(const dt_call *c, const float *dy, float *dw);

#endif

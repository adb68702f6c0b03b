/* Convolutions where an operand is integer codes; conv_ops.c has the rest. */
#ifndef DT__OPS_CONV_CODES_H
#define DT__OPS_CONV_CODES_H

#include "autograd/codes.h"
#include "ops/conv_ops.h"

/* Whether the codes of operand i are rows as a convolution reads them: samples of x, output
 * channels of the weight. */
bool dt__conv_takes_codes(const dt_call *c, int i);

/* Of a call in which some operand is codes: the op's own, by the same rules. The plan sets
 * forward's scratch. */
dt_status dt__conv_codes_plan(dt_call *c);
void dt__conv_forward_codes(const dt_call *c);
size_t dt__conv_codes_backward_scratch(const dt_call *c);
/* dx = the adjoint of dy by w^, dw from dy and x^; a NULL result is not wanted. */
void dt__conv_backward_codes(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx);

#endif

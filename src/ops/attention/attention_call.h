/* What attention's ops share: op_attention.c, and op_attention_codes.c of codes. */
#ifndef DT__OPS_ATTENTION_CALL_H
#define DT__OPS_ATTENTION_CALL_H

#include "autograd/op.h"

enum { DT__ATTENTION_Q, DT__ATTENTION_K, DT__ATTENTION_V };

extern const dt_attention_options dt__attention_options;
extern const dt_key dt__attention_keys[];

/* The width of rows of k and v: that of q, or half of it, rounded up (packed codes). */
enum { DT__WHOLE_ROWS, DT__HALF_ROWS };
/* Checks the shapes of q, k and v, and the scale; makes y and lse, and requests scratch. */
dt_status dt__attention_shape(dt_call *c, int rows);
/* ARG if the options request a cache, which the other op (attention_cached) supports. */
dt_status dt__attention_floats(const dt_call *c);
/* The kernel's operands: q, k, v, options and results; neither masks nor scales. */
dt__attention dt__attention_of(const dt_call *c);
/* A tensor of rank 4, or of a lower rank with the last strides 0. */
dt__heads dt__heads_of(const dt_tensor *x);

#endif

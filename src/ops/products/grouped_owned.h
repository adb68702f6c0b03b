/* A call of grouped_linear with the experts of this rank alone, for rows that other ranks sent. */
#ifndef DT__OPS_GROUPED_OWNED_H
#define DT__OPS_GROUPED_OWNED_H

#include "autograd/codes.h"

#include <detent/experimental/ops.h>

typedef struct dt__owned {
    dt_tape *tape;
    dt_tensor *weight, *bias; /* spread; bias NULL: none */
    dt_tensor *x;             /* [rows, in]; with `codes` only its shape is used */
    dt__codes *codes;
    dt_tensor *index; /* i32 [rows]: numbers of this rank's experts */
} dt__owned;

/* y [rows, out]. Errors: those of the weight's codes, NOMEM. */
dt_status dt__owned_forward(const dt__owned *o, float *y);

/* The gradients to compute; NULL: not needed. */
typedef struct dt__owned_gradients {
    dt_tensor *x, *weight, *bias;
    /* weight and bias pass their gradients on to the tensors that they depend on; takes over
     * `weight` and `bias` */
    bool pulls;
} dt__owned_gradients;

dt_status dt__owned_backward(const dt__owned *o, const dt_tensor *dy, dt__owned_gradients *g);

#endif

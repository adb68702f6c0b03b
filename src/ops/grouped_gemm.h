/* The products of grouped_linear: each expert of a grouped weight against the rows that are routed
 * to it, of operands that are values or integer codes. */
#ifndef DT__OPS_GROUPED_GEMM_H
#define DT__OPS_GROUPED_GEMM_H

#include "autograd/codes.h"
#include "ops/routing.h"

/* What a part of scratch takes, so that the next begins aligned. */
static inline size_t dt__scratch_part(size_t bytes)
{
    return (size_t)dt__round_up((int64_t)bytes, DT__ALIGNMENT);
}

/* A call of the op: x [..., in], weight [experts, out, in], bias [experts, out] or NULL. */
typedef struct dt__grouped {
    const dt_call *c;
    int x, weight, bias, offsets, index; /* operands */
    dt__routing routing;                 /* its numbers, which the shape rule found */
} dt__grouped;

/* Bytes of c->scratch that forward takes, and that backward does. */
size_t dt__grouped_forward_scratch(const dt__grouped *g);
size_t dt__grouped_backward_scratch(const dt__grouped *g);
/* y [assignments, out], the bias added; assignments without an expert give 0. */
void dt__grouped_forward(const dt__grouped *g, void *y);
/* What dx holds for x, weight and bias, each of which may be NULL. */
void dt__grouped_backward(const dt__grouped *g, const void *dy, dt_tensor *const *dx);

#endif

/* The products of grouped_linear: the weight of each expert times the rows that are routed to it.
 * Operands are values or integer codes. */
#ifndef DT__OPS_GROUPED_GEMM_H
#define DT__OPS_GROUPED_GEMM_H

#include "autograd/codes.h"
#include "ops/routing/routing.h"

/* A call of the op: x [..., in], weight [experts, out, in], bias [experts, out] or NULL. */
typedef struct dt__grouped {
    const dt_call *c;
    int x, weight, bias, offsets, index; /* indices of the operands */
    dt__routing routing;                 /* sizes from the shape function; lists not yet made */
} dt__grouped;

static inline int64_t dt__grouped_in(const dt__grouped *g) { return g->c->arg[g->weight]->dims[2]; }
static inline int64_t dt__grouped_out(const dt__grouped *g)
{
    return g->c->arg[g->weight]->dims[1];
}
static inline bool dt__grouped_indexed(const dt__grouped *g) { return g->c->arg[g->index] != NULL; }

/* Bytes of c->scratch for forward and for backward. */
size_t dt__grouped_forward_scratch(const dt__grouped *g);
size_t dt__grouped_backward_scratch(const dt__grouped *g);
/* y [assignments, out], the bias added; assignments without an expert give 0. */
void dt__grouped_forward(const dt__grouped *g, void *y);
/* Computes the gradients dx[x], dx[weight] and dx[bias] that are not NULL. */
void dt__grouped_backward(const dt__grouped *g, const void *dy, dt_tensor *const *dx);

/* ---- products that multiply codes without dequantizing them (grouped_codes.c) ---------------- */

/* Products with rows of codes, and with few rows of floats. An expert's rows have the bits that
 * dt_linear has for these rows. */

/* Whether the product is one of codes by codes; whether an expert with this number of float rows
 * multiplies them by codes. */
bool dt__grouped_multiplies(const dt__grouped *g);
bool dt__grouped_is_few(const dt__grouped *g, int64_t rows);

/* Bytes of scratch; 0 if neither is possible. */
size_t dt__grouped_codes_room(const dt__grouped *g);
/* y_e [rows, out] = x_e W_e^T + b_e for every expert or, if x is floats, for the experts with few
 * rows. The lists of g->routing must have been made. */
void dt__grouped_codes_product(const dt__grouped *g, void *room, float *y);

#endif

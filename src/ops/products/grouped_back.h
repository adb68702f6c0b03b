/* The gradients of grouped_linear by products of integers (numerics, "Integer backward"). */
#ifndef DT__OPS_GROUPED_BACK_H
#define DT__OPS_GROUPED_BACK_H

#include "ops/products/grouped_gemm.h"

/* Whether a gradient of a call is a product of integers. */
bool dt__grouped_integer_x(const dt__grouped *g);
bool dt__grouped_integer_w(const dt__grouped *g);

/* Bytes of `room` for those that are needed; 0: none. */
size_t dt__grouped_integer_room(const dt__grouped *g);

/* Computes the gradients that are not NULL, for a call whose routing has its lists. dx_e [rows, in]
 * = dy_e W_e goes to rows of `dx` or, with `by_place`, of dx [places, in]. dw_e [out, in] = dy_e^T
 * x_e. */
typedef struct dt__grouped_integers {
    const dt__grouped *g;
    const float *dy;
    float *dx;
    bool by_place;
    float *dw;
    void *room;
} dt__grouped_integers;
void dt__grouped_integer_backward(const dt__grouped_integers *b);

#endif

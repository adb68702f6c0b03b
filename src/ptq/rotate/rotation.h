/* Orthogonal matrices and products of weights with them, in double. */
#ifndef DT__PTQ_ROTATION_H
#define DT__PTQ_ROTATION_H

#include "core/core.h"

/* Fills r [n][n] with diag(s) (D x H): H the Hadamard matrix of the largest power of two that
 * divides n, over the square root of its order; D the orthonormal DCT-II of n over that; s signs
 * drawn from the stream. */
void dt__rotation_draw(int64_t n, dt__stream *stream, double *r);

/* A matrix within a weight: element (i, j) is x[i * pitch + j]. */
typedef struct dt__part {
    float *x;
    int64_t rows, columns, pitch;
} dt__part;

/* x = x diag(gain) r, r [columns][columns]; gain NULL: 1. Each element is rounded once. The bits
 * do not depend on the number of threads. Errors: NOMEM. */
dt_status dt__rotate_columns(dt_ctx *ctx, const dt__part *x, const float *gain, const double *r);
/* x = r^T x, r [rows][rows]. Likewise. */
dt_status dt__rotate_rows(dt_ctx *ctx, const dt__part *x, const double *r);

#endif

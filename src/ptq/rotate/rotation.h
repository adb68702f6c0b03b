/* Orthogonal matrices and products of weights with them, in double. */
#ifndef DT__PTQ_ROTATION_H
#define DT__PTQ_ROTATION_H

#include "core/core.h"

/* Fills r [n][n] with diag(s) (D x H), where H is the orthonormal Hadamard matrix whose order k is
 * the largest power of two that divides n, D the orthonormal DCT-II of order n / k, x the Kronecker
 * product, and s random signs from the stream. */
void dt__rotation_draw(int64_t n, dt__stream *stream, double *r);

/* A matrix within a weight: element (i, j) is x[i * pitch + j]. */
typedef struct dt__part {
    float *x;
    int64_t rows, columns, pitch;
} dt__part;

/* x = x diag(gain) r, r [columns][columns]; gain NULL: 1. Each element is rounded once. The bits do
 * not depend on the number of threads. Errors: NOMEM. */
dt_status dt__rotate_columns(dt_ctx *ctx, const dt__part *x, const float *gain, const double *r);
/* x = r^T x, r [rows][rows]. Rounding, bits and errors as above. */
dt_status dt__rotate_rows(dt_ctx *ctx, const dt__part *x, const double *r);

#endif

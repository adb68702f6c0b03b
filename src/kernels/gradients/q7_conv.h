/* The gradient of a convolution's weight as products of integers (numerics, "Integer backward").
 *
 * Rows of the product are positions, and its columns taps. Four neighbouring positions of a row of
 * y read four neighbouring bytes of an image for each tap, so words of x are read where they lie:
 * nothing is gathered. A word at the end of a row has codes 0 of dy for the positions beyond. */
#ifndef DT__KERNELS_Q7_CONV_H
#define DT__KERNELS_Q7_CONV_H

#include "kernels/kernels.h"

/* dw [n][k] = dy^T x^ for a group of channels. */
typedef struct dt__q7_conv {
    int64_t batch, rows, across; /* rows and columns of positions of a sample */
    int64_t n, k;                /* outputs and columns of the group */
    const float *dy;             /* [n][rows * across] of sample 0 */
    int64_t dy_sample;           /* floats to the next sample */
    const uint8_t *images; /* address of position (0, 0) of sample 0; column j is at offset[j] */
    int64_t sample, row;   /* bytes to the next sample, and to the next row of positions */
    const int32_t *offset; /* positions of a row are neighbours */
    const float *sx;       /* [batch] */
    const int32_t *zu;     /* [batch] */
    float *dw;
    int threads;
    void *scratch;
} dt__q7_conv;

/* Bytes behind a position's last column that may be read. */
#define DT__Q7_CONV_BEHIND (DT__Q7_WORD - 1)

/* Bytes of scratch; reads only extents and threads. */
size_t dt__q7_conv_scratch(const dt__q7_conv *c);
void dt__q7_conv_run(const dt__kernels *kernels, const dt__q7_conv *c);

#endif

/* Convolutions of integer codes.
 *
 * Convolution as a packed product (panels.h, numerics §2). Each output position of a sample is a
 * row of activations, whose columns are the taps of its group's channels:
 *
 *     u[m][c * taps + k] = code of x[n, c] at tap k of position m; outside x, the code of 0
 *
 * A transposed convolution is one such product for each of its phases (qconv_gather.h). Each thread
 * gathers one tile of positions at a time in its scratch, and multiplies it with all outputs. The
 * sum of an output does not depend on the tiles, nor on the number of threads. */
#ifndef DT__KERNELS_QCONV_H
#define DT__KERNELS_QCONV_H

#include "kernels/conv_geometry.h"
#include "kernels/kernels.h"

typedef struct dt__qconv {
    const dt__conv *conv;
    bool transposed;                /* the adjoint: u are codes of y, the result is x */
    const dt__panel_layout *layout; /* rows are output channels */
    const void *panels;
    const uint8_t *u; /* [batch][ldu]: contiguous images; DT__STEP bytes behind them may be read */
    int64_t ldu;
    const float *sx; /* [batch] */
    const int32_t *zu;
    const float *bias; /* [output channels], or NULL */
    float *y;          /* images */
    int threads;       /* at most */
    void *scratch;     /* dt__qconv_scratch bytes, aligned to 64 */
} dt__qconv;

/* Reads only the operands' extents. */
size_t dt__qconv_scratch(const dt__qconv *q);
void dt__qconv_run(const dt__kernels *kernels, const dt__qconv *q);
/* Gathers code by code, for any geometry; reference for the faster ways. */
void dt__qconv_run_general(const dt__kernels *kernels, const dt__qconv *q);

#endif

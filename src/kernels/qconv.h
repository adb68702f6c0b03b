/* Convolutions of integer codes.
 *
 * An output position of a sample is a row of activations, the columns of its group's channels and
 * taps, and the packed product multiplies it with the rows of the weight (panels.h, numerics §2):
 *
 *     u[m][c * taps + k] = code of x[n, c] where tap k of position m lies inside, else the code of
 *     0
 *
 * Rows are gathered a tile at a time in a thread's scratch, so all of them never exist at once, and
 * the tile's product goes to the images of y while it is in cache. Each output is a product of its
 * own: no bit depends on how positions are cut, or on the number of threads. */
#ifndef DT__KERNELS_QCONV_H
#define DT__KERNELS_QCONV_H

#include "kernels/conv_geometry.h"
#include "kernels/kernels.h"

typedef struct dt__qconv {
    const dt__conv *conv;
    bool
        transposed; /* the adjoint: u are codes of the convolution's y, and what is made is its x */
    const dt__panel_layout *layout; /* rows are output channels */
    const void *panels;
    const uint8_t
        *u; /* [batch][ldu]: images, without gaps; DT__STEP bytes may be read behind them */
    int64_t ldu;
    const float *sx; /* [batch] */
    const int32_t *zu;
    const float *bias; /* [output channels], or NULL */
    float *y;          /* images */
    int threads;       /* at most */
    void *scratch;     /* dt__qconv_scratch bytes, aligned to 64 */
} dt__qconv;

/* Of operands only extents are read. */
size_t dt__qconv_scratch(const dt__qconv *q);
void dt__qconv_run(const dt__kernels *kernels, const dt__qconv *q);
/* By the general road alone: what the faster ones must equal. */
void dt__qconv_run_general(const dt__kernels *kernels, const dt__qconv *q);

#endif

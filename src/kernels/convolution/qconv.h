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

#include "kernels/convolution/conv_geometry.h"
#include "kernels/kernels.h"

/* Results as codes with one scale and zero point, by numerics §8: requantized sums of (u - zu) q. A
 * row of the weight is a single piece, and all samples have the same zu. */
typedef struct dt__qconv_codes {
    const int32_t *offset; /* [output channels]: the bias minus zu times the row's sum of codes */
    const dt__multiplier *by; /* [output channels] */
    int zero, least, most;
    uint8_t *u;       /* images, codes plus 128 */
    int64_t ldu;      /* bytes of a sample of u */
    int8_t *residual; /* residuals as images, contiguous, as in dt__requantizing; or NULL */
} dt__qconv_codes;

typedef struct dt__qconv {
    const dt__conv *conv;
    /* computes the adjoint: u holds codes of y, and the result is x */
    bool transposed;
    const dt__panel_layout *layout; /* rows are output channels */
    const void *panels;
    const uint8_t *u; /* [batch][ldu]: contiguous images; DT__STEP bytes behind them may be read */
    int64_t ldu;
    const float *sx; /* [batch] */
    const int32_t *zu;
    const float *bias;            /* [output channels], or NULL */
    float *y;                     /* images */
    const dt__qconv_codes *codes; /* in place of y; NULL: y */
    int threads;                  /* at most */
    void *scratch;                /* dt__qconv_scratch bytes, aligned to 64 */
} dt__qconv;

/* Positions first ... past - 1 of a tile, whose results are neighbours from element `to` of the
 * images of the first output on; samples are contiguous. */
typedef struct dt__tile_run {
    int first, past;
    int64_t to;
} dt__tile_run;

/* Sums of a tile, and where its positions are in the images of results. */
typedef struct dt__code_tile {
    int rows;                         /* positions, at most DT__CODE_TILE */
    int64_t outputs, first, channels; /* of the tile; the first one; of all groups */
    const int32_t *sum;               /* [outputs][ld] */
    int64_t ld;
    const dt__tile_run *run;
    int runs;
    int64_t plane; /* distance from an output's image to the next */
    int64_t every; /* distance between neighbouring positions */
} dt__code_tile;
#define DT__CODE_TILE 96
/* Requantizes a tile and writes its codes. */
void dt__qconv_write_codes(const dt__kernels *kernels, const dt__qconv *q, const dt__code_tile *t);

/* Reads only the operands' extents. */
size_t dt__qconv_scratch(const dt__qconv *q);
void dt__qconv_run(const dt__kernels *kernels, const dt__qconv *q);
/* Gathers code by code, for any geometry; the reference for the faster methods. */
void dt__qconv_run_general(const dt__kernels *kernels, const dt__qconv *q);

/* ---- depthwise: groups of one channel and few outputs (qdepthwise.c) ------------------------- */

/* Whether a problem is depthwise, and a row of its results reads a canvas of bounded size. */
bool dt__qdepthwise_takes(const dt__qconv *q);
/* Bytes of scratch of such a problem; reads only the operands' extents. */
size_t dt__qdepthwise_scratch(const dt__qconv *q);
void dt__qdepthwise_run(const dt__kernels *kernels, const dt__qconv *q);

#endif

/* Operands of kernels on planes of images: pooling windows, resizing, padding. Extents and steps of
 * an image are pairs, height first. */
#ifndef DT__KERNELS_PLANES_H
#define DT__KERNELS_PLANES_H

#include "core/core.h"

/* Window (i, j) of a plane holds the pixels (i stride[0] - padding[0] + a dilation[0], and so on
 * for j and b) with 0 <= a < kernel[0], 0 <= b < kernel[1]; at least one of them is inside the
 * plane. */
typedef struct dt__windows {
    int64_t planes, in[2], out[2], kernel[2], stride[2], padding[2], dilation[2];
    bool count_padding; /* averages: padding counts in the divisor, but not pixels beyond it */
    bool wide;          /* `at` holds int32, else bytes */
    const void *x;      /* [planes][in] */
    void *y;            /* [planes][out] */
    void *at;           /* maxima: index of the pixel in its window, a kernel[1] + b; or NULL */
} dt__windows;

/* Upsampling: pixel (i, j) of the result is pixel (floor(i in[0] / out[0]), floor(j in[1] /
 * out[1])). Adaptive averages: it is the mean of a bin, whose rows are floor(i in[0] / out[0]) to
 * below ceil((i + 1) in[0] / out[0]), and columns likewise. */
typedef struct dt__resize {
    int64_t planes, in[2], out[2];
} dt__resize;

/* Padding of `planes` tensors of `rank` dimensions: element i of dimension d is element i -
 * before[d], or outside by the mode. */
typedef enum dt__border { DT__CONSTANT, DT__REFLECT, DT__REPLICATE, DT__CIRCULAR } dt__border;

typedef struct dt__pad {
    int64_t planes;
    int rank; /* at least 1 */
    int64_t in[DT_MAX_RANK], out[DT_MAX_RANK], before[DT_MAX_RANK];
    dt__border mode;
    double value; /* DT__CONSTANT */
} dt__pad;

/* The source index of element `i` of a padded dimension; -1: none. */
static inline int64_t dt__pad_source(const dt__pad *p, int d, int64_t i)
{
    const int64_t n = p->in[d], k = i - p->before[d];
    if (k >= 0 && k < n) return k;
    switch (p->mode) {
    case DT__REFLECT: return k < 0 ? -k : 2 * (n - 1) - k;
    case DT__REPLICATE: return k < 0 ? 0 : n - 1;
    case DT__CIRCULAR: return k < 0 ? k + n : k - n;
    default: return -1;
    }
}

#endif

/* What a convolution is, for the kernels of floats and of codes alike.
 *     y[n,o,t] = sum over c, k of x[n, c, t * stride - padding + k * dilation] w[o, c, k]
 * with x 0 outside, c over the channels of o's group, t and k over rows and columns. x is
 * [batch, in, x_size], y [batch, out, y_size], w [out, in / groups, kernel]. A transposed convolution
 * is the adjoint: it makes x of y by the same sums, so its own input stands for y here. A signal is
 * an image of one row. */
#ifndef DT__KERNELS_CONV_H
#define DT__KERNELS_CONV_H

#include "core/core.h"

typedef struct dt__conv {
    int64_t batch, in, out, groups; /* channels of x and of y; groups divide both */
    int64_t x_size[2], y_size[2];   /* rows and columns, each below 2^31 */
    int64_t kernel[2], stride[2], padding[2], dilation[2];
} dt__conv;

/* Positions of y, from `first` to below `past`, for which tap k of an axis (0: rows, 1: columns)
 * meets x, not its padding. */
typedef struct dt__conv_span {
    int64_t first, past;
} dt__conv_span;

/* Where in x tap k of position 0 lies; negative in the padding. */
static inline int64_t dt__conv_start(const dt__conv *c, int axis, int64_t k)
{
    return k * c->dilation[axis] - c->padding[axis];
}

static inline dt__conv_span dt__conv_span_of(const dt__conv *c, int axis, int64_t k)
{
    const int64_t start = dt__conv_start(c, axis, k), stride = c->stride[axis];
    const int64_t first = start < 0 ? dt__ceil_div(-start, stride) : 0;
    const int64_t left = c->x_size[axis] - start; /* of x, from tap k of position 0 on */
    const int64_t past = left > 0 ? dt__ceil_div(left, stride) : 0;
    return (dt__conv_span){ first, dt__max_i64(first, dt__min_i64(past, c->y_size[axis])) };
}

/* Elements of one channel's image, and of one channel's kernel. */
static inline int64_t dt__conv_x_plane(const dt__conv *c) { return c->x_size[0] * c->x_size[1]; }
static inline int64_t dt__conv_y_plane(const dt__conv *c) { return c->y_size[0] * c->y_size[1]; }
static inline int64_t dt__conv_taps(const dt__conv *c) { return c->kernel[0] * c->kernel[1]; }

#endif

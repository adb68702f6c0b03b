/* The geometry of a convolution, for the kernels of floats and of codes.
 *     y[n,o,t] = sum over c, k of x[n, c, t * stride - padding + k * dilation] w[o, c, k]
 * with x 0 outside, c over the channels of o's group, t and k over rows and columns. x is [batch,
 * in, x_size], y [batch, out, y_size], w [out, in / groups, kernel]. A transposed convolution is
 * the adjoint: it computes x from y, so its own input is y here. A signal of one dimension is an
 * image of one row. */
#ifndef DT__KERNELS_CONV_GEOMETRY_H
#define DT__KERNELS_CONV_GEOMETRY_H

#include "core/core.h"

struct dt__kernels;
struct dt__source;

typedef struct dt__conv {
    int64_t batch, in, out, groups; /* channels of x and of y; groups divide both */
    int64_t x_size[2], y_size[2];   /* rows and columns, each below 2^31 */
    int64_t kernel[2], stride[2], padding[2], dilation[2];
} dt__conv;

/* The results to compute, and their operands. A result that is NULL is not computed; y and x are
 * never both computed. The bias is per channel of the computed y or x. */
typedef struct dt__conv_work {
    const dt__conv *conv;
    const void *x, *y, *w; /* operands: x and w for y, y and w for x, x and y for w */
    const struct dt__source *x_source, *y_source; /* in place of x or y; a row is an image */
    const void *bias;                             /* or NULL */
    void *to_x, *to_y, *to_w;
    const uint16_t *x_halves; /* x rounded to bf16, in place of x: for to_w of dt__conv_rounds */
    uint16_t *to_halves;      /* result: x rounded to bf16, of to_y of dt__conv_rounds; or NULL */
    bool ordered;             /* floats, forward only: sums have a defined order (float_convs.h) */
    int products;  /* DT_PRODUCTS_...; the bf16 ones only where bf16_conv.c supports the shape */
    void *scratch; /* of dt__conv_plan */
} dt__conv_work;

/* Whether all work of a convolution of floats with these products rounds x, y and w to bf16. */
bool dt__conv_rounds(const dt__conv *conv, int products);

/* Bytes of scratch that the work needs with a dtype's kernels. Only tests which pointers are NULL.
 * Errors: NOMEM. */
dt_status dt__conv_plan(dt_ctx *ctx, const struct dt__kernels *kernels, const dt__conv_work *work,
                        size_t *scratch);
/* Does the work, on the calling thread's team. */
void dt__conv_compute(dt_ctx *ctx, const struct dt__kernels *kernels, const dt__conv_work *work);

/* Positions of y, `first` ... `past` - 1, at which tap k of an axis (0: rows, 1: columns) is inside
 * x, not in its padding. */
typedef struct dt__conv_span {
    int64_t first, past;
} dt__conv_span;

/* Position in x of tap k at position 0 of y; negative in the padding. */
static inline int64_t dt__conv_start(const dt__conv *c, int axis, int64_t k)
{
    return k * c->dilation[axis] - c->padding[axis];
}

static inline dt__conv_span dt__conv_span_of(const dt__conv *c, int axis, int64_t k)
{
    const int64_t start = dt__conv_start(c, axis, k), stride = c->stride[axis];
    const int64_t first = start < 0 ? dt__ceil_div(-start, stride) : 0;
    const int64_t left = c->x_size[axis] - start; /* elements of x from tap k of position 0 on */
    const int64_t past = left > 0 ? dt__ceil_div(left, stride) : 0;
    return (dt__conv_span){ first, dt__max_i64(first, dt__min_i64(past, c->y_size[axis])) };
}

/* Elements of one channel of x. */
static inline int64_t dt__conv_x_plane(const dt__conv *c) { return c->x_size[0] * c->x_size[1]; }
static inline int64_t dt__conv_y_plane(const dt__conv *c) { return c->y_size[0] * c->y_size[1]; }
static inline int64_t dt__conv_taps(const dt__conv *c) { return c->kernel[0] * c->kernel[1]; }

#endif

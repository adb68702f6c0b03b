/* The inputs of a layer, unfolded: element X[c][s] is multiplied by column c of a weight's work
 * matrices in sample s.
 *
 *     linear         X[i][s] = x[s][i]                      a sample is a row of the input
 *     convolution    X[i, k][n, o] = x[n][i][o * stride - padding + k * dilation]
 *     transposed     X[i, k][n, o] = x[n][i][(o + padding - k * dilation) / stride]
 *
 * where there is such an element, else 0; a sample is a position o of the output, k a tap, both
 * over rows and columns. Group g of a layer has columns g * columns ... of X. X is
 * never stored in full: it is read a part at a time, as doubles. */
#ifndef DT__PTQ_UNFOLD_H
#define DT__PTQ_UNFOLD_H

#include <detent/experimental/ptq.h>

#include "kernels/kernels.h"

/* The work matrices of a weight: `groups` of rows x columns. */
typedef struct dt__work_shape {
    int64_t groups, rows, columns;
} dt__work_shape;

/* Errors: ARG (no such kind), SHAPE (a rank that is not the op's, groups that do not divide), with
 * `name` in the message. */
dt_status dt__work_shape_of(dt_ctx *ctx, const char *name, const dt_weight_op *op, int rank,
                            const int64_t *dims, dt__work_shape *out);

static inline bool dt__is_convolution(const dt_weight_op *op)
{
    return op->kind != DT_WEIGHT_LINEAR && op->kind != DT_WEIGHT_GROUPED_LINEAR;
}
static inline bool dt__is_transposed(const dt_weight_op *op)
{
    return op->kind == DT_WEIGHT_CONV_TRANSPOSE1D || op->kind == DT_WEIGHT_CONV_TRANSPOSE2D;
}

/* A weight's op and shape. */
typedef struct dt__unfolding {
    dt_weight_op op;
    int rank;
    int64_t dims[DT_MAX_RANK]; /* of the weight */
    int64_t groups, columns;   /* of the layer; of one group's matrix */
} dt__unfolding;

/* Errors: SHAPE, ARG. */
dt_status dt__unfolding_of(dt_ctx *ctx, const dt_weight_op *op, int rank, const int64_t *dims,
                           dt__unfolding *out);

/* A batch of inputs. */
typedef struct dt__inputs {
    const dt__unfolding *of;
    const float *x;
    int64_t samples;
    dt__conv conv; /* of convolutions, as kernels/convolution/conv_geometry.h has it */
} dt__inputs;

/* Of a dense, contiguous tensor, which must outlive it. Errors: SHAPE, DTYPE, ARG. */
dt_status dt__inputs_of(dt_ctx *ctx, const dt__unfolding *u, const dt_tensor *x, dt__inputs *out);

/* The number of samples in inputs of this shape, of any kind. Errors: SHAPE. */
dt_status dt__samples_of(dt_ctx *ctx, const dt__unfolding *u, const dt_tensor *x, int64_t *out);

/* A part of X as doubles, on the calling thread: the patch's rows are columns of X, counted over
 * all groups, and its columns are samples. */
void dt__inputs_unfold(const dt__inputs *in, const dt__patch *part);

#endif

/* ops.h: the operators of everyday models; experimental/ops.h has the others, and how to write one
 * of your own.
 *
 * Every operator takes a tape and returns a tensor lent by it, or NULL with the error on the tape.
 * Where a formula says so, operands broadcast from the right as in NumPy. f32 and f64.
 */
#ifndef DETENT_OPS_H
#define DETENT_OPS_H

#include <detent/detent.h>
#include <detent/keys.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- elementwise ----------------------------------------------------------------------------- */

/* Errors of every function below, on the tape: SHAPE, DTYPE or ARG if operands or options are
 * wrong, with the op's name and the operands' shapes; NOMEM. Floats are f32 or f64, all of one
 * dtype. */

/* y = a + b, a - b, a * b, a / b; a and b broadcast. Gradients are summed over broadcast
 * dimensions. */
DT_API dt_tensor *dt_add(dt_tape *t, dt_tensor *a, dt_tensor *b);
DT_API dt_tensor *dt_sub(dt_tape *t, dt_tensor *a, dt_tensor *b); /* a - b */
DT_API dt_tensor *dt_mul(dt_tape *t, dt_tensor *a, dt_tensor *b); /* a * b */
DT_API dt_tensor *dt_div(dt_tape *t, dt_tensor *a, dt_tensor *b); /* a / b */

DT_API dt_tensor *dt_neg(dt_tape *t, dt_tensor *x);     /* y = -x */
DT_API dt_tensor *dt_exp(dt_tape *t, dt_tensor *x);     /* y = e^x */
DT_API dt_tensor *dt_log(dt_tape *t, dt_tensor *x);     /* y = ln x */
DT_API dt_tensor *dt_sqrt(dt_tape *t, dt_tensor *x);    /* y = sqrt(x) */
DT_API dt_tensor *dt_square(dt_tape *t, dt_tensor *x);  /* y = x^2 */
DT_API dt_tensor *dt_tanh(dt_tape *t, dt_tensor *x);    /* y = tanh(x) */
DT_API dt_tensor *dt_sigmoid(dt_tape *t, dt_tensor *x); /* y = 1 / (1 + e^-x) */

DT_API dt_tensor *dt_silu(dt_tape *t, dt_tensor *x); /* y = x / (1 + e^-x) */

/* y = max(x, 0); the derivative at 0 is 0. Keeps one bit per element for backward. */
DT_API dt_tensor *dt_relu(dt_tape *t, dt_tensor *x);

enum { DT_GELU_ERF, DT_GELU_TANH };

/* y = x (1 + erf(x / sqrt 2)) / 2, or with DT_GELU_TANH
 * y = x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2. */
DT_API dt_tensor *dt_gelu(dt_tape *t, dt_tensor *x, int approximate);

/* y = x / (1-p) with probability 1-p, else 0, element by element; 0 <= p <= 1. Draws from the
 * context's random stream; backward drops the same elements. The op has no evaluation mode: modules
 * call it in training only. */
DT_API dt_tensor *dt_dropout(dt_tape *t, dt_tensor *x, double p);

/* ---- products -------------------------------------------------------------------------------- */

/* y[..., i, j] = sum over k of a[..., i, k] b[..., k, j]; ranks of at least 2, batch dimensions
 * broadcast. */
DT_API dt_tensor *dt_matmul(dt_tape *t, dt_tensor *a, dt_tensor *b);

/* y = x W^T + bias: x [..., in], weight [out, in], bias [out] or NULL; y [..., out]. */
DT_API dt_tensor *dt_linear(dt_tape *t, dt_tensor *x, dt_tensor *weight, dt_tensor *bias);

/* [0] is for rows, [1] for columns; 1d convolutions use [0] only. */
typedef struct dt_conv_options {
    int64_t stride[2], padding[2], dilation[2]; /* default 1, 0, 1; padding on both sides */
    int64_t output_padding[2]; /* default 0; of transposed convolutions: added at the end of y */
    int64_t groups;            /* of channels, convolved independently; default 1 */
} dt_conv_options;

/* stride 1, no padding, dilation 1, groups 1 */
DT_API dt_conv_options dt_conv_defaults(void);

/* y[n,o,i,j] = bias[o] + sum over c, k, l of
 *     x[n, c, i stride - padding + k dilation, j stride - padding + l dilation] weight[o,c,k,l]
 * with x 0 outside; x [N, in, H, W], weight [out, in/groups, kh, kw], bias [out] or NULL; y [N,
 * out, H', W'], H' = (H + 2 padding - dilation (kh - 1) - 1) / stride + 1 rounded down. SHAPE if
 * that is below 1 or groups do not divide in and out; ARG for options outside their ranges. */
DT_API dt_tensor *dt_conv2d(dt_tape *t, dt_tensor *x, dt_tensor *weight, dt_tensor *bias,
                            const dt_conv_options *options);

/* ---- reductions ------------------------------------------------------------------------------ */

typedef struct dt_reduce_options {
    dt_ints dims; /* negative ones count from the end; none: all dimensions */
    bool keepdim; /* keep reduced dimensions with extent 1 */
} dt_reduce_options;

/* The sum over `dims`; the sum of no elements is 0. options NULL: over all dimensions, which gives
 * a scalar. */
DT_API dt_tensor *dt_sum(dt_tape *t, dt_tensor *x, const dt_reduce_options *options);

/* The sum divided by the number of elements; the mean of no elements is NaN. */
DT_API dt_tensor *dt_mean(dt_tape *t, dt_tensor *x, const dt_reduce_options *options);

/* y = exp(x - max) / sum of exp(x - max) along `dim`; 0 for -inf, even if all elements are -inf. */
DT_API dt_tensor *dt_softmax(dt_tape *t, dt_tensor *x, int64_t dim);

/* y = x - max - log(sum of exp(x - max)) along `dim`. */
DT_API dt_tensor *dt_log_softmax(dt_tape *t, dt_tensor *x, int64_t dim);

/* ---- losses ---------------------------------------------------------------------------------- */

enum { DT_REDUCE_MEAN, DT_REDUCE_SUM };

typedef struct dt_cross_entropy_options {
    int reduction;          /* DT_REDUCE_...; the mean divides by the rows not ignored */
    int64_t ignore_index;   /* rows of this label are ignored; default -100; 0 is class 0 */
    double label_smoothing; /* s, 0...1 */
    /* focal loss: the loss of a row is multiplied by (1 - p[label])^gamma; 0: not at all; excludes
     * smoothing */
    double gamma;
} dt_cross_entropy_options;

/* reduction mean, ignore_index -100, no smoothing, gamma 0 */
DT_API dt_cross_entropy_options dt_cross_entropy_defaults(void);

/* Sum or mean over rows of (1-s)(-log p[label]) + s mean over classes of (-log p), p = softmax(x).
 * x [N, C] and labels [N], or x [N, C, ...] with classes in dimension 1 and labels [N, ...]; labels
 * i32 or i64 in 0...C-1, else ARG naming the first that is not. If all rows are ignored, loss and
 * gradient are 0. The result is a scalar. */
DT_API dt_tensor *dt_cross_entropy(dt_tape *t, dt_tensor *x, dt_tensor *labels,
                                   const dt_cross_entropy_options *options);

/* The mean (or, with DT_REDUCE_SUM, the sum) of (x - target)^2 over all elements, a scalar. */
DT_API dt_tensor *dt_mse(dt_tape *t, dt_tensor *x, dt_tensor *target, int reduction);

/* ---- shapes: results share the operand's storage where possible ------------------------------ */

/* The same elements, row-major, in another shape; one extent may be -1 and is inferred. */
DT_API dt_tensor *dt_reshape(dt_tape *t, dt_tensor *x, int rank, const int64_t *dims);

/* x itself if it is contiguous, else a contiguous copy, by dt_reshape. For reading results of a
 * model with dt_data: dt_data(dt_contiguous(t, dt_forward(t, m, x))). */
DT_API dt_tensor *dt_contiguous(dt_tape *t, dt_tensor *x);

/* Merges dimensions start ... end (negative ones count from the end) into one: a view if x is
 * contiguous. A scalar becomes [1]. */
DT_API dt_tensor *dt_flatten(dt_tape *t, dt_tensor *x, int64_t start, int64_t end);

/* Swaps dimensions dim0 and dim1: a view. */
DT_API dt_tensor *dt_transpose(dt_tape *t, dt_tensor *x, int64_t dim0, int64_t dim1);

typedef struct dt_slice_options {
    dt_ints dims, starts, stops, steps; /* in parallel; no steps: all 1 */
} dt_slice_options;

/* Elements start, start+step, ... below stop of each given dimension: a view. Negative starts and
 * stops count from the end; both are clamped to the extent, as in Python. steps >= 1. */
DT_API dt_tensor *dt_slice(dt_tape *t, dt_tensor *x, const dt_slice_options *options);

/* Concatenates n operands along `dim`; n in 1...16, all other extents equal. */
DT_API dt_tensor *dt_concat(dt_tape *t, dt_tensor *const *x, int n, int64_t dim);

/* ---- layers ---------------------------------------------------------------------------------- */

typedef struct dt_layer_norm_options {
    int64_t normalized_dims; /* number of last dimensions; default 1 */
    double eps;              /* default 1e-5 */
} dt_layer_norm_options;

/* normalized_dims 1, eps 1e-5 */
DT_API dt_layer_norm_options dt_layer_norm_defaults(void);

/* y = (x - mean) / sqrt(var + eps) * weight + bias over the last dimensions, biased variance.
 * weight and bias have those dimensions; bias, or both, may be NULL. */
DT_API dt_tensor *dt_layer_norm(dt_tape *t, dt_tensor *x, dt_tensor *weight, dt_tensor *bias,
                                const dt_layer_norm_options *options);

/* y[..., :] = weight[index[...], :]; weight [V, C], index i32 or i64 in 0...V-1, else ARG. */
DT_API dt_tensor *dt_embedding(dt_tape *t, dt_tensor *weight, dt_tensor *index);

/* ---- planes of images [N, C, H, W], lines of signals [N, C, L] ------------------------------- */

/* Pairs are height, width; 1d ops read the first number of each. */
typedef struct dt_pool_options {
    int64_t kernel[2];   /* extent of a window; default 2, 2 */
    int64_t stride[2];   /* 0 (default): the kernel */
    int64_t padding[2];  /* at each side; at most half a window; default 0 */
    int64_t dilation[2]; /* 0 (default): 1 */
    bool ceil_mode;      /* the last window may reach past the padded image, if it begins in the
                            image or its left padding; default false */
    /* averages: padding counts in the divisor (what ceil_mode adds never does); default true */
    bool count_include_pad;
} dt_pool_options;

/* 2 x 2, stride 2, no padding, count_include_pad */
DT_API dt_pool_options dt_pool_defaults(void);

/* The largest pixel of each window, [N, C, rows of windows, columns of windows]; padding is never
 * chosen. Of equal pixels the first in row order gets the gradient. Keeps one byte per window for
 * backward (four if a window has more than 255 pixels). *index, unless index is NULL, is the
 * position of each result in its plane, row W + column: i32, of y's shape. SHAPE if a window is
 * larger than the padded image or contains no pixel. */
DT_API dt_tensor *dt_max_pool2d(dt_tape *t, dt_tensor *x, const dt_pool_options *options,
                                dt_tensor **index);
/* The mean of each window's pixels; no dilation. */
DT_API dt_tensor *dt_avg_pool2d(dt_tape *t, dt_tensor *x, const dt_pool_options *options);

#ifdef __cplusplus
}
#endif

/* Includes the experimental part, unless the program defines DETENT_STABLE_ONLY. */
#ifndef DETENT_STABLE_ONLY
#include <detent/experimental/ops.h>
#endif
#endif

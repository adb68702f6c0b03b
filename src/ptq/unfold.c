/* Unfolds inputs (unfold.h). Both kinds of convolution are one relation between positions of the
 * smaller and the larger image, kernels/convolution/conv_geometry.h's y and x:
 *
 *     place in x = place in y * stride + k * dilation - padding
 *
 * A convolution reads x for each place of y; a transposed convolution reads its input y for each
 * place of its output x. */
#include "ptq/unfold.h"

#include "core/tensor.h"
#include "ops/convolution/conv_ops.h"
#include "ops/ops_list.h"

#include <string.h>

#define LINE 16 /* floats of a cache line: columns of a linear layer that are read together */

static const dt_op *const ops[] = {
    [DT_WEIGHT_LINEAR] = &dt__op_linear,
    [DT_WEIGHT_CONV1D] = &dt__op_conv1d,
    [DT_WEIGHT_CONV2D] = &dt__op_conv2d,
    [DT_WEIGHT_CONV_TRANSPOSE1D] = &dt__op_conv_transpose1d,
    [DT_WEIGHT_CONV_TRANSPOSE2D] = &dt__op_conv_transpose2d,
    [DT_WEIGHT_GROUPED_LINEAR] = &dt__op_linear,
};

static bool is_linear(const dt__unfolding *u) { return !dt__is_convolution(&u->op); }

/* The op's call, for its shape function to check; `weight` is a handle for the message. */
static dt_call call_of(dt_ctx *ctx, const dt__unfolding *u, dt_tensor *weight)
{
    *weight = (dt_tensor){ .ctx = ctx, .dtype = DT_F32, .rank = u->rank };
    memcpy(weight->dims, u->dims, sizeof weight->dims);
    return (dt_call){ .ctx = ctx,
                      .op = ops[u->op.kind],
                      .options = &u->op.conv,
                      .n_in = 2,
                      .in = { [DT__CONV_WEIGHT] = weight } };
}

dt_status dt__unfolding_of(dt_ctx *ctx, const dt_weight_op *op, int rank, const int64_t *dims,
                           dt__unfolding *out)
{
    dt__work_shape shape;
    DT__TRY(dt__work_shape_of(ctx, "statistics", op, rank, dims, &shape));
    *out = (dt__unfolding){ *op, rank, .groups = shape.groups, .columns = shape.columns };
    memcpy(out->dims, dims, (size_t)rank * sizeof *dims);
    if (is_linear(out)) return DT_OK;
    dt_tensor weight;
    const dt_call c = call_of(ctx, out, &weight);
    return dt__conv_check_weight(&c);
}

static dt_status linear_inputs(dt_ctx *ctx, const dt_tensor *x, dt__inputs *out)
{
    const int64_t columns = out->of->columns;
    if (x->rank > 0 && x->dims[x->rank - 1] == columns) {
        out->samples = dt__rows(x);
        return DT_OK;
    }
    char text[160];
    return dt_fail(ctx, DT_ERR_SHAPE, "linear: x is %s, weight takes rows of %lld",
                   dt__dims_text(x->rank, x->dims, text, sizeof text), (long long)columns);
}

static dt_status conv_inputs(dt_ctx *ctx, const dt_tensor *x, dt__inputs *out)
{
    dt_tensor weight, y = { .ctx = ctx };
    dt_call c = call_of(ctx, out->of, &weight);
    c.in[DT__CONV_X] = (dt_tensor *)(uintptr_t)x;
    DT__TRY(dt__conv_extents(&c, y.dims));
    memcpy(c.arg, c.in, sizeof c.arg);
    c.y = &y;
    out->conv = dt__conv_of(&c);
    const int64_t *size = dt__is_transposed(&out->of->op) ? out->conv.x_size : out->conv.y_size;
    if (dt__product(3, (const int64_t[]){ out->conv.batch, size[0], size[1] }, &out->samples)) {
        return DT_OK;
    }
    return dt_refuse(&c, DT_ERR_SHAPE, "y has too many positions");
}

dt_status dt__inputs_of(dt_ctx *ctx, const dt__unfolding *u, const dt_tensor *x, dt__inputs *out)
{
    const char *name = ops[u->op.kind]->name;
    if (x->kind != NULL || x->storage == NULL || !dt_is_contiguous(x)) {
        return dt_fail(ctx, DT_ERR_ARG,
                       "%s: its inputs must be dense and contiguous (dt_tensor_contiguous)", name);
    }
    if (x->dtype != DT_F32) {
        return dt_fail(ctx, DT_ERR_DTYPE, "%s: its inputs must be f32, not %s", name,
                       dt_dtype_name(x->dtype));
    }
    *out = (dt__inputs){ .of = u, .x = dt__values(x) };
    return is_linear(u) ? linear_inputs(ctx, x, out) : conv_inputs(ctx, x, out);
}

dt_status dt__samples_of(dt_ctx *ctx, const dt__unfolding *u, const dt_tensor *x, int64_t *out)
{
    dt__inputs in = { .of = u };
    *out = 0;
    DT__TRY(is_linear(u) ? linear_inputs(ctx, x, &in) : conv_inputs(ctx, x, &in));
    *out = in.samples;
    return DT_OK;
}

static void unfold_linear(const dt__inputs *in, const dt__patch *part)
{
    const int64_t columns = in->of->columns;
    for (int64_t c0 = part->r0; c0 < part->r1; c0 += LINE) {
        const int64_t n = dt__min_i64(LINE, part->r1 - c0);
        double *y = (double *)part->y + (c0 - part->r0) * part->ldy;
        for (int64_t s = part->c0; s < part->c1; s++, y++) {
            const float *x = in->x + s * columns + c0;
            for (int64_t i = 0; i < n; i++) y[i * part->ldy] = (double)x[i];
        }
    }
}

/* A column of X: one channel's images at one kernel position. */
typedef struct tap {
    const dt__conv *conv;
    int64_t k[2];
} tap;

static void zeros(int64_t n, double *y)
{
    if (n > 0) memset(y, 0, (size_t)n * sizeof *y);
}

/* Places o0 ... o1-1 of a row of y, from the row of x that the tap reads. */
static void conv_row(const tap *t, const float *x, int64_t o0, int64_t o1, double *y)
{
    const dt__conv_span span = dt__conv_span_of(t->conv, 1, t->k[1]);
    const int64_t stride = t->conv->stride[1], start = dt__conv_start(t->conv, 1, t->k[1]);
    const int64_t first = dt__min_i64(dt__max_i64(span.first, o0), o1);
    const int64_t past = dt__max_i64(dt__min_i64(span.past, o1), first);
    zeros(first - o0, y);
    for (int64_t o = first; o < past; o++) y[o - o0] = (double)x[o * stride + start];
    zeros(o1 - past, y + (past - o0));
}

/* Places o0 ... o1-1 of a row of x, from the row of y that the tap reads. */
static void transposed_row(const tap *t, const float *from, int64_t o0, int64_t o1, double *y)
{
    const dt__conv_span span = dt__conv_span_of(t->conv, 1, t->k[1]);
    const int64_t stride = t->conv->stride[1], start = dt__conv_start(t->conv, 1, t->k[1]);
    zeros(o1 - o0, y);
    int64_t i = o0 > start ? dt__ceil_div(o0 - start, stride) : 0;
    for (i = dt__max_i64(i, span.first); i < span.past && i * stride + start < o1; i++) {
        y[i * stride + start - o0] = (double)from[i];
    }
}

/* The row of the other image that the kernel position reads for row o; -1: none. */
static int64_t row_met(const tap *t, bool transposed, int64_t o)
{
    const int64_t stride = t->conv->stride[0], start = dt__conv_start(t->conv, 0, t->k[0]);
    const int64_t i = transposed ? (o - start) / stride : o * stride + start;
    const int64_t rows = transposed ? t->conv->y_size[0] : t->conv->x_size[0];
    return i >= 0 && i < rows && (!transposed || i * stride + start == o) ? i : -1;
}

/* Samples s0 ... s1-1 of column c of X, row by row of the images. */
static void unfold_tap(const dt__inputs *in, int64_t c, int64_t s0, int64_t s1, double *y)
{
    const dt__conv *conv = &in->conv;
    const bool transposed = dt__is_transposed(&in->of->op);
    const int64_t taps = dt__conv_taps(conv), channel = c / taps;
    const tap t = { conv, { c % taps / conv->kernel[1], c % conv->kernel[1] } };
    const int64_t *from = transposed ? conv->y_size : conv->x_size;
    const int64_t *to = transposed ? conv->x_size : conv->y_size;
    const int64_t channels = transposed ? conv->out : conv->in;
    for (int64_t s = s0, past; s < s1; s = past) {
        const int64_t line = s / to[1], image = line / to[0];
        const int64_t o0 = s - line * to[1], i = row_met(&t, transposed, line % to[0]);
        past = dt__min_i64(s1, (line + 1) * to[1]);
        if (i < 0) {
            zeros(past - s, y + (s - s0));
            continue;
        }
        const float *row = in->x + ((image * channels + channel) * from[0] + i) * from[1];
        (transposed ? transposed_row : conv_row)(&t, row, o0, o0 + past - s, y + (s - s0));
    }
}

void dt__inputs_unfold(const dt__inputs *in, const dt__patch *part)
{
    if (is_linear(in->of)) {
        unfold_linear(in, part);
        return;
    }
    for (int64_t c = part->r0; c < part->r1; c++) {
        double *y = (double *)part->y + (c - part->r0) * part->ldy;
        unfold_tap(in, c, part->c0, part->c1, y);
    }
}

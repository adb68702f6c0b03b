/* The common part of the pooling ops: windows over the planes of x [N, C, H, W], or over the lines
 * of x [N, C, L]. Along one dimension, with w = dilation (kernel - 1) + 1 and
 * room = extent + 2 padding:
 *     windows = floor((room - w) / stride) + 1
 * ceil_mode: ceil instead of floor, but every window begins in the image or its left padding.
 *     max   y = max over the window of x
 *         dx = sum of dy over the windows where x is the first largest
 *     mean  y = (sum of the window's pixels) / n
 *         dx = sum of dy / n over the windows that contain x
 *     mean of a plane  y[n, c] = (sum of x[n, c]) / pixels      dx = dy / pixels, repeated */
#include "ops/pool/pool_ops.h"

const dt_pool_options dt__pool_defaults = { .kernel = { 2, 2 },
                                            .dilation = { 1, 1 },
                                            .count_include_pad = true };

dt_pool_options dt_pool_defaults(void) { return dt__pool_defaults; }

static const char *side(const dt_call *c, int d)
{
    return c->in[0]->rank == 3 ? "length" : d == 0 ? "height" : "width";
}

/* The number of spatial dimensions of x: 2 or 1. */
static int axes_of(const dt_call *c) { return c->in[0]->rank - 2; }

/* The default stride and dilation, for an option of 0. */
static int64_t stride_of(const dt_pool_options *o, int d)
{
    return o->stride[d] == 0 ? o->kernel[d] : o->stride[d];
}

static int64_t dilation_of(const dt_pool_options *o, int d)
{
    return o->dilation[d] == 0 ? 1 : o->dilation[d];
}

static dt_status check_options(const dt_call *c, const dt_pool_options *o, int d)
{
    const struct {
        const char *name;
        int64_t value, least;
    } checks[] = { { "kernel", o->kernel[d], 1 },
                   { "stride", stride_of(o, d), 1 },
                   { "padding", o->padding[d], 0 },
                   { "dilation", dilation_of(o, d), 1 } };
    for (int i = 0; i < DT__COUNT_OF(checks); i++) {
        if (checks[i].value >= checks[i].least) continue;
        return dt_refuse(c, DT_ERR_ARG, "%s of the %s is %lld, below %lld", checks[i].name,
                         side(c, d), (long long)checks[i].value, (long long)checks[i].least);
    }
    return DT_OK;
}

/* The windows of a call whose result 0 exists; a line is a plane of one row. The caller sets x, y
 * and at. */
static dt__windows windows_of(const dt_call *c, const dt_pool_options *o)
{
    const dt_tensor *x = c->in[0], *y = c->y;
    const int axes = axes_of(c);
    dt__windows p = { .planes = x->dims[0] * x->dims[1],
                      .in = { 1 },
                      .out = { 1 },
                      .kernel = { 1 },
                      .stride = { 1 },
                      .dilation = { 1 },
                      .count_padding = o->count_include_pad };
    for (int d = 0; d < axes; d++) {
        const int to = 2 - axes + d;
        p.in[to] = x->dims[2 + d];
        p.out[to] = y->dims[2 + d];
        p.kernel[to] = o->kernel[d];
        p.stride[to] = stride_of(o, d);
        p.padding[to] = o->padding[d];
        p.dilation[to] = dilation_of(o, d);
    }
    return p;
}

/* Can only fail with dilation, since padding is at most half a window. */
static bool every_window_has_a_pixel(const dt__windows *p, int d)
{
    for (int64_t i = 0; i < p->out[d]; i++) {
        const int64_t start = i * p->stride[d] - p->padding[d], step = p->dilation[d];
        const int64_t skipped = start < 0 ? dt__ceil_div(-start, step) : 0;
        if (skipped >= p->kernel[d] || start + skipped * step >= p->in[d]) return false;
    }
    return true;
}

static dt_status count_windows(const dt_call *c, const dt_pool_options *o, int d, int64_t *out)
{
    const int64_t in = c->in[0]->dims[2 + d], padding = o->padding[d], stride = stride_of(o, d);
    int64_t window, room;
    if (__builtin_mul_overflow(o->kernel[d] - 1, dilation_of(o, d), &window) ||
        __builtin_add_overflow(window, 1, &window)) {
        return dt_refuse(c, DT_ERR_SHAPE, "the %s of a window is too large", side(c, d));
    }
    if (padding > window / 2) {
        return dt_refuse(c, DT_ERR_ARG,
                         "padding %lld of the %s is more than half of a window of %lld",
                         (long long)padding, side(c, d), (long long)window);
    }
    if (__builtin_add_overflow(in, 2 * padding, &room) || window > room) {
        return dt_refuse(c, DT_ERR_SHAPE, "a window of %lld does not fit %s %lld with padding %lld",
                         (long long)window, side(c, d), (long long)in, (long long)padding);
    }
    *out = (room - window) / stride + 1;
    const int64_t rest = (room - window) % stride, last = room - window - rest;
    if (o->ceil_mode && rest > 0 && stride < in + padding - last) ++*out;
    return DT_OK;
}

/* Checks x and the options, and makes result 0. */
static dt_status windows_shape(dt_call *c, const dt_pool_options *o, int axes)
{
    DT__TRY(dt__want_operands(c, 1, 1));
    DT__TRY(dt__want_float(c, 0));
    DT__TRY(dt__want_rank(c, 0, 2 + axes, 2 + axes));
    const dt_tensor *x = c->in[0];
    int64_t dims[4] = { x->dims[0], x->dims[1] };
    for (int d = 0; d < axes; d++) {
        DT__TRY(check_options(c, o, d));
        DT__TRY(count_windows(c, o, d, &dims[2 + d]));
    }
    DT__TRY(dt_result(c, 0, x->dtype, x->rank, dims));
    const dt__windows p = windows_of(c, o);
    for (int d = 0; d < axes; d++) {
        if (p.planes == 0 || every_window_has_a_pixel(&p, 2 - axes + d)) continue;
        return dt_refuse(c, DT_ERR_SHAPE, "a window lies in the padding of the %s, without a pixel",
                         side(c, d));
    }
    return DT_OK;
}

/* ---- maxima: padding is never chosen --------------------------------------------------------- */

enum { Y, AT, INDEX };

#define BYTE_PIXELS 255

const dt__max_pool_options dt__max_pool_defaults = { .pool = { .kernel = { 2, 2 },
                                                               .dilation = { 1, 1 } } };

static dt_status max_shape(dt_call *c, int axes)
{
    const dt__max_pool_options *o = c->options;
    int64_t pixels = o->pool.kernel[0];
    DT__TRY(windows_shape(c, &o->pool, axes));
    if ((axes == 2 && __builtin_mul_overflow(pixels, o->pool.kernel[1], &pixels)) ||
        pixels > INT32_MAX) {
        return dt_refuse(c, DT_ERR_SHAPE, "a window may have at most %d pixels", INT32_MAX);
    }
    const dt__windows p = windows_of(c, &o->pool);
    if (o->index && p.in[0] > 0 && p.in[1] > INT32_MAX / p.in[0]) {
        return dt_refuse(c, DT_ERR_SHAPE, "a plane has too many pixels for an index of int32");
    }
    c->state[0] = pixels > BYTE_PIXELS;
    if (!c->recording && !o->index) return DT_OK;
    const dt_tensor *y = c->y;
    DT__TRY(dt_result(c, AT, pixels > BYTE_PIXELS ? DT_I32 : DT_U8, y->rank, y->dims));
    return o->index ? dt_result(c, INDEX, DT_I32, y->rank, y->dims) : DT_OK;
}

dt_status dt__max_pool1d_shape(dt_call *c) { return max_shape(c, 1); }
dt_status dt__max_pool2d_shape(dt_call *c) { return max_shape(c, 2); }

static dt__windows maxima_of(const dt_call *c)
{
    dt__windows p = windows_of(c, &((const dt__max_pool_options *)c->options)->pool);
    p.wide = c->state[0] != 0;
    if (c->n_out > AT) p.at = dt__data_mut(c->out[AT]);
    return p;
}

static void write_index(const dt__windows *p, int32_t *index)
{
    const int64_t out = p->out[0] * p->out[1];
    for (int64_t k = 0; k < p->planes * out; k++) {
        const int64_t i = k % out / p->out[1], j = k % p->out[1];
        const int64_t number = p->wide ? ((const int32_t *)p->at)[k] : ((const uint8_t *)p->at)[k];
        const int64_t a = number / p->kernel[1], b = number % p->kernel[1];
        const int64_t row = i * p->stride[0] - p->padding[0] + a * p->dilation[0];
        const int64_t column = j * p->stride[1] - p->padding[1] + b * p->dilation[1];
        index[k] = (int32_t)(row * p->in[1] + column);
    }
}

void dt__max_pool_forward(const dt_call *c)
{
    dt__windows p = maxima_of(c);
    p.x = dt__data(c->arg[0]);
    p.y = dt__data_mut(c->y);
    c->kernels->max_pool(&p);
    if (c->n_out > INDEX) write_index(&p, dt__data_mut(c->out[INDEX]));
}

void dt__max_pool_backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const dt__windows p = maxima_of(c);
    c->kernels->max_pool_backward(&p, dt__data(dy), dt__data_mut(dx[0]));
}

dt_tensor *dt__max_pool_apply(dt_tape *t, const dt_op *op, dt_tensor *x, const dt_pool_options *o,
                              dt_tensor **index)
{
    dt__max_pool_options with = dt__max_pool_defaults;
    dt_tensor *out[3] = { NULL };
    if (o != NULL) with.pool = *o;
    with.index = index != NULL;
    dt_apply_n(t, op, DT__CALL_WITH(&with, x), out, 3);
    if (index != NULL) *index = out[INDEX];
    return out[Y];
}

/* ---- averages -------------------------------------------------------------------------------- */

static dt_status average_shape(dt_call *c, int axes)
{
    const dt_pool_options *o = c->options;
    for (int d = 0; d < axes; d++) {
        if (o->dilation[d] > 1)
            return dt_refuse(c, DT_ERR_ARG, "dilation is above 1, which only max pooling supports");
    }
    return windows_shape(c, o, axes);
}

dt_status dt__avg_pool1d_shape(dt_call *c) { return average_shape(c, 1); }
dt_status dt__avg_pool2d_shape(dt_call *c) { return average_shape(c, 2); }

dt__windows dt__avg_pool_windows(const dt_call *c) { return windows_of(c, c->options); }

void dt__avg_pool_forward(const dt_call *c)
{
    dt__windows p = windows_of(c, c->options);
    p.x = dt__data(c->arg[0]);
    p.y = dt__data_mut(c->y);
    c->kernels->avg_pool(&p);
}

void dt__avg_pool_backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const dt__windows p = windows_of(c, c->options);
    c->kernels->avg_pool_backward(&p, dt__data(dy), dt__data_mut(dx[0]));
}

/* ---- the mean of a plane --------------------------------------------------------------------- */

static int64_t pixels_of(const dt_tensor *x)
{
    int64_t pixels = 1;
    for (int d = 2; d < x->rank; d++) pixels *= x->dims[d];
    return pixels;
}

static dt_status global_shape(dt_call *c, int axes)
{
    DT__TRY(dt__want_operands(c, 1, 1));
    DT__TRY(dt__want_float(c, 0));
    DT__TRY(dt__want_rank(c, 0, 2 + axes, 2 + axes));
    const dt_tensor *x = c->in[0];
    if (pixels_of(x) == 0) {
        return dt_refuse(c, DT_ERR_SHAPE,
                         "the input has no pixel to average; expected extents of 1 or more");
    }
    return dt_result(c, 0, x->dtype, x->rank, (const int64_t[]){ x->dims[0], x->dims[1], 1, 1 });
}

dt_status dt__global_avg_pool1d_shape(dt_call *c) { return global_shape(c, 1); }
dt_status dt__global_avg_pool2d_shape(dt_call *c) { return global_shape(c, 2); }

void dt__global_avg_pool_forward(const dt_call *c)
{
    const dt_tensor *x = c->arg[0];
    const int64_t pixels = pixels_of(x);
    c->kernels->sum(&(dt__reduce){ .rank = 2,
                                   .dims = { c->y->count, pixels },
                                   .over = { false, true },
                                   .divisor = (double)pixels,
                                   .x = dt__data(x),
                                   .y = dt__data_mut(c->y) });
}

size_t dt__global_avg_pool_scratch(const dt_call *c) { return dt__bytes_of(c->y); }

void dt__global_avg_pool_backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const int64_t n = pixels_of(dx[0]);
    if (dy->count == 0) return;
    c->kernels->scale(dy->count, 1 / (double)n, dt__data(dy), c->scratch);
    c->kernels->copy(&(dt__copy){ .rank = 2,
                                  .dims = { dy->count, n },
                                  .x = c->scratch,
                                  .x_strides = { 1, 0 },
                                  .y = dt__data_mut(dx[0]),
                                  .y_strides = { n, 1 } });
}

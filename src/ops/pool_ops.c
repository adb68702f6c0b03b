/* Windows over the planes of x [N, C, H, W]. Along one dimension, with w = dilation (kernel - 1) +
 * 1 and room = extent + 2 padding:
 *     windows = floor((room - w) / stride) + 1
 * ceil_mode: ceil instead of floor, but every window begins in the image or its left padding. */
#include "ops/pool_ops.h"

const dt_pool_options dt__pool_defaults = { .kernel = { 2, 2 },
                                            .dilation = { 1, 1 },
                                            .count_include_pad = true };

dt_pool_options dt_pool_defaults(void) { return dt__pool_defaults; }

static const char *const side[] = { "height", "width" };

/* The stride and dilation that an option of 0 means. */
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
        return dt_refuse(c, DT_ERR_ARG, "%s of the %s is %lld, below %lld", checks[i].name, side[d],
                         (long long)checks[i].value, (long long)checks[i].least);
    }
    return DT_OK;
}

/* Can only be false with dilation, since padding is at most half a window. */
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
        return dt_refuse(c, DT_ERR_SHAPE, "the %s of a window is too large", side[d]);
    }
    if (padding > window / 2) {
        return dt_refuse(c, DT_ERR_ARG,
                         "padding %lld of the %s is more than half of a window of %lld",
                         (long long)padding, side[d], (long long)window);
    }
    if (__builtin_add_overflow(in, 2 * padding, &room) || window > room) {
        return dt_refuse(c, DT_ERR_SHAPE, "a window of %lld does not fit %s %lld with padding %lld",
                         (long long)window, side[d], (long long)in, (long long)padding);
    }
    *out = (room - window) / stride + 1;
    const int64_t rest = (room - window) % stride, last = room - window - rest;
    if (o->ceil_mode && rest > 0 && stride < in + padding - last) ++*out;
    return DT_OK;
}

dt_status dt__windows_shape(dt_call *c, const dt_pool_options *o)
{
    DT__TRY(dt__want_operands(c, 1, 1));
    DT__TRY(dt__want_float(c, 0));
    DT__TRY(dt__want_rank(c, 0, 4, 4));
    const dt_tensor *x = c->in[0];
    int64_t dims[4] = { x->dims[0], x->dims[1] };
    for (int d = 0; d < 2; d++) {
        DT__TRY(check_options(c, o, d));
        DT__TRY(count_windows(c, o, d, &dims[2 + d]));
    }
    DT__TRY(dt_result(c, 0, x->dtype, 4, dims));
    const dt__windows p = dt__windows_of(c, o);
    for (int d = 0; d < 2; d++) {
        if (p.planes == 0 || every_window_has_a_pixel(&p, d)) continue;
        return dt_refuse(c, DT_ERR_SHAPE, "a window lies in the padding of the %s, without a pixel",
                         side[d]);
    }
    return DT_OK;
}

dt__windows dt__windows_of(const dt_call *c, const dt_pool_options *o)
{
    const dt_tensor *x = c->in[0], *y = c->y;
    dt__windows p = { .planes = x->dims[0] * x->dims[1], .count_padding = o->count_include_pad };
    for (int d = 0; d < 2; d++) {
        p.in[d] = x->dims[2 + d];
        p.out[d] = y->dims[2 + d];
        p.kernel[d] = o->kernel[d];
        p.stride[d] = stride_of(o, d);
        p.padding[d] = o->padding[d];
        p.dilation[d] = dilation_of(o, d);
    }
    return p;
}

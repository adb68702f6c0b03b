/* Pools over windows, and maxima over whole images. */
#include "io/onnx/operators/onnx_window.h"

#include <float.h>
#include <string.h>

#define MOST_WEIGHTS ((int64_t)1 << 22) /* of a mean along an axis, as a matrix */

/* Whether windows with equal padding on both sides, of which the last may reach past x (ceil_mode),
 * are those of the node: then other padding behind x needs no layer if it is not counted. */
static bool reaches_past(const dt__onnx_window *w, const dt_shape *x)
{
    for (int i = 0; i < w->axes; i++) {
        const int64_t n = x->dims[1 + i], reach = (w->kernel[i] - 1) * w->dilation[i] + 1;
        const int64_t stride = w->stride[i], before = w->before[i];
        if (2 * before > reach || reach > n + 2 * before) return false;
        int64_t windows = (n + 2 * before - reach) / stride + 1;
        const bool rest = (n + 2 * before - reach) % stride > 0;
        if (rest && windows * stride < n + before) windows++;
        if (windows != (n + before + w->after[i] - reach) / stride + 1) return false;
        if (w->dilation[i] > 1 && (windows - 1) * stride - before >= n - reach) return false;
    }
    return true;
}

/* For auto_pad SAME, onnxruntime computes the padding of a pool from the kernel without dilation,
 * and starts inside of x if strides exceed the kernel, unlike the specification: such nodes are
 * refused. */
static dt_status check_same(dt__onnx *g, const dt_shape *x, const dt__onnx_window *w)
{
    const bool upper = dt__onnx_says(g, "auto_pad", "SAME_UPPER", "NOTSET");
    if (!upper && !dt__onnx_says(g, "auto_pad", "SAME_LOWER", "NOTSET")) return DT_OK;
    for (int i = 0; i < w->axes; i++) {
        const int64_t n = x->dims[1 + i], windows = dt__ceil_div(n, w->stride[i]);
        const int64_t all = (windows - 1) * w->stride[i] + w->kernel[i] - n;
        const bool dilated = w->dilation[i] > 1 && w->kernel[i] > 1;
        if (!dilated && all >= (upper ? -1 : -2)) continue;
        return dt__onnx_refuse(g,
                               "with auto_pad and %s in dimension %d, of which onnxruntime "
                               "computes other windows than ONNX says; give pads",
                               dilated ? "dilations" : "strides larger than the kernel", 2 + i);
    }
    return DT_OK;
}

/* Whether a layer supports these windows, with equal padding on both sides. `*past`: with its ceil
 * mode. */
static bool fits_layer(const dt__onnx *g, const dt__onnx_window *w, const dt_shape *x, bool counted,
                       bool *past)
{
    bool even = w->axes <= 2 && dt__onnx_is_even(w);
    const bool up = dt__onnx_int_of(g->node, "ceil_mode", 0) != 0;
    for (int i = 0; i < w->axes; i++) even &= 2 * w->before[i] <= w->kernel[i];
    *past = w->axes <= 2 && !even && !up && !counted && reaches_past(w, x);
    return even || *past;
}

/* Adds a pool over the first two axes of w, with its padding. */
static dt_status add_pool(dt__onnx *g, const char *const kind[2], const dt__onnx_window *w,
                          bool ceil_mode, bool counted, dt__onnx_layer **x)
{
    dt__onnx_layer *l;
    DT__TRY(dt__onnx_new(g, kind[w->axes - 1], &l));
    dt_pool_options *o = &((dt_pool_layer *)l->options)->pool;
    o->ceil_mode = ceil_mode;
    o->count_include_pad = counted;
    dt__onnx_pool_window(o, w);
    dt__onnx_read_from(l, *x);
    *x = l;
    return dt__onnx_add(g, l);
}

/* The window of a node, and whether a layer has it. */
static dt_status read_pool(dt__onnx *g, dt__onnx_layer **x, dt__onnx_window *w)
{
    DT__TRY(dt__onnx_image(g, 0, x));
    w->axes = (*x)->shape.rank - 1;
    if (w->axes < 1 || w->axes > DT__ONNX_AXES) {
        return dt__onnx_refuse(g, "it has %d spatial dimensions; expected 1 to %d", w->axes,
                               DT__ONNX_AXES);
    }
    DT__TRY(dt__onnx_window_list(g, "kernel_shape", w->axes, 0, w->kernel));
    for (int i = 0; i < w->axes; i++) {
        if (w->kernel[i] < 1)
            return dt__onnx_refuse(g, "a window has no elements; expected 1 or more");
    }
    DT__TRY(dt__onnx_read_window(g, &(*x)->shape, w));
    DT__TRY(check_same(g, &(*x)->shape, w));
    for (int i = 0; i < w->axes; i++) {
        if (dt__onnx_windows(g, &(*x)->shape, w, i) > 0) continue;
        return dt__onnx_refuse(g, "its window does not fit dimension %d of its input", 2 + i);
    }
    return DT_OK;
}

/* ---- maxima ---------------------------------------------------------------------------------- */

/* Pads x with -FLT_MAX, so that windows need no padding. Windows that are in the padding only are
 * refused. */
static dt_status pad_maxima(dt__onnx *g, dt__onnx_window *w, dt__onnx_layer **x)
{
    const dt_shape shape = (*x)->shape;
    for (int i = 0; i < w->axes; i++) {
        const int64_t reach = (w->kernel[i] - 1) * w->dilation[i] + 1, n = shape.dims[1 + i];
        const int64_t whole = (dt__onnx_windows(g, &shape, w, i) - 1) * w->stride[i] + reach;
        if (w->before[i] >= reach || whole - reach >= n + w->before[i]) {
            return dt__onnx_refuse(g, "a window covers only padding");
        }
        const int64_t after = dt__max_i64(0, whole - n - w->before[i]);
        DT__TRY(dt__onnx_padded(g, *x, 2 + i, w->before[i], after, -(double)FLT_MAX, x));
        w->before[i] = w->after[i] = 0;
    }
    return DT_OK;
}

static const char *const max_kind[] = { "max_pool1d", "max_pool2d" };

/* Maxima over a volume: first along its first axis, then over the other two. */
static dt_status max_volume(dt__onnx *g, const dt__onnx_window *w, dt__onnx_layer **x)
{
    dt__onnx_window first = { .axes = 2,
                              .kernel = { w->kernel[0], 1 },
                              .stride = { w->stride[0], 1 },
                              .dilation = { w->dilation[0], 1 } };
    dt__onnx_window rest = { .axes = 2 };
    const int64_t *n = (*x)->shape.dims;
    const dt_shape planes = { 3, { n[0], n[1], n[2] * n[3] } }, whole = (*x)->shape;
    for (int i = 0; i < 2; i++) {
        rest.kernel[i] = w->kernel[1 + i];
        rest.stride[i] = w->stride[1 + i];
        rest.dilation[i] = w->dilation[1 + i];
    }
    DT__TRY(dt__onnx_reshaped(g, *x, &planes, x));
    DT__TRY(add_pool(g, max_kind, &first, false, true, x));
    const int64_t depth = (*x)->shape.dims[1];
    const dt_shape images = { 3, { whole.dims[0] * depth, whole.dims[2], whole.dims[3] } };
    DT__TRY(dt__onnx_reshaped(g, *x, &images, x));
    DT__TRY(add_pool(g, max_kind, &rest, false, true, x));
    const dt_shape result = { 4,
                              { whole.dims[0], depth, (*x)->shape.dims[1], (*x)->shape.dims[2] } };
    return dt__onnx_reshaped(g, *x, &result, x);
}

dt_status dt__onnx_max_pool(dt__onnx *g)
{
    dt__onnx_window w = { .axes = 0 };
    dt__onnx_layer *l;
    bool past;
    if (dt__onnx_out(g, 1) != NULL)
        return dt__onnx_refuse(g, "it has indices as a second result, which is not read");
    DT__TRY(read_pool(g, &l, &w));
    const dt_shape shape = l->shape;
    const dt__onnx_window whole = w;
    if (fits_layer(g, &w, &shape, false, &past)) {
        const bool up = dt__onnx_int_of(g->node, "ceil_mode", 0) != 0;
        DT__TRY(add_pool(g, max_kind, &w, up || past, true, &l));
    } else {
        DT__TRY(pad_maxima(g, &w, &l));
        DT__TRY(w.axes == 3 ? max_volume(g, &w, &l) : add_pool(g, max_kind, &w, false, true, &l));
    }
    DT__TRY(dt__onnx_check_extents(g, &shape, &whole, &l->shape));
    return dt__onnx_image_result(g, 0, l);
}

/* ---- means ----------------------------------------------------------------------------------- */

/* A mean over windows along one axis; zeros of the padding count, or not. */
static dt_status mean_along(dt__onnx *g, const dt__onnx_window *w, int i, bool counted,
                            dt__onnx_layer **x)
{
    const int64_t n = (*x)->shape.dims[1 + i], windows = dt__onnx_windows(g, &(*x)->shape, w, i);
    int64_t count;
    if (__builtin_mul_overflow(n, windows, &count) || count > MOST_WEIGHTS) {
        return dt__onnx_refuse(g, "it has %lld windows of %lld elements, too many",
                               (long long)windows, (long long)n);
    }
    float *weight = dt__onnx_memory(g, count, sizeof *weight);
    if (weight == NULL) return DT_ERR_NOMEM;
    memset(weight, 0, (size_t)count * sizeof *weight);
    for (int64_t o = 0; o < windows; o++) {
        int64_t first = n, end = -1, taps = 0;
        for (int64_t k = 0; k < w->kernel[i]; k++) {
            const int64_t at = o * w->stride[i] - w->before[i] + k * w->dilation[i];
            const bool inside = at >= 0 && at < n;
            taps += inside || (counted && at < n + w->after[i]);
            if (inside) first = dt__min_i64(first, at);
            if (inside) end = at;
        }
        if (end < 0) return dt__onnx_refuse(g, "a window covers only padding");
        for (; first <= end; first += w->dilation[i]) {
            weight[o * n + first] = (float)(1 / (double)taps);
        }
    }
    return dt__onnx_mixed(g, *x, 2 + i, windows, weight, x);
}

/* The layer if it fits, else a mean along each axis in turn, as the counts multiply. */
dt_status dt__onnx_average_pool(dt__onnx *g)
{
    static const char *const kind[] = { "avg_pool1d", "avg_pool2d" };
    dt__onnx_window w = { .axes = 0 };
    dt__onnx_layer *l;
    bool past;
    const bool counted = dt__onnx_int_of(g->node, "count_include_pad", 0) != 0;
    const bool up = dt__onnx_int_of(g->node, "ceil_mode", 0) != 0;
    DT__TRY(read_pool(g, &l, &w));
    const dt_shape shape = l->shape;
    const dt__onnx_window whole = w;
    bool dilated = false;
    for (int i = 0; i < w.axes; i++) dilated |= w.dilation[i] != 1;
    if (!dilated && fits_layer(g, &w, &shape, counted, &past)) {
        DT__TRY(add_pool(g, kind, &w, up || past, counted, &l));
    } else if (!dilated && w.axes <= 2 && counted && !up) {
        DT__TRY(dt__onnx_pad_before(g, &w, 0, &l));
        DT__TRY(add_pool(g, kind, &w, false, true, &l));
    } else {
        for (int i = 0; i < w.axes; i++) DT__TRY(mean_along(g, &w, i, counted, &l));
    }
    DT__TRY(dt__onnx_check_extents(g, &shape, &whole, &l->shape));
    return dt__onnx_image_result(g, 0, l);
}

/* ---- the whole image ------------------------------------------------------------------------- */

dt_status dt__onnx_global_max_pool(dt__onnx *g)
{
    dt__onnx_window w = { .axes = 0 };
    dt__onnx_layer *l;
    DT__TRY(dt__onnx_image(g, 0, &l));
    dt_shape result = l->shape, flat = { 2, { l->shape.dims[0], 1 } };
    w.axes = l->shape.rank - 1;
    if (w.axes < 1) return dt__onnx_refuse(g, "its input has rank %d, which is not read", w.axes);
    for (int i = 0; i < w.axes; i++) {
        flat.dims[1] *= result.dims[1 + i];
        result.dims[1 + i] = 1;
    }
    if (w.axes > 2) DT__TRY(dt__onnx_reshaped(g, l, &flat, &l));
    w.axes = l->shape.rank - 1;
    for (int i = 0; i < w.axes; i++) {
        w.kernel[i] = l->shape.dims[1 + i];
        w.stride[i] = w.dilation[i] = 1;
    }
    DT__TRY(add_pool(g, max_kind, &w, false, true, &l));
    DT__TRY(dt__onnx_reshaped(g, l, &result, &l));
    return dt__onnx_image_result(g, 0, l);
}

dt_status dt__onnx_global_average_pool(dt__onnx *g)
{
    dt__onnx_layer *x, *l;
    DT__TRY(dt__onnx_image(g, 0, &x));
    const int axes = x->shape.rank - 1;
    if (axes < 1)
        return dt__onnx_refuse(g, "its input has rank %d, which is not read", x->shape.rank);
    DT__TRY(dt__onnx_new(g,
                         axes == 1   ? "global_avg_pool1d"
                         : axes == 2 ? "global_avg_pool2d"
                                     : "mean",
                         &l));
    if (axes > 2) {
        dt_reduce_options *o = &((dt_reduce_layer *)l->options)->reduce;
        for (int i = 0; i < axes; i++) o->dims.v[o->dims.n++] = 2 + i;
        o->keepdim = true;
    }
    DT__TRY(dt__onnx_add_on(g, l, x));
    return dt__onnx_image_result(g, 0, l);
}

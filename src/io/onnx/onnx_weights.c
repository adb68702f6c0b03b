/* Nodes with weights: convolutions, products with a matrix, norms. */
#include "io/onnx/onnx.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- convolutions ---------------------------------------------------------------------------- */

/* What a window does along the spatial dimensions. */
typedef struct window {
    int axes;
    int64_t kernel[2], stride[2], dilation[2], before[2], after[2], output_padding[2];
} window;

static dt_status read_list(dt__onnx *g, const char *name, int axes, int64_t fallback,
                           int64_t out[2])
{
    dt_ints list;
    DT__TRY(dt__onnx_list(g, name, &list));
    if (list.n != 0 && list.n != axes) {
        return dt__onnx_refuse(g, "%s has %d numbers for %d dimensions", name, list.n, axes);
    }
    for (int i = 0; i < axes; i++) {
        out[i] = list.n == 0 ? fallback : list.v[i];
        if (out[i] >= 0 && out[i] < INT32_MAX) continue;
        return dt__onnx_refuse(g, "%s is %lld", name, (long long)out[i]);
    }
    return DT_OK;
}

/* Padding that auto_pad asks for: as many windows as strides fit into x. */
static void pad_same(window *w, const dt_shape *x, bool upper)
{
    for (int i = 0; i < w->axes; i++) {
        const int64_t n = x->dims[1 + i], windows = dt__ceil_div(n, w->stride[i]);
        const int64_t reach = (w->kernel[i] - 1) * w->dilation[i] + 1;
        const int64_t all = dt__max_i64(0, (windows - 1) * w->stride[i] + reach - n);
        w->before[i] = upper ? all / 2 : all - all / 2;
        w->after[i] = all - w->before[i];
    }
}

/* Reads the attributes of a node whose kernel is known. */
static dt_status read_window(dt__onnx *g, const dt_shape *x, window *w)
{
    dt_ints pads;
    DT__TRY(read_list(g, "strides", w->axes, 1, w->stride));
    DT__TRY(read_list(g, "dilations", w->axes, 1, w->dilation));
    DT__TRY(read_list(g, "output_padding", w->axes, 0, w->output_padding));
    DT__TRY(dt__onnx_list(g, "pads", &pads));
    if (pads.n != 0 && pads.n != 2 * w->axes) {
        return dt__onnx_refuse(g, "%d pads for %d dimensions", pads.n, w->axes);
    }
    for (int i = 0; i < w->axes; i++) {
        w->before[i] = pads.n == 0 ? 0 : pads.v[i];
        w->after[i] = pads.n == 0 ? 0 : pads.v[w->axes + i];
        const bool good = w->before[i] >= 0 && w->after[i] >= 0 && w->before[i] < INT32_MAX &&
                          w->after[i] < INT32_MAX && w->stride[i] > 0 && w->dilation[i] > 0;
        if (!good) return dt__onnx_refuse(g, "a stride, dilation or padding is out of range");
    }
    const bool upper = dt__onnx_says(g, "auto_pad", "SAME_UPPER", "NOTSET");
    const bool lower = dt__onnx_says(g, "auto_pad", "SAME_LOWER", "NOTSET");
    if (pads.n != 0 && !dt__onnx_says(g, "auto_pad", "NOTSET", "NOTSET")) {
        return dt__onnx_refuse(g, "with pads and auto_pad");
    }
    if (upper || lower) pad_same(w, x, upper);
    return DT_OK;
}

/* The extents that the specification gives the result of a convolution or pool: each window begins
 * inside of x or of the padding before it. */
static dt_status check_extents(dt__onnx *g, const dt_shape *x, const window *w, const dt_shape *y)
{
    const bool up = dt__onnx_int(g, "ceil_mode", 0) != 0;
    for (int i = 0; i < w->axes; i++) {
        const int64_t reach = (w->kernel[i] - 1) * w->dilation[i] + 1, stride = w->stride[i];
        const int64_t room = x->dims[1 + i] + w->before[i] + w->after[i] - reach;
        int64_t n = (up ? dt__ceil_div(room, stride) : room / stride) + 1;
        if (up && (n - 1) * stride >= x->dims[1 + i] + w->before[i]) n--;
        if (room >= 0 && y->dims[1 + i] == n) continue;
        return dt__onnx_refuse(g,
                               "whose windows are not those of the layer %s: %lld in "
                               "dimension %d, expected %lld",
                               g->layer[g->n_layers - 1]->type->item.name,
                               (long long)y->dims[1 + i], 2 + i, (long long)n);
    }
    return DT_OK;
}

/* Pads x by `value`, where a layer itself can pad only alike on both sides. */
static dt_status pad_before(dt__onnx *g, window *w, double value, dt__onnx_layer **x)
{
    dt__onnx_layer *l;
    DT__TRY(dt__onnx_new(g, "pad", &l));
    dt_pad_options *o = &((dt_pad_layer *)l->options)->pad;
    o->value = value;
    o->pads.n = 2 * w->axes;
    for (int i = 0; i < w->axes; i++) {
        o->pads.v[2 * (w->axes - 1 - i)] = w->before[i];
        o->pads.v[2 * (w->axes - 1 - i) + 1] = w->after[i];
        w->before[i] = w->after[i] = 0;
    }
    dt__onnx_read_from(l, *x);
    *x = l;
    return dt__onnx_add(g, l);
}

static bool is_even(const window *w)
{
    for (int i = 0; i < w->axes; i++) {
        if (w->before[i] != w->after[i]) return false;
    }
    return true;
}

static dt_status new_conv(dt__onnx *g, const char *kind, const window *w, int64_t channels,
                          dt__onnx_layer **out)
{
    DT__TRY(dt__onnx_new(g, kind, out));
    dt_conv_item *o = (*out)->options;
    o->out = channels;
    o->groups = dt__onnx_int(g, "group", 1);
    (*out)->input = dt__onnx_in(g, 0)->codes;
    (*out)->codes = dt__onnx_in(g, 1)->codes;
    o->has_bias = true;
    o->bias = dt__onnx_in(g, 2) != NULL;
    for (int i = 0; i < w->axes; i++) {
        o->kernel[i] = w->kernel[i];
        o->stride[i] = w->stride[i];
        o->dilation[i] = w->dilation[i];
        o->padding[i] = dt__min_i64(w->before[i], w->after[i]);
        o->output_padding[i] = w->output_padding[i];
    }
    DT__TRY(dt__onnx_weigh(g, *out, "weight", dt__onnx_in(g, 1)));
    return o->bias ? dt__onnx_weigh(g, *out, "bias", dt__onnx_in(g, 2)) : DT_OK;
}

/* The kernel of a convolution's weight, [., ., kernel]. */
static dt_status read_kernel(dt__onnx *g, const dt__onnx_layer *x, window *w)
{
    const dt__onnx_value *weight = dt__onnx_in(g, 1);
    if (weight->kind != DT__ONNX_CONSTANT) return dt__onnx_refuse(g, "with a computed weight");
    w->axes = weight->rank - 2;
    if (w->axes < 1 || w->axes > 2 || x->shape.rank != w->axes + 1) {
        return dt__onnx_refuse(g, "of %d spatial dimensions; 1 and 2 are known", w->axes);
    }
    dt_ints kernel;
    DT__TRY(dt__onnx_list(g, "kernel_shape", &kernel));
    for (int i = 0; i < w->axes; i++) {
        w->kernel[i] = weight->dims[2 + i];
        if (kernel.n == 0 || (kernel.n == w->axes && kernel.v[i] == w->kernel[i])) continue;
        return dt__onnx_refuse(g, "kernel_shape is not that of the weight");
    }
    return read_window(g, &x->shape, w);
}

dt_status dt__onnx_conv(dt__onnx *g)
{
    window w = { .axes = 0 };
    dt__onnx_layer *x, *l;
    DT__TRY(dt__onnx_plain(g, dt__onnx_in(g, 0), &x));
    DT__TRY(read_kernel(g, x, &w));
    const dt_shape shape = x->shape;
    const window whole = w;
    if (!is_even(&w)) DT__TRY(pad_before(g, &w, 0, &x));
    DT__TRY(new_conv(g, w.axes == 1 ? "conv1d" : "conv2d", &w, dt__onnx_in(g, 1)->dims[0], &l));
    dt__onnx_read_from(l, x);
    DT__TRY(dt__onnx_add(g, l));
    DT__TRY(check_extents(g, &shape, &whole, &l->shape));
    dt__onnx_result(g, 0, l);
    return DT_OK;
}

/* More padding on one side than on the other cuts elements off the result. */
dt_status dt__onnx_conv_transpose(dt__onnx *g)
{
    window w = { .axes = 0 };
    dt__onnx_layer *x, *l;
    int64_t channels;
    DT__TRY(dt__onnx_plain(g, dt__onnx_in(g, 0), &x));
    DT__TRY(read_kernel(g, x, &w));
    if (__builtin_mul_overflow(dt__onnx_in(g, 1)->dims[1], dt__onnx_int(g, "group", 1),
                               &channels)) {
        return dt__onnx_refuse(g, "of too many groups");
    }
    const char *kind = w.axes == 1 ? "conv_transpose1d" : "conv_transpose2d";
    DT__TRY(new_conv(g, kind, &w, channels, &l));
    dt__onnx_read_from(l, x);
    DT__TRY(dt__onnx_add(g, l));
    for (int i = 0; i < w.axes; i++) {
        const int64_t least = dt__min_i64(w.before[i], w.after[i]), n = l->shape.dims[1 + i];
        const int64_t range[3] = { w.before[i] - least, n - (w.after[i] - least), 1 };
        if (range[0] >= range[1]) return dt__onnx_refuse(g, "whose result is empty");
        DT__TRY(dt__onnx_sliced(g, l, 2 + i, range, &l));
    }
    dt__onnx_result(g, 0, l);
    return DT_OK;
}

/* ---- products with a matrix ------------------------------------------------------------------ */

/* A linear layer with the matrix w [out, in]. */
static dt_status linear(dt__onnx *g, const dt__onnx_value *w, bool bias, dt__onnx_layer **out)
{
    DT__TRY(dt__onnx_new(g, "linear", out));
    dt_linear_layer *o = (*out)->options;
    o->out = w->dims[0];
    o->has_bias = true;
    o->bias = bias;
    (*out)->input = dt__onnx_in(g, 0)->codes;
    (*out)->codes = w->codes;
    return dt__onnx_weigh(g, *out, "weight", w);
}

static dt_status matrix_of(dt__onnx *g, bool transposed, dt__onnx_value *w)
{
    static const int swapped[] = { 1, 0 };
    const dt__onnx_value *b = dt__onnx_in(g, 1);
    if (b->kind != DT__ONNX_CONSTANT) {
        return dt__onnx_refuse(g, "of two computed values is not known");
    }
    if (b->rank != 2) return dt__onnx_refuse(g, "a weight of %d dimensions", b->rank);
    *w = *b;
    return transposed ? DT_OK : dt__onnx_transposed(g, b, swapped, w);
}

dt_status dt__onnx_matmul(dt__onnx *g)
{
    dt__onnx_value w;
    dt__onnx_layer *x, *l;
    DT__TRY(matrix_of(g, false, &w));
    DT__TRY(dt__onnx_plain(g, dt__onnx_in(g, 0), &x));
    DT__TRY(linear(g, &w, false, &l));
    dt__onnx_read_from(l, x);
    DT__TRY(dt__onnx_add(g, l));
    dt__onnx_result(g, 0, l);
    return DT_OK;
}

/* Products that are folded into weights must not leave the range in which floats have 24 bits;
 * those beside a larger one need fewer. */
static dt_status keeps_bits(dt__onnx *g, const float *v, int64_t n, const char *factor)
{
    float largest = 0;
    for (int64_t i = 0; i < n; i++) largest = fmaxf(largest, fabsf(v[i]));
    if (largest == 0 || (largest >= FLT_MIN && largest <= FLT_MAX)) return DT_OK;
    return dt__onnx_refuse(g, "%s times the weights is beyond the range of floats", factor);
}

/* c times a factor, as one number for each of n outputs. */
static dt_status outputs_of(dt__onnx *g, const dt__onnx_value *c, int64_t n, double factor,
                            float **out)
{
    const float *data;
    DT__TRY(dt__onnx_floats_of(g, c, "C", &data));
    *out = dt__onnx_memory(g, n, sizeof **out);
    if (*out == NULL) return DT_ERR_NOMEM;
    const bool row = c->count == n && (c->rank == 1 || c->dims[c->rank - 1] == n);
    if (!row && c->count != 1) return dt__onnx_refuse(g, "C is no row of %lld", (long long)n);
    for (int64_t i = 0; i < n; i++) {
        (*out)[i] = (float)((double)data[c->count == 1 ? 0 : i] * factor);
    }
    return keeps_bits(g, *out, n, "beta");
}

static dt_status scale(dt__onnx *g, dt__onnx_value *w, double factor)
{
    float *to;
    const float *from;
    const dt__onnx_value own = *w;
    if (factor == 1) return DT_OK;
    DT__TRY(dt__onnx_floats_of(g, &own, "B", &from));
    DT__TRY(dt__onnx_constant(g, w, own.rank, own.dims, &to, NULL));
    w->initializer = own.initializer;
    for (int64_t i = 0; i < w->count; i++) to[i] = (float)((double)from[i] * factor);
    return keeps_bits(g, to, w->count, "alpha");
}

dt_status dt__onnx_gemm(dt__onnx *g)
{
    dt__onnx_value w;
    dt__onnx_layer *x, *l;
    const dt__onnx_value *c = dt__onnx_in(g, 2);
    float *bias;
    DT__TRY(matrix_of(g, dt__onnx_int(g, "transB", 0) != 0, &w));
    DT__TRY(scale(g, &w, dt__onnx_real(g, "alpha", 1)));
    DT__TRY(dt__onnx_plain(g, dt__onnx_in(g, 0), &x));
    if (x->shape.rank != 1) return dt__onnx_refuse(g, "of no matrix");
    DT__TRY(linear(g, &w, c != NULL, &l));
    if (c != NULL) {
        DT__TRY(outputs_of(g, c, w.dims[0], dt__onnx_real(g, "beta", 1), &bias));
        DT__TRY(dt__onnx_weigh_floats(g, l, "bias", bias, w.dims[0]));
        DT__TRY(dt__onnx_hint(g, l, c->initializer, false));
    }
    dt__onnx_read_from(l, x);
    DT__TRY(dt__onnx_add(g, l));
    dt__onnx_result(g, 0, l);
    return DT_OK;
}

/* ---- norms ----------------------------------------------------------------------------------- */

static dt_status finish_norm(dt__onnx *g, dt__onnx_layer *l, const dt__onnx_layer *x)
{
    static const char *const paths[] = { "weight", "bias", "running_mean", "running_var" };
    const int n = dt__onnx_is(l, "batch_norm1d") || dt__onnx_is(l, "batch_norm2d") ? 4 : 2;
    dt_norm_layer *o = l->options;
    const int64_t width = x->shape.dims[dt__onnx_is(l, "layer_norm") ? x->shape.rank - 1 : 0];
    o->norms.eps = dt__onnx_real(g, "epsilon", (double)1e-5f);
    for (int i = 0; i < n; i++) {
        const dt__onnx_value *v = dt__onnx_in(g, 1 + i);
        if (v == NULL) continue; /* the bias of a layer norm: zeros as it is made */
        if (v->count != width) {
            return dt__onnx_refuse(g, "%s has %lld numbers; %lld are wanted", paths[i],
                                   (long long)v->count, (long long)width);
        }
        DT__TRY(dt__onnx_weigh(g, l, paths[i], v));
    }
    dt__onnx_read_from(l, x);
    DT__TRY(dt__onnx_add(g, l));
    dt__onnx_result(g, 0, l);
    return DT_OK;
}

dt_status dt__onnx_batch_norm(dt__onnx *g)
{
    dt__onnx_layer *x, *l;
    for (int i = 1; i < 5; i++) {
        if (dt__onnx_out(g, i) == NULL) continue;
        return dt__onnx_refuse(g, "with %d outputs, which is its training", i + 1);
    }
    DT__TRY(dt__onnx_plain(g, dt__onnx_in(g, 0), &x));
    if (x->shape.rank < 1) return dt__onnx_refuse(g, "of a value without channels");
    DT__TRY(dt__onnx_new(g, x->shape.rank == 3 ? "batch_norm2d" : "batch_norm1d", &l));
    ((dt_norm_layer *)l->options)->norms.momentum = 1 - dt__onnx_real(g, "momentum", (double)0.9f);
    return finish_norm(g, l, x);
}

dt_status dt__onnx_instance_norm(dt__onnx *g)
{
    dt__onnx_layer *x, *l;
    DT__TRY(dt__onnx_plain(g, dt__onnx_in(g, 0), &x));
    if (x->shape.rank < 2) return dt__onnx_refuse(g, "of a value without channels");
    DT__TRY(dt__onnx_new(g, "group_norm", &l));
    ((dt_norm_layer *)l->options)->norms.groups = x->shape.dims[0];
    return finish_norm(g, l, x);
}

dt_status dt__onnx_layer_norm(dt__onnx *g)
{
    dt__onnx_layer *x, *l;
    int axis;
    DT__TRY(dt__onnx_plain(g, dt__onnx_in(g, 0), &x));
    DT__TRY(dt__onnx_axis(g, dt__onnx_int(g, "axis", -1), x->shape.rank + 1, &axis));
    if (axis != x->shape.rank || axis == 0) {
        return dt__onnx_refuse(g, "over several dimensions; the last alone is known");
    }
    DT__TRY(dt__onnx_new(g, "layer_norm", &l));
    return finish_norm(g, l, x);
}

/* ---- pools ----------------------------------------------------------------------------------- */

/* Whether windows with the padding before x on both sides that may reach past it (ceil_mode) are
 * those of the node: then padding of another size behind x needs no layer, if it does not count. */
static bool reaches_past(const window *w, const dt_shape *x)
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

/* Of auto_pad SAME onnxruntime computes the padding of a pool from the kernel without its dilation,
 * and begins inside of x where strides are larger than the kernel, unlike the specification. */
static dt_status check_same(dt__onnx *g, const dt_shape *x, const window *w)
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

/* Padding by zeros that a mean counts, or by values that no maximum is, may be a layer. */
static dt_status pool(dt__onnx *g, const char *const kind[2], bool counted, double value)
{
    window w = { .axes = 0 };
    dt__onnx_layer *x, *l;
    DT__TRY(dt__onnx_plain(g, dt__onnx_in(g, 0), &x));
    w.axes = x->shape.rank - 1;
    if (w.axes < 1 || w.axes > 2) return dt__onnx_refuse(g, "of %d dimensions", w.axes);
    DT__TRY(read_list(g, "kernel_shape", w.axes, 0, w.kernel));
    DT__TRY(read_window(g, &x->shape, &w));
    DT__TRY(check_same(g, &x->shape, &w));
    const dt_shape shape = x->shape;
    const window whole = w;
    bool even = is_even(&w);
    for (int i = 0; i < w.axes; i++) even &= 2 * w.before[i] <= w.kernel[i];
    const bool ceil = dt__onnx_int(g, "ceil_mode", 0) != 0;
    const bool past = !even && !ceil && (!counted || value < 0) && reaches_past(&w, &x->shape);
    even = even || past;
    if (!even && !counted)
        return dt__onnx_refuse(g, "with padding that is not alike on both sides "
                                  "and not counted");
    if (!even) DT__TRY(pad_before(g, &w, value, &x));
    DT__TRY(dt__onnx_new(g, kind[w.axes - 1], &l));
    dt_pool_options *o = &((dt_pool_layer *)l->options)->pool;
    o->ceil_mode = ceil || past;
    o->count_include_pad = counted;
    for (int i = 0; i < w.axes; i++) {
        o->kernel[i] = w.kernel[i];
        o->stride[i] = w.stride[i];
        o->padding[i] = w.before[i];
        o->dilation[i] = w.dilation[i];
    }
    dt__onnx_read_from(l, x);
    DT__TRY(dt__onnx_add(g, l));
    DT__TRY(check_extents(g, &shape, &whole, &l->shape));
    dt__onnx_result(g, 0, l);
    return DT_OK;
}

dt_status dt__onnx_max_pool(dt__onnx *g)
{
    static const char *const kind[] = { "max_pool1d", "max_pool2d" };
    if (dt__onnx_out(g, 1) != NULL) return dt__onnx_refuse(g, "with indices as a second result");
    return pool(g, kind, true, -(double)FLT_MAX);
}

dt_status dt__onnx_average_pool(dt__onnx *g)
{
    static const char *const kind[] = { "avg_pool1d", "avg_pool2d" };
    return pool(g, kind, dt__onnx_int(g, "count_include_pad", 0) != 0, 0);
}

dt_status dt__onnx_global_max_pool(dt__onnx *g)
{
    static const char *const kind[] = { "max_pool1d", "max_pool2d" };
    dt__onnx_layer *x, *l;
    DT__TRY(dt__onnx_plain(g, dt__onnx_in(g, 0), &x));
    const int axes = x->shape.rank - 1;
    if (axes < 1 || axes > 2) return dt__onnx_refuse(g, "of %d dimensions", axes);
    DT__TRY(dt__onnx_new(g, kind[axes - 1], &l));
    for (int i = 0; i < axes; i++) {
        ((dt_pool_layer *)l->options)->pool.kernel[i] = x->shape.dims[1 + i];
    }
    dt__onnx_read_from(l, x);
    DT__TRY(dt__onnx_add(g, l));
    dt__onnx_result(g, 0, l);
    return DT_OK;
}

/* The mean over some dimensions of a layer's result, which become 1. */
static dt_status mean(dt__onnx *g, dt__onnx_layer *x, const bool *over, dt__onnx_layer **out)
{
    const int rank = x->shape.rank;
    int order[DT_MAX_RANK] = { 0 }, n = 1;
    dt_shape flat = { .rank = 2, .dims = { 1, 1 } }, result = x->shape;
    bool spatial = rank >= 2 && rank <= 3 && !over[1];
    for (int i = 2; i <= rank; i++) spatial &= over[i];
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 1; i <= rank; i++) {
            if (over[i] != (pass == 1)) continue;
            order[n++] = i;
            flat.dims[pass] *= x->shape.dims[i - 1];
            if (over[i]) result.dims[i - 1] = 1;
        }
    }
    if (spatial) {
        return dt__onnx_simple(g, rank == 3 ? "global_avg_pool2d" : "global_avg_pool1d", x, out);
    }
    DT__TRY(dt__onnx_permuted(g, x, order, &x));
    DT__TRY(dt__onnx_reshaped(g, x, &flat, &x));
    DT__TRY(dt__onnx_simple(g, "global_avg_pool1d", x, &x));
    return dt__onnx_reshaped(g, x, &result, out);
}

dt_status dt__onnx_global_average_pool(dt__onnx *g)
{
    bool over[DT_MAX_RANK] = { false };
    dt__onnx_layer *x, *l;
    DT__TRY(dt__onnx_plain(g, dt__onnx_in(g, 0), &x));
    if (x->shape.rank < 2) return dt__onnx_refuse(g, "of %d dimensions", x->shape.rank);
    for (int i = 2; i <= x->shape.rank; i++) over[i] = true;
    DT__TRY(mean(g, x, over, &l));
    dt__onnx_result(g, 0, l);
    return DT_OK;
}

dt_status dt__onnx_reduce_mean(dt__onnx *g)
{
    dt__onnx_value v = *dt__onnx_in(g, 0);
    bool over[DT_MAX_RANK] = { false }, seen[DT_MAX_RANK] = { false };
    dt__onnx_layer *l;
    dt_ints axes;
    int axis;
    DT__TRY(dt__onnx_list_or_in(g, "axes", 1, &axes));
    if (axes.n == 0) return dt__onnx_refuse(g, "over all dimensions");
    for (int i = 0; i < axes.n; i++) {
        DT__TRY(dt__onnx_new_axis(g, axes.v[i], v.rank, seen, &axis));
        if (v.axis[axis] == 0) return dt__onnx_refuse(g, "over the batch");
        over[v.axis[axis]] = true;
    }
    DT__TRY(mean(g, dt__onnx_maker(g, &v), over, &l));
    v.layer = l->index;
    v.plain = -1;
    if (dt__onnx_int(g, "keepdims", 1) == 0) {
        bool gone[DT_MAX_RANK];
        dt_shape shape = { .rank = 0 };
        int rank = 0, left[DT_MAX_RANK];
        for (int i = 0; i < v.rank; i++) gone[i] = over[v.axis[i]];
        for (int i = 1, at = 1; i <= l->shape.rank; i++) {
            left[i] = at;
            if (over[i]) continue;
            shape.dims[shape.rank++] = l->shape.dims[i - 1];
            at++;
        }
        DT__TRY(dt__onnx_reshaped(g, l, &shape, &l));
        v.layer = l->index;
        for (int i = 0; i < v.rank; i++) {
            if (!gone[i]) v.axis[rank++] = v.axis[i] == 0 ? 0 : left[v.axis[i]];
        }
        v.rank = rank;
    }
    dt__onnx_same(g, 0, &v);
    return DT_OK;
}

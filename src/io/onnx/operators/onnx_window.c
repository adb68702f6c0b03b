/* Reads the windows of convolutions and pools: kernel, strides, dilations, padding. */
#include "io/onnx/operators/onnx_window.h"

dt_status dt__onnx_window_list(dt__onnx *g, const char *name, int axes, int64_t fallback,
                               int64_t *out)
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

void dt__onnx_pad_same(dt__onnx_window *w, const dt_shape *x, bool upper)
{
    for (int i = 0; i < w->axes; i++) {
        const int64_t n = x->dims[1 + i], windows = dt__ceil_div(n, w->stride[i]);
        const int64_t reach = (w->kernel[i] - 1) * w->dilation[i] + 1;
        const int64_t all = dt__max_i64(0, (windows - 1) * w->stride[i] + reach - n);
        w->before[i] = upper ? all / 2 : all - all / 2;
        w->after[i] = all - w->before[i];
    }
}

dt_status dt__onnx_read_window(dt__onnx *g, const dt_shape *x, dt__onnx_window *w)
{
    dt_ints pads;
    DT__TRY(dt__onnx_window_list(g, "strides", w->axes, 1, w->stride));
    DT__TRY(dt__onnx_window_list(g, "dilations", w->axes, 1, w->dilation));
    DT__TRY(dt__onnx_window_list(g, "output_padding", w->axes, 0, w->output_padding));
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
        return dt__onnx_refuse(g, "it has pads and auto_pad; expected one of them");
    }
    if (upper || lower) dt__onnx_pad_same(w, x, upper);
    return DT_OK;
}

/* By the specification, each window begins in x or in the padding before it. */
int64_t dt__onnx_windows(const dt__onnx *g, const dt_shape *x, const dt__onnx_window *w, int i)
{
    const bool up = dt__onnx_int_of(g->node, "ceil_mode", 0) != 0;
    const int64_t reach = (w->kernel[i] - 1) * w->dilation[i] + 1, stride = w->stride[i];
    const int64_t room = x->dims[1 + i] + w->before[i] + w->after[i] - reach;
    if (room < 0) return 0;
    const int64_t n = (up ? dt__ceil_div(room, stride) : room / stride) + 1;
    return n - (up && (n - 1) * stride >= x->dims[1 + i] + w->before[i]);
}

dt_status dt__onnx_check_extents(dt__onnx *g, const dt_shape *x, const dt__onnx_window *w,
                                 const dt_shape *y)
{
    for (int i = 0; i < w->axes; i++) {
        const int64_t n = dt__onnx_windows(g, x, w, i);
        if (n > 0 && y->dims[1 + i] == n) continue;
        return dt__onnx_refuse(
            g, "its windows are not those of the layer %s: %lld in dimension %d, expected %lld",
            g->layer[g->n_layers - 1]->type->item.name, (long long)y->dims[1 + i], 2 + i,
            (long long)n);
    }
    return DT_OK;
}

dt_status dt__onnx_pad_before(dt__onnx *g, dt__onnx_window *w, double value, dt__onnx_layer **x)
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

bool dt__onnx_is_even(const dt__onnx_window *w)
{
    for (int i = 0; i < w->axes; i++) {
        if (w->before[i] != w->after[i]) return false;
    }
    return true;
}

void dt__onnx_conv_window(dt_conv_item *o, const dt__onnx_window *w)
{
    for (int i = 0; i < w->axes; i++) {
        o->kernel[i] = w->kernel[i];
        o->stride[i] = w->stride[i];
        o->dilation[i] = w->dilation[i];
        o->padding[i] = dt__min_i64(w->before[i], w->after[i]);
        o->output_padding[i] = w->output_padding[i];
    }
}

void dt__onnx_pool_window(dt_pool_options *o, const dt__onnx_window *w)
{
    for (int i = 0; i < w->axes; i++) {
        o->kernel[i] = w->kernel[i];
        o->stride[i] = w->stride[i];
        o->padding[i] = w->before[i];
        o->dilation[i] = w->dilation[i];
    }
}

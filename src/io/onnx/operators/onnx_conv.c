/* Convolutions and transposed convolutions. */
#include "io/onnx/operators/onnx_window.h"

static dt_status new_conv(dt__onnx *g, const char *kind, const dt__onnx_window *w, int64_t channels,
                          dt__onnx_layer **out)
{
    DT__TRY(dt__onnx_new(g, kind, out));
    dt_conv_item *o = (*out)->options;
    o->out = channels;
    o->groups = dt__onnx_int_of(g->node, "group", 1);
    (*out)->input = dt__onnx_in(g, 0)->codes;
    (*out)->codes = dt__onnx_in(g, 1)->codes;
    o->has_bias = true;
    o->bias = dt__onnx_in(g, 2) != NULL;
    dt__onnx_conv_window(o, w);
    DT__TRY(dt__onnx_weigh(g, *out, "weight", dt__onnx_in(g, 1)));
    return o->bias ? dt__onnx_weigh(g, *out, "bias", dt__onnx_in(g, 2)) : DT_OK;
}

/* Reads the kernel extents from a convolution's weight [., ., kernel]. */
static dt_status read_kernel(dt__onnx *g, const dt__onnx_layer *x, dt__onnx_window *w)
{
    const dt__onnx_value *weight = dt__onnx_in(g, 1);
    if (weight->kind != DT__ONNX_CONSTANT)
        return dt__onnx_refuse(g, "its weight is computed; expected a constant");
    w->axes = weight->rank - 2;
    if (w->axes < 1 || w->axes > 2 || x->shape.rank != w->axes + 1) {
        return dt__onnx_refuse(g, "it has %d spatial dimensions; expected 1 or 2", w->axes);
    }
    dt_ints kernel;
    DT__TRY(dt__onnx_list(g, "kernel_shape", &kernel));
    for (int i = 0; i < w->axes; i++) {
        w->kernel[i] = weight->dims[2 + i];
        if (kernel.n == 0 || (kernel.n == w->axes && kernel.v[i] == w->kernel[i])) continue;
        return dt__onnx_refuse(g, "kernel_shape is not that of the weight");
    }
    return dt__onnx_read_window(g, &x->shape, w);
}

dt_status dt__onnx_conv(dt__onnx *g)
{
    dt__onnx_window w = { .axes = 0 };
    dt__onnx_layer *x, *l;
    DT__TRY(dt__onnx_image(g, 0, &x));
    DT__TRY(read_kernel(g, x, &w));
    const dt_shape shape = x->shape;
    const dt__onnx_window whole = w;
    if (!dt__onnx_is_even(&w)) DT__TRY(dt__onnx_pad_before(g, &w, 0, &x));
    DT__TRY(new_conv(g, w.axes == 1 ? "conv1d" : "conv2d", &w, dt__onnx_in(g, 1)->dims[0], &l));
    DT__TRY(dt__onnx_add_on(g, l, x));
    DT__TRY(dt__onnx_check_extents(g, &shape, &whole, &l->shape));
    return dt__onnx_image_result(g, 0, l);
}

/* Computes the padding for a result of output_shape or, for SAME, of stride times the extents of
 * x. */
static dt_status pad_to_shape(dt__onnx *g, const dt_shape *x, dt__onnx_window *w)
{
    int64_t wanted[DT__ONNX_AXES];
    const bool upper = dt__onnx_says(g, "auto_pad", "SAME_UPPER", "NOTSET");
    const bool lower = dt__onnx_says(g, "auto_pad", "SAME_LOWER", "NOTSET");
    const bool given = dt__onnx_attribute_of(g->node, "output_shape") != NULL;
    if (!given && !upper && !lower) return DT_OK;
    DT__TRY(dt__onnx_window_list(g, "output_shape", w->axes, 0, wanted));
    for (int i = 0; i < w->axes; i++) {
        const int64_t reach = (w->kernel[i] - 1) * w->dilation[i] + 1, n = x->dims[1 + i];
        if (!given) wanted[i] = n * w->stride[i];
        int64_t all = (n - 1) * w->stride[i] + w->output_padding[i] + reach - wanted[i];
        if (all < 0 && !given) {
            return dt__onnx_refuse(g, "its stride is larger than its kernel, where programs read "
                                      "SAME in several ways; expected pads or output_shape");
        }
        if (all < 0) { /* the result is longer than all windows reach */
            w->output_padding[i] -= all;
            all = 0;
        }
        w->before[i] = upper ? all / 2 : all - all / 2;
        w->after[i] = all - w->before[i];
    }
    return DT_OK;
}

/* If padding differs between the two sides, elements of the result are cut off. */
dt_status dt__onnx_conv_transpose(dt__onnx *g)
{
    dt__onnx_window w = { .axes = 0 };
    dt__onnx_layer *x, *l;
    int64_t channels;
    DT__TRY(dt__onnx_image(g, 0, &x));
    DT__TRY(read_kernel(g, x, &w));
    DT__TRY(pad_to_shape(g, &x->shape, &w));
    if (__builtin_mul_overflow(dt__onnx_in(g, 1)->dims[1], dt__onnx_int_of(g->node, "group", 1),
                               &channels)) {
        return dt__onnx_refuse(g, "it has too many groups");
    }
    const char *kind = w.axes == 1 ? "conv_transpose1d" : "conv_transpose2d";
    DT__TRY(new_conv(g, kind, &w, channels, &l));
    DT__TRY(dt__onnx_add_on(g, l, x));
    for (int i = 0; i < w.axes; i++) {
        const int64_t least = dt__min_i64(w.before[i], w.after[i]), n = l->shape.dims[1 + i];
        const int64_t range[3] = { w.before[i] - least, n - (w.after[i] - least), 1 };
        if (range[0] >= range[1]) return dt__onnx_refuse(g, "its result would be empty");
        DT__TRY(dt__onnx_sliced(g, l, 2 + i, range, &l));
    }
    return dt__onnx_image_result(g, 0, l);
}

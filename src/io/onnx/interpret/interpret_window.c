/* The geometry of windows: docs/Operators.md, Conv, ConvTranspose, MaxPool.
 *
 *     reach = (kernel - 1) dilation + 1
 *     out   = floor((in + before + after - reach) / stride) + 1
 *
 * With ceil_mode it is ceil, but no window starts behind the operand and its pad before.
 * Transposed: out = (in - 1) stride + output_padding + reach - before - after. */
#include "io/onnx/interpret/interpret_window.h"

#define MOST ((int64_t)1 << 31)

/* A list of `rank` numbers >= least in to[2 - rank...]; `fallback` if the attribute is absent. */
static dt_status numbers(const dt__verify_call *c, const char *name, int rank, int64_t least,
                         int64_t fallback, int64_t to[2])
{
    dt__verify_list list;
    DT__TRY(dt__verify_attribute_list(c, name, &list));
    to[0] = to[1] = fallback;
    if (list.n < 0) return DT_OK;
    if (list.n != rank)
        return dt__verify_refuse(
            c, "%s has %d numbers; expected one for each dimension of a window", name, list.n);
    for (int i = 0; i < rank; i++) {
        if (list.v[i] < least || list.v[i] > MOST) {
            return dt__verify_refuse(c, "%s has %lld", name, (long long)list.v[i]);
        }
        to[2 - rank + i] = list.v[i];
    }
    if (rank == 1) to[0] = least > 0 ? 1 : 0;
    return DT_OK;
}

static dt_status read_pads(const dt__verify_call *c, dt__verify_window *w)
{
    dt__verify_list list;
    DT__TRY(dt__verify_attribute_list(c, "pads", &list));
    for (int i = 0; i < 2; i++) w->before[i] = w->after[i] = 0;
    if (list.n < 0) return DT_OK;
    if (list.n != 2 * w->rank)
        return dt__verify_refuse(
            c, "pads has %d numbers; expected two for each dimension of a window", list.n);
    for (int i = 0; i < w->rank; i++) {
        if (list.v[i] < 0 || list.v[i] > MOST || list.v[w->rank + i] < 0 ||
            list.v[w->rank + i] > MOST) {
            return dt__verify_refuse(c, "pads are negative or too large");
        }
        w->before[2 - w->rank + i] = list.v[i];
        w->after[2 - w->rank + i] = list.v[w->rank + i];
    }
    return DT_OK;
}

static int64_t reach(const dt__verify_window *w, int i)
{
    return (w->kernel[i] - 1) * w->dilation[i] + 1;
}

/* Padding of auto_pad: out = ceil(in / stride); an odd element is after (upper) or before. */
static void pad_same(dt__verify_window *w, bool upper)
{
    for (int i = 0; i < 2; i++) {
        const int64_t out = dt__ceil_div(w->in[i], w->stride[i]);
        const int64_t all = dt__max_i64(0, (out - 1) * w->stride[i] + reach(w, i) - w->in[i]);
        w->before[i] = upper ? all / 2 : all - all / 2;
        w->after[i] = all - w->before[i];
    }
}

static dt_status forward_extents(const dt__verify_call *c, dt__verify_window *w)
{
    const bool ceil = dt__onnx_int_of(c->node, "ceil_mode", 0) != 0;
    for (int i = 0; i < 2; i++) {
        const int64_t room = w->in[i] + w->before[i] + w->after[i] - reach(w, i);
        if (room < 0) {
            return dt__verify_refuse(c,
                                     "a window of %lld over %lld elements; expected one that fits",
                                     (long long)reach(w, i), (long long)w->in[i]);
        }
        w->out[i] = room / w->stride[i] + 1;
        if (ceil && room % w->stride[i] != 0 &&
            w->out[i] * w->stride[i] < w->in[i] + w->before[i]) {
            w->out[i]++;
        }
    }
    return DT_OK;
}

static dt_status transposed_extents(const dt__verify_call *c, dt__verify_window *w)
{
    int64_t more[2];
    DT__TRY(numbers(c, "output_padding", w->rank, 0, 0, more));
    for (int i = 0; i < 2; i++) {
        int64_t spread;
        const bool fits = !__builtin_mul_overflow(w->in[i] - 1, w->stride[i], &spread);
        w->out[i] = fits ? spread + more[i] + reach(w, i) - w->before[i] - w->after[i] : -1;
        if (w->in[i] < 1 || w->out[i] < 0) return dt__verify_refuse(c, "no elements are left");
    }
    return DT_OK;
}

dt_status dt__verify_window_of(const dt__verify_call *c, const int64_t *kernel, bool transposed,
                               dt__verify_window *w)
{
    static const char *const pads[] = { "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER", NULL };
    const dt__verify_value *x = c->in[0];
    int kind;
    *w = (dt__verify_window){ .rank = x->rank - 2 };
    if (w->rank < 1 || w->rank > 2) {
        return dt__verify_refuse(c, "an operand of %d dimensions; 3 and 4 are known", x->rank);
    }
    w->batch = x->dims[0];
    w->channels = x->dims[1];
    w->in[0] = w->rank == 1 ? 1 : x->dims[2];
    w->in[1] = x->dims[x->rank - 1];
    DT__TRY(numbers(c, "kernel_shape", w->rank, 1, 1, w->kernel));
    for (int i = 0; kernel != NULL && i < w->rank; i++) {
        int64_t *own = &w->kernel[2 - w->rank + i];
        if (dt__onnx_attribute_of(c->node, "kernel_shape") != NULL && *own != kernel[i]) {
            return dt__verify_refuse(c, "kernel_shape is not that of the kernel");
        }
        *own = kernel[i];
    }
    DT__TRY(numbers(c, "strides", w->rank, 1, 1, w->stride));
    DT__TRY(numbers(c, "dilations", w->rank, 1, 1, w->dilation));
    DT__TRY(read_pads(c, w));
    DT__TRY(dt__verify_choice(c, "auto_pad", pads, &kind));
    if (w->kernel[0] < 1 || w->kernel[1] < 1) return dt__verify_refuse(c, "an empty kernel");
    if (transposed) {
        if (kind != 0 || dt__onnx_attribute_of(c->node, "output_shape") != NULL) {
            return dt__verify_refuse(c, "auto_pad and output_shape are not known here");
        }
        return transposed_extents(c, w);
    }
    if (kind >= 2) pad_same(w, kind == 2);
    return forward_extents(c, w);
}

dt_status dt__verify_window_make(dt__verify_call *c, const dt__verify_window *w, int64_t channels,
                                 dt__verify_type type, dt__verify_value **out)
{
    int64_t dims[4] = { w->batch, channels, w->out[0], w->out[1] };
    if (w->rank == 1) dims[2] = w->out[1];
    return dt__verify_make(c, 0, type, 2 + w->rank, dims, out);
}

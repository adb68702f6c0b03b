/* Operators of a TFLite file as layers. */
#include "io/tflite/lite_import.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef dt__lite_import import;

/* ---- tensors --------------------------------------------------------------------------------- */

static const dt__vlite_tensor *tensor_of(const import *m, int tensor)
{
    return tensor < 0 ? NULL : &m->v->tensor[tensor];
}

/* Input i of an operator, whose layer was made. */
static dt_status value_of(import *m, const dt__vlite_op *o, int i, dt__lite_place **out)
{
    *out = i < o->n_in && o->in[i] >= 0 ? &m->place[o->in[i]] : NULL;
    if (*out != NULL && (*out)->layer != NULL) return DT_OK;
    return dt__onnx_refuse(m->g, "its input %d is constant, or no operator before it makes it", i);
}

static dt_status constant_of(import *m, const dt__vlite_op *o, int i, const dt__vlite_tensor **out)
{
    *out = i < o->n_in ? tensor_of(m, o->in[i]) : NULL;
    if (*out != NULL && (*out)->constant) return DT_OK;
    return dt__onnx_refuse(m->g, "its input %d must be constant", i);
}

/* An image with its channels last in the file. */
static dt_status image_of(import *m, const dt__vlite_op *o, int i, dt__onnx_layer **out)
{
    dt__lite_place *p;
    DT__TRY(value_of(m, o, i, &p));
    const bool last = tensor_of(m, o->in[i])->rank == 4 && p->axis[1] == 2 && p->axis[2] == 3;
    *out = p->layer;
    return last ? DT_OK : dt__onnx_refuse(m->g, "its input %d is no image of 4 dimensions", i);
}

/* The result is that of a layer, with dimensions as those of `like`; it must have the extents that
 * the file declares. */
static dt_status put(import *m, const dt__vlite_op *o, dt__onnx_layer *l, dt__onnx_layer *source,
                     const dt__lite_place *like)
{
    const dt__vlite_tensor *t = tensor_of(m, o->out[0]);
    if (t == NULL || t->constant || t->rank != l->shape.rank + 1 || t->rank > 4) {
        return dt__onnx_refuse(m->g, "its result has other dimensions than here");
    }
    dt__lite_place *p = &m->place[o->out[0]];
    memcpy(p->axis, like->axis, sizeof p->axis);
    memcpy(p->flat, like->flat, sizeof p->flat);
    for (int d = 1; d < t->rank; d++) {
        if (t->dims[d] == l->shape.dims[p->axis[d] - 1]) continue;
        return dt__onnx_refuse(m->g, "dimension %d of its result is %lld in the file, %lld here", d,
                               (long long)t->dims[d], (long long)l->shape.dims[p->axis[d] - 1]);
    }
    p->layer = l;
    p->source = source;
    m->coded += t->type == DT__VLITE_I8;
    m->real += t->type == DT__VLITE_F32;
    return DT_OK;
}

static const dt__lite_place image = { .axis = { 0, 2, 3, 1 } }, row = { .axis = { 0, 1, 2, 3 } };

/* The activation that is part of an operator. */
static dt_status put_activated(import *m, const dt__vlite_op *o, dt__onnx_layer *l,
                               int64_t activation, const dt__lite_place *like)
{
    dt__onnx_layer *y = l;
    const char *kind = activation == 1 ? "relu" : activation == 3 ? "relu6" : NULL;
    if (kind == NULL && activation != 0) {
        return dt__onnx_refuse(m->g, "the activation %lld in it is not known",
                               (long long)activation);
    }
    if (kind != NULL) DT__TRY(dt__onnx_simple(m->g, kind, l, &y));
    return put(m, o, y, l, like);
}

/* ---- weights --------------------------------------------------------------------------------- */

/* A weight [out, taps, in] of the file as [out, in, taps], or [in, out, taps]. */
typedef struct turn {
    int64_t out, in, taps;
    bool in_first;       /* of a transposed convolution */
    bool out_last;       /* of a depthwise one: [taps, out] in the file */
    const int64_t *flat; /* of a linear layer whose columns are pixels; NULL: as they are */
} turn;

static int64_t place_in_file(const turn *w, int64_t o, int64_t i, int64_t k)
{
    if (w->out_last) return k * w->out + o;
    if (w->flat != NULL) { /* column i of [channels, pixels] */
        const int64_t pixels = w->flat[0] * w->flat[1];
        i = i % pixels * w->flat[2] + i / pixels;
    }
    return (o * w->taps + k) * w->in + i;
}

/* Codes as the scales of each row, for lite_codes.c. */
static dt_status remember(import *m, const dt__vlite_tensor *w, int64_t out, dt__onnx_layer *l)
{
    dt__onnx_codes *q = dt__onnx_memory(m->g, 1, sizeof *q);
    float *scale = dt__onnx_memory(m->g, out, sizeof *scale);
    if (q == NULL || scale == NULL) return DT_ERR_NOMEM;
    if ((w->scales != 1 && w->scales != out) || w->block > 0) {
        return dt__onnx_refuse(m->g, "its weight has %lld scales for %lld outputs",
                               (long long)w->scales, (long long)out);
    }
    for (int64_t i = 0; i < w->scales; i++) {
        scale[i] = w->scale[i];
        if (w->zero[i] != 0) return dt__onnx_refuse(m->g, "its weight has a zero point");
    }
    q->bits = w->type == DT__VLITE_I4 ? 4 : 8;
    q->scales = w->scales;
    q->scale = scale;
    l->codes = q;
    return DT_OK;
}

static dt_status weigh(import *m, const dt__vlite_op *o, const dt__vlite_tensor *w, const turn *t,
                       dt__onnx_layer *l)
{
    const dt__vlite_tensor *x = tensor_of(m, o->in[o->n_in > 2 && t->in_first ? 2 : 0]);
    const bool coded = w->q != NULL && w->type != DT__VLITE_I32;
    float *to = dt__onnx_memory(m->g, w->count, sizeof *to);
    if (to == NULL) return DT_ERR_NOMEM;
    if (coded != (x->type == DT__VLITE_I8) || (!coded && w->f == NULL)) {
        return dt__onnx_refuse(m->g, "its weight and its input must both be integers, or floats");
    }
    if (coded) DT__TRY(remember(m, w, t->out, l));
    int64_t at = 0;
    const int64_t outer = t->in_first ? t->in : t->out, inner = t->in_first ? t->out : t->in;
    for (int64_t a = 0; a < outer; a++) {
        for (int64_t b = 0; b < inner; b++) {
            const int64_t out = t->in_first ? b : a, in = t->in_first ? a : b;
            for (int64_t k = 0; k < t->taps; k++) {
                const int64_t from = place_in_file(t, out, in, k);
                to[at++] =
                    coded ? (float)w->q[from] * w->scale[w->scales == 1 ? 0 : out] : w->f[from];
            }
        }
    }
    return dt__onnx_weigh_floats(m->g, l, "weight", to, w->count);
}

/* The float that a device's arithmetic turns into this code. */
static float bias_of(import *m, int32_t code, float scale)
{
    const float inverse = 1 / scale;
    float b = (float)code * scale;
    for (int i = 0; i < 64; i++) {
        const float got = roundf(b * inverse);
        if ((double)got == (double)code) return b;
        b = nextafterf(b, (double)got < (double)code ? INFINITY : -INFINITY);
    }
    m->moved++;
    return (float)code * scale;
}

static dt_status weigh_bias(import *m, const dt__vlite_tensor *bias, const dt__vlite_tensor *x,
                            int64_t out, dt__onnx_layer *l)
{
    if (bias == NULL) return DT_OK;
    const dt__onnx_codes *q = l->codes;
    const bool fits = bias->constant && bias->count == out &&
                      (q != NULL ? bias->type == DT__VLITE_I32 : bias->f != NULL);
    if (!fits) return dt__onnx_refuse(m->g, "its bias does not fit its weight");
    if (q == NULL) return dt__onnx_weigh_floats(m->g, l, "bias", bias->f, out);
    if (!dt__vlite_is_coded(x)) return dt__onnx_refuse(m->g, "its input has no scale");
    float *to = dt__onnx_memory(m->g, out, sizeof *to);
    if (to == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < out; i++) {
        to[i] = bias_of(m, bias->q[i], x->scale[0] * q->scale[q->scales == 1 ? 0 : i]);
    }
    return dt__onnx_weigh_floats(m->g, l, "bias", to, out);
}

/* ---- windows --------------------------------------------------------------------------------- */

typedef struct window {
    int64_t kernel[2], stride[2], dilation[2], before[2], after[2];
} window;

/* Padding SAME: as many windows as strides fit into x. */
static void pad_same(window *w, const dt_shape *x)
{
    for (int i = 0; i < 2; i++) {
        const int64_t n = x->dims[1 + i], windows = dt__ceil_div(n, w->stride[i]);
        const int64_t reach = (w->kernel[i] - 1) * w->dilation[i] + 1;
        const int64_t all = dt__max_i64(0, (windows - 1) * w->stride[i] + reach - n);
        w->before[i] = all / 2;
        w->after[i] = all - all / 2;
    }
}

static bool is_even(const window *w)
{
    return w->before[0] == w->after[0] && w->before[1] == w->after[1];
}

/* Pads x where a layer itself pads only alike on both sides. */
static dt_status pad_before(import *m, window *w, double value, dt__onnx_layer **x)
{
    dt__onnx_layer *l;
    DT__TRY(dt__onnx_new(m->g, "pad", &l));
    dt_pad_options *o = &((dt_pad_layer *)l->options)->pad;
    o->value = value;
    o->pads.n = 4;
    for (int i = 0; i < 2; i++) {
        o->pads.v[2 * (1 - i)] = w->before[i];
        o->pads.v[2 * (1 - i) + 1] = w->after[i];
        w->before[i] = w->after[i] = 0;
    }
    dt__onnx_read_from(l, *x);
    *x = l;
    return dt__onnx_add(m->g, l);
}

static dt_status read_window(import *m, const int64_t *option, int dilations, window *w)
{
    w->stride[0] = option[2];
    w->stride[1] = option[1];
    for (int i = 0; i < 2; i++) {
        const int64_t dilation = dilations == 0 ? 1 : option[dilations + 1 - i];
        w->dilation[i] = dilation == 0 ? 1 : dilation;
        const bool good = w->stride[i] > 0 && w->stride[i] < INT32_MAX && w->dilation[i] > 0 &&
                          w->dilation[i] < INT32_MAX && w->kernel[i] > 0;
        if (!good) return dt__onnx_refuse(m->g, "a stride, dilation or window is out of range");
    }
    return DT_OK;
}

/* ---- products -------------------------------------------------------------------------------- */

static dt_status new_conv(import *m, const char *kind, const window *w, int64_t out, bool bias,
                          dt__onnx_layer **l)
{
    DT__TRY(dt__onnx_new(m->g, kind, l));
    dt_conv_item *c = (*l)->options;
    c->out = out;
    c->has_bias = true;
    c->bias = bias;
    c->groups = 1;
    for (int i = 0; i < 2; i++) {
        c->kernel[i] = w->kernel[i];
        c->stride[i] = w->stride[i];
        c->dilation[i] = w->dilation[i];
        c->padding[i] = w->before[i];
    }
    return DT_OK;
}

static dt_status conv(import *m, const dt__vlite_op *o, bool depthwise)
{
    dt__onnx_layer *x, *l;
    const dt__vlite_tensor *w, *bias = o->n_in > 2 ? tensor_of(m, o->in[2]) : NULL;
    DT__TRY(image_of(m, o, 0, &x));
    DT__TRY(constant_of(m, o, 1, &w));
    if (w->rank != 4) return dt__onnx_refuse(m->g, "its weight has %d dimensions", w->rank);
    const int64_t out = w->dims[depthwise ? 3 : 0], channels = x->shape.dims[0];
    const int64_t in = depthwise ? 1 : w->dims[3];
    if (out < 1 || in < 1 || channels % in != 0 || (depthwise && w->dims[0] != 1)) {
        return dt__onnx_refuse(m->g, "its weight does not fit %lld channels", (long long)channels);
    }
    window win = { .kernel = { w->dims[1], w->dims[2] } };
    DT__TRY(read_window(m, o->option, depthwise ? 5 : 4, &win));
    if (o->option[0] == 0) pad_same(&win, &x->shape);
    if (!is_even(&win)) DT__TRY(pad_before(m, &win, 0, &x));
    DT__TRY(new_conv(m, "conv2d", &win, out, bias != NULL, &l));
    ((dt_conv_item *)l->options)->groups = channels / in;
    const turn t = {
        .out = out, .in = in, .taps = win.kernel[0] * win.kernel[1], .out_last = depthwise
    };
    DT__TRY(weigh(m, o, w, &t, l));
    DT__TRY(weigh_bias(m, bias, tensor_of(m, o->in[0]), out, l));
    dt__onnx_read_from(l, x);
    DT__TRY(dt__onnx_add(m->g, l));
    return put_activated(m, o, l, o->option[depthwise ? 4 : 3], &image);
}

static dt_status read_conv(import *m, const dt__vlite_op *o) { return conv(m, o, false); }
static dt_status read_depthwise(import *m, const dt__vlite_op *o) { return conv(m, o, true); }

static dt_status read_transposed(import *m, const dt__vlite_op *o)
{
    dt__onnx_layer *x, *l;
    const dt__vlite_tensor *w, *bias = o->n_in > 3 ? tensor_of(m, o->in[3]) : NULL;
    const dt__vlite_tensor *y = tensor_of(m, o->out[0]);
    DT__TRY(image_of(m, o, 2, &x));
    DT__TRY(constant_of(m, o, 1, &w));
    if (w->rank != 4 || w->dims[3] != x->shape.dims[0] || y == NULL || y->rank != 4) {
        return dt__onnx_refuse(m->g, "its weight does not fit its input");
    }
    window win = { .kernel = { w->dims[1], w->dims[2] } };
    DT__TRY(read_window(m, o->option, 0, &win));
    int64_t more[2];
    for (int i = 0; i < 2; i++) {
        const int64_t all =
            (x->shape.dims[1 + i] - 1) * win.stride[i] + win.kernel[i] - y->dims[1 + i];
        win.before[i] = dt__max_i64(0, all) / 2;
        more[i] = 2 * win.before[i] - all;
        if (more[i] >= 0) continue;
        return dt__onnx_refuse(m->g, "it cuts one more element off one side than off the other");
    }
    DT__TRY(new_conv(m, "conv_transpose2d", &win, w->dims[0], bias != NULL, &l));
    memcpy(((dt_conv_item *)l->options)->output_padding, more, sizeof more);
    const turn t = {
        .out = w->dims[0], .in = w->dims[3], .taps = win.kernel[0] * win.kernel[1], .in_first = true
    };
    DT__TRY(weigh(m, o, w, &t, l));
    DT__TRY(weigh_bias(m, bias, tensor_of(m, o->in[2]), t.out, l));
    dt__onnx_read_from(l, x);
    DT__TRY(dt__onnx_add(m->g, l));
    return put_activated(m, o, l, o->option[3], &image);
}

/* A row of numbers; of an image its pixels, channels last in the file. */
static dt_status row_of(import *m, const dt__lite_place *p, int64_t flat[3], dt__onnx_layer **out)
{
    const dt_shape *s = &p->layer->shape;
    dt_shape to = { .rank = 1, .dims = { 1 } };
    memcpy(flat, p->flat, 3 * sizeof *flat);
    *out = p->layer;
    if (s->rank == 1) return DT_OK;
    for (int i = 0; i < s->rank; i++) to.dims[0] *= s->dims[i];
    const bool last = s->rank == 3 && p->axis[1] == 2 && p->axis[2] == 3;
    for (int i = 1; !last && i <= s->rank; i++) {
        if (p->axis[i] != i)
            return dt__onnx_refuse(m->g, "its input has its dimensions in another order");
    }
    if (last && s->dims[0] > 1 && s->dims[1] * s->dims[2] > 1) {
        flat[0] = s->dims[1];
        flat[1] = s->dims[2];
        flat[2] = s->dims[0];
    }
    return dt__onnx_reshaped(m->g, p->layer, &to, out);
}

static dt_status read_linear(import *m, const dt__vlite_op *o)
{
    dt__onnx_layer *x, *l;
    dt__lite_place *p;
    int64_t flat[3];
    const dt__vlite_tensor *w, *bias = o->n_in > 2 ? tensor_of(m, o->in[2]) : NULL;
    DT__TRY(value_of(m, o, 0, &p));
    DT__TRY(constant_of(m, o, 1, &w));
    if (o->option[1] != 0) return dt__onnx_refuse(m->g, "its weight is stored in another format");
    DT__TRY(row_of(m, p, flat, &x));
    if (w->rank != 2 || w->dims[1] != x->shape.dims[0]) {
        return dt__onnx_refuse(m->g, "its weight does not fit an input of %lld numbers",
                               (long long)x->shape.dims[0]);
    }
    DT__TRY(dt__onnx_new(m->g, "linear", &l));
    dt_linear_layer *linear = l->options;
    linear->out = w->dims[0];
    linear->has_bias = true;
    linear->bias = bias != NULL;
    const turn t = {
        .out = w->dims[0], .in = w->dims[1], .taps = 1, .flat = flat[0] > 0 ? flat : NULL
    };
    DT__TRY(weigh(m, o, w, &t, l));
    DT__TRY(weigh_bias(m, bias, tensor_of(m, o->in[0]), t.out, l));
    dt__onnx_read_from(l, x);
    DT__TRY(dt__onnx_add(m->g, l));
    return put_activated(m, o, l, o->option[0], &row);
}

/* ---- pools ----------------------------------------------------------------------------------- */

static dt_status pool(import *m, const dt__vlite_op *o, bool maximum)
{
    dt__onnx_layer *x, *l;
    DT__TRY(image_of(m, o, 0, &x));
    window w = { .kernel = { o->option[4], o->option[3] } };
    DT__TRY(read_window(m, o->option, 0, &w));
    if (o->option[0] == 0) pad_same(&w, &x->shape);
    if (!is_even(&w) && !maximum) {
        return dt__onnx_refuse(m->g, "its padding is not alike on both sides");
    }
    if (!is_even(&w)) DT__TRY(pad_before(m, &w, -(double)FLT_MAX, &x));
    DT__TRY(dt__onnx_new(m->g, maximum ? "max_pool2d" : "avg_pool2d", &l));
    dt_pool_options *p = &((dt_pool_layer *)l->options)->pool;
    p->count_include_pad = false;
    for (int i = 0; i < 2; i++) {
        p->kernel[i] = w.kernel[i];
        p->stride[i] = w.stride[i];
        p->padding[i] = w.before[i];
    }
    dt__onnx_read_from(l, x);
    DT__TRY(dt__onnx_add(m->g, l));
    return put_activated(m, o, l, o->option[5], &image);
}

static dt_status read_max(import *m, const dt__vlite_op *o) { return pool(m, o, true); }
static dt_status read_average(import *m, const dt__vlite_op *o) { return pool(m, o, false); }

/* ---- elements -------------------------------------------------------------------------------- */

static bool same_place(const dt__lite_place *a, const dt__lite_place *b)
{
    return memcmp(a->axis, b->axis, sizeof a->axis) == 0 &&
           memcmp(a->flat, b->flat, sizeof a->flat) == 0;
}

static dt_status zip(import *m, const dt__vlite_op *o, const char *kind)
{
    dt__lite_place *a, *b;
    dt__onnx_layer *l;
    DT__TRY(value_of(m, o, 0, &a));
    DT__TRY(value_of(m, o, 1, &b));
    if (!same_place(a, b)) return dt__onnx_refuse(m->g, "its inputs have other dimensions");
    DT__TRY(dt__onnx_new(m->g, kind, &l));
    dt__onnx_read_from(l, a->layer);
    dt__onnx_read_from(l, b->layer);
    DT__TRY(dt__onnx_add(m->g, l));
    return put_activated(m, o, l, o->option[0], a);
}

static dt_status read_add(import *m, const dt__vlite_op *o) { return zip(m, o, "add"); }
static dt_status read_mul(import *m, const dt__vlite_op *o) { return zip(m, o, "mul"); }

/* An activation of its own is a clamp of the layer before it. */
static dt_status activate(import *m, const dt__vlite_op *o, const char *kind)
{
    dt__lite_place *p;
    dt__onnx_layer *l;
    DT__TRY(value_of(m, o, 0, &p));
    DT__TRY(dt__onnx_simple(m->g, kind, p->layer, &l));
    return put(m, o, l, p->source, p);
}

static dt_status read_relu(import *m, const dt__vlite_op *o) { return activate(m, o, "relu"); }
static dt_status read_relu6(import *m, const dt__vlite_op *o) { return activate(m, o, "relu6"); }

static dt_status read_softmax(import *m, const dt__vlite_op *o)
{
    dt__lite_place *p;
    dt__onnx_layer *l;
    DT__TRY(value_of(m, o, 0, &p));
    if (o->real != 1 || p->layer->shape.rank != 1 || p->flat[0] > 0) {
        return dt__onnx_refuse(m->g, "with beta %g, of other than a row; beta 1 of a row is known",
                               (double)o->real);
    }
    DT__TRY(dt__onnx_new(m->g, "softmax", &l));
    ((dt_dim_layer *)l->options)->dim = 1;
    dt__onnx_read_from(l, p->layer);
    DT__TRY(dt__onnx_add(m->g, l));
    return put(m, o, l, l, p);
}

/* ---- arrangement ----------------------------------------------------------------------------- */

/* The result is its input, under another type or name. */
static dt_status read_same(import *m, const dt__vlite_op *o)
{
    dt__lite_place *p;
    DT__TRY(value_of(m, o, 0, &p));
    const dt__lite_place own = *p;
    const int64_t real = m->real, coded = m->coded;
    DT__TRY(put(m, o, own.layer, own.source, &own));
    m->real = real; /* what it converts, other operators compute */
    m->coded = coded;
    return DT_OK;
}

static dt_status read_reshape(import *m, const dt__vlite_op *o)
{
    dt__lite_place *p, to = row;
    dt__onnx_layer *l;
    DT__TRY(value_of(m, o, 0, &p));
    const dt__lite_place from = *p;
    const dt__vlite_tensor *y = tensor_of(m, o->out[0]);
    if (y == NULL || y->rank < 2 || y->rank > 4 || y->dims[0] != 1) {
        return dt__onnx_refuse(m->g, "its result has no batch in front, or more dimensions than 4");
    }
    const dt__vlite_tensor *x = tensor_of(m, o->in[0]);
    if (x->rank == y->rank && memcmp(x->dims, y->dims, (size_t)x->rank * sizeof *x->dims) == 0) {
        return put(m, o, from.layer, from.source, &from);
    }
    DT__TRY(row_of(m, &from, to.flat, &l));
    if (y->rank == 2) return put(m, o, l, l == from.layer ? from.source : l, &to);
    if (to.flat[0] > 0 || y->rank != 4) {
        return dt__onnx_refuse(m->g, "pixels with several channels become other pixels");
    }
    const dt_shape pixels = { .rank = 3, .dims = { y->dims[3], y->dims[1], y->dims[2] } };
    if (pixels.dims[0] > 1 && pixels.dims[1] * pixels.dims[2] > 1) {
        return dt__onnx_refuse(m->g, "a row becomes pixels with several channels");
    }
    DT__TRY(dt__onnx_reshaped(m->g, l, &pixels, &l));
    return put(m, o, l, l, &image);
}

static dt_status read_transpose(import *m, const dt__vlite_op *o)
{
    dt__lite_place *p;
    const dt__vlite_tensor *order;
    DT__TRY(value_of(m, o, 0, &p));
    DT__TRY(constant_of(m, o, 1, &order));
    const dt__lite_place from = *p;
    dt__lite_place to = from;
    const int rank = tensor_of(m, o->in[0])->rank;
    if (order->type != DT__VLITE_I32 || order->count != rank || rank > 4 || order->q[0] != 0) {
        return dt__onnx_refuse(m->g, "its order is not that of %d dimensions, the batch first",
                               rank);
    }
    unsigned seen = 0;
    for (int i = 0; i < rank; i++) {
        if (order->q[i] < 0 || order->q[i] >= rank || (seen >> order->q[i] & 1) != 0) {
            return dt__onnx_refuse(m->g, "its order is none of %d dimensions", rank);
        }
        seen |= 1u << order->q[i];
        to.axis[i] = from.axis[order->q[i]];
    }
    return put(m, o, from.layer, from.source, &to);
}

static dt_status read_concat(import *m, const dt__vlite_op *o)
{
    dt__lite_place *first, *p;
    dt__onnx_layer *l;
    DT__TRY(value_of(m, o, 0, &first));
    const int rank = tensor_of(m, o->in[0])->rank;
    int64_t axis = (int32_t)o->option[0];
    if (axis < 0) axis += rank;
    if (o->n_in > DT_MAX_IN || axis < 1 || axis >= rank || rank > 4 || first->flat[0] > 0) {
        return dt__onnx_refuse(m->g, "of %d inputs along dimension %lld; at most %d are read",
                               o->n_in, (long long)axis, DT_MAX_IN);
    }
    DT__TRY(dt__onnx_new(m->g, "concat", &l));
    ((dt_concat_layer *)l->options)->dim = first->axis[axis];
    for (int i = 0; i < o->n_in; i++) {
        DT__TRY(value_of(m, o, i, &p));
        if (!same_place(p, first)) return dt__onnx_refuse(m->g, "its inputs have other dimensions");
        dt__onnx_read_from(l, p->layer);
    }
    DT__TRY(dt__onnx_add(m->g, l));
    return put_activated(m, o, l, o->option[1], first);
}

/* The number that is padded: zeros, or of PADV2 a constant. */
static dt_status padded_value(import *m, const dt__vlite_op *o, double *value)
{
    const dt__vlite_tensor *v;
    *value = 0;
    if (o->n_in < 3) return DT_OK;
    DT__TRY(constant_of(m, o, 2, &v));
    if (v->count != 1 || (v->f == NULL && !dt__vlite_is_coded(v))) {
        return dt__onnx_refuse(m->g, "its padding is no number");
    }
    *value = v->f != NULL ? (double)v->f[0] : (double)(v->q[0] - v->zero[0]) * (double)v->scale[0];
    return DT_OK;
}

static dt_status read_pad(import *m, const dt__vlite_op *o)
{
    dt__lite_place *p;
    dt__onnx_layer *l;
    const dt__vlite_tensor *pads;
    DT__TRY(value_of(m, o, 0, &p));
    DT__TRY(constant_of(m, o, 1, &pads));
    const int rank = tensor_of(m, o->in[0])->rank;
    const dt__lite_place from = *p;
    if (pads->type != DT__VLITE_I32 || pads->count != 2 * rank || rank > 4 || from.flat[0] > 0) {
        return dt__onnx_refuse(m->g, "its padding does not fit %d dimensions", rank);
    }
    DT__TRY(dt__onnx_new(m->g, "pad", &l));
    dt_pad_options *to = &((dt_pad_layer *)l->options)->pad;
    to->pads.n = 2 * (rank - 1);
    DT__TRY(padded_value(m, o, &to->value));
    for (int i = 0; i < rank; i++) {
        for (int k = 0; k < 2; k++) {
            const int64_t n = pads->q[2 * i + k];
            if (n < 0 || (i == 0 && n != 0)) return dt__onnx_refuse(m->g, "its padding is wrong");
            if (i > 0) to->pads.v[2 * (rank - 1 - from.axis[i]) + k] = n;
        }
    }
    dt__onnx_read_from(l, from.layer);
    DT__TRY(dt__onnx_add(m->g, l));
    return put(m, o, l, l, &from);
}

/* ---- all ------------------------------------------------------------------------------------- */

static const struct {
    int code;
    dt_status (*read)(import *m, const dt__vlite_op *o);
} readers[] = {
    { 0, read_add },         { 1, read_average }, { 2, read_concat },     { 3, read_conv },
    { 4, read_depthwise },   { 6, read_same },    { 9, read_linear },     { 17, read_max },
    { 18, read_mul },        { 19, read_relu },   { 21, read_relu6 },     { 22, read_reshape },
    { 25, read_softmax },    { 34, read_pad },    { 39, read_transpose }, { 60, read_pad },
    { 67, read_transposed }, { 114, read_same },
};

/* The results of what is refused are read by others, which are not blamed for it. */
static bool reads_refused(const bool *refused, const dt__vlite_op *o)
{
    for (int i = 0; i < o->n_in; i++) {
        if (o->in[i] >= 0 && refused[o->in[i]]) return true;
    }
    return false;
}

static dt_status read_op(import *m, const dt__vlite_op *o)
{
    for (int i = 0; i < DT__COUNT_OF(readers); i++) {
        if (readers[i].code != o->code) continue;
        return o->n_out == 1 ? readers[i].read(m, o) : dt__onnx_refuse(m->g, "several results");
    }
    return dt__onnx_refuse(m->g, "the operator is not read");
}

dt_status dt__lite_read_ops(import *m)
{
    dt__onnx *g = m->g;
    bool *refused = dt__onnx_memory(g, m->v->tensors, sizeof *refused);
    dt__onnx_node *node = dt__onnx_memory(g, m->v->ops, sizeof *node);
    char text[DT__MESSAGE_SIZE], type[64];
    if (refused == NULL || node == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < m->v->ops; i++) {
        const dt__vlite_op *o = &m->v->op[i];
        const dt__vlite_operator *kind = dt__vlite_operator_of(o->code);
        snprintf(type, sizeof type, kind != NULL ? "%.40s" : "operator_%.0s%d",
                 kind != NULL ? kind->name : "", o->code);
        dt_onnx__node__init(&node[i]);
        node[i].op_type = (char *)(uintptr_t)dt__onnx_text(g, "%s", type);
        if (node[i].op_type == NULL) return DT_ERR_NOMEM;
        g->node = &node[i];
        const bool follows = reads_refused(refused, o);
        const dt_status s = follows ? DT_ERR_UNSUPPORTED : read_op(m, o);
        if (s == DT_ERR_NOMEM) return s;
        if (s == DT_OK) continue;
        snprintf(text, sizeof text, "%.200s", dt_error(g->ctx));
        if (!follows)
            dt__refusals_add(&m->refusals, "operator %lld, %s: %s", (long long)i, type, text);
        for (int k = 0; k < o->n_out; k++) {
            if (o->out[k] >= 0) refused[o->out[k]] = true;
        }
    }
    if (m->refusals.n == 0 && m->coded > 0 && m->real > 0) {
        dt__refusals_add(&m->refusals,
                         "%lld operators compute floats and %lld int8: all must be one",
                         (long long)m->real, (long long)m->coded);
    }
    return dt__refusals_end(g->ctx, &m->refusals, DT_ERR_UNSUPPORTED, "%s: cannot be read",
                            g->file->path);
}

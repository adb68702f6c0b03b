/* Convolutions, linear layers and pools of a TFLite file as layers. */
#include "io/onnx/operators/onnx_window.h"
#include "io/tflite/lite_layers.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- weights --------------------------------------------------------------------------------- */

/* A weight [out, taps, in] of the file, to be transposed to [out, in, taps] or [in, out, taps]. */
typedef struct turn {
    int64_t out, in, taps;
    bool in_first;       /* of a transposed convolution */
    bool out_last;       /* of a depthwise one: [taps, out] in the file */
    const int64_t *flat; /* of a linear layer after flattening: extents of the image; NULL: none */
} turn;

static int64_t place_in_file(const turn *w, int64_t o, int64_t i, int64_t k)
{
    if (w->out_last) return k * w->out + o;
    if (w->flat != NULL) { /* column i is [channels, pixels] in the model */
        const int64_t pixels = w->flat[0] * w->flat[1];
        i = i % pixels * w->flat[2] + i / pixels;
    }
    return (o * w->taps + k) * w->in + i;
}

/* Keeps codes and scales of each row, for lite_codes.c. */
static dt_status remember(dt__lite_import *m, const dt__vlite_tensor *w, int64_t out,
                          dt__onnx_layer *l)
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

static dt_status weigh(dt__lite_import *m, const dt__vlite_op *o, const dt__vlite_tensor *w,
                       const turn *t, dt__onnx_layer *l)
{
    const dt__vlite_tensor *x = dt__lite_tensor_of(m, o->in[o->n_in > 2 && t->in_first ? 2 : 0]);
    const bool codes = w->type == DT__VLITE_I8 || w->type == DT__VLITE_I4;
    float *to = dt__onnx_memory(m->g, w->count, sizeof *to);
    if (to == NULL) return DT_ERR_NOMEM;
    if (!codes || x->type != DT__VLITE_I8)
        return dt__onnx_refuse(m->g, "its weight and its input must both be integers");
    DT__TRY(remember(m, w, t->out, l));
    int64_t at = 0;
    const int64_t outer = t->in_first ? t->in : t->out, inner = t->in_first ? t->out : t->in;
    for (int64_t a = 0; a < outer; a++) {
        for (int64_t b = 0; b < inner; b++) {
            const int64_t out = t->in_first ? b : a, in = t->in_first ? a : b;
            for (int64_t k = 0; k < t->taps; k++) {
                const int64_t from = place_in_file(t, out, in, k);
                to[at++] = (float)w->q[from] * w->scale[w->scales == 1 ? 0 : out];
            }
        }
    }
    return dt__onnx_weigh_floats(m->g, l, "weight", to, w->count);
}

/* The float that device arithmetic rounds to this code of a bias. */
static float bias_of(dt__lite_import *m, int32_t code, float scale)
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

static dt_status weigh_bias(dt__lite_import *m, const dt__vlite_tensor *bias,
                            const dt__vlite_tensor *x, int64_t out, dt__onnx_layer *l)
{
    if (bias == NULL) return DT_OK;
    const dt__onnx_codes *q = l->codes;
    if (!bias->constant || bias->count != out || bias->type != DT__VLITE_I32)
        return dt__onnx_refuse(m->g, "its bias does not fit its weight");
    if (!dt__vlite_is_coded(x)) return dt__onnx_refuse(m->g, "its input has no scale");
    float *to = dt__onnx_memory(m->g, out, sizeof *to);
    if (to == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < out; i++) {
        to[i] = bias_of(m, bias->q[i], x->scale[0] * q->scale[q->scales == 1 ? 0 : i]);
    }
    return dt__onnx_weigh_floats(m->g, l, "bias", to, out);
}

/* ---- windows --------------------------------------------------------------------------------- */

static dt_status read_window(dt__lite_import *m, const int64_t *option, int dilations,
                             dt__onnx_window *w)
{
    w->axes = 2;
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

static dt_status new_conv(dt__lite_import *m, const char *kind, const dt__onnx_window *w,
                          int64_t out, bool bias, dt__onnx_layer **l)
{
    DT__TRY(dt__onnx_new(m->g, kind, l));
    dt_conv_item *c = (*l)->options;
    c->out = out;
    c->has_bias = true;
    c->bias = bias;
    c->groups = 1;
    dt__onnx_conv_window(c, w);
    return DT_OK;
}

dt_status dt__lite_read_conv(dt__lite_import *m, const dt__vlite_op *o)
{
    const bool depthwise = o->code == DT__VLITE_DEPTHWISE_CONV_2D;
    dt__onnx_layer *x, *l;
    const dt__vlite_tensor *w, *bias = o->n_in > 2 ? dt__lite_tensor_of(m, o->in[2]) : NULL;
    DT__TRY(dt__lite_image_of(m, o, 0, &x));
    DT__TRY(dt__lite_constant_of(m, o, 1, &w));
    if (w->rank != 4) return dt__onnx_refuse(m->g, "its weight has %d dimensions", w->rank);
    const int64_t out = w->dims[depthwise ? 3 : 0], channels = x->shape.dims[0];
    const int64_t in = depthwise ? 1 : w->dims[3];
    if (out < 1 || in < 1 || channels % in != 0 || (depthwise && w->dims[0] != 1)) {
        return dt__onnx_refuse(m->g, "its weight does not fit %lld channels", (long long)channels);
    }
    dt__onnx_window win = { .kernel = { w->dims[1], w->dims[2] } };
    DT__TRY(read_window(m, o->option, depthwise ? 5 : 4, &win));
    const dt__lite_place *from = &m->place[o->in[0]];
    for (int i = 0; i < 2 && from->block[0] > 0; i++) {
        if (o->option[0] == 0 || win.stride[i] != 1) {
            return dt__onnx_refuse(m->g, "it pads blocks of an image, or strides over them");
        }
        win.dilation[i] *= from->block[i];
    }
    if (o->option[0] == 0) dt__onnx_pad_same(&win, &x->shape, true);
    if (!dt__onnx_is_even(&win)) DT__TRY(dt__onnx_pad_before(m->g, &win, 0, &x));
    DT__TRY(new_conv(m, "conv2d", &win, out, bias != NULL, &l));
    ((dt_conv_item *)l->options)->groups = channels / in;
    const turn t = {
        .out = out, .in = in, .taps = win.kernel[0] * win.kernel[1], .out_last = depthwise
    };
    DT__TRY(weigh(m, o, w, &t, l));
    DT__TRY(weigh_bias(m, bias, dt__lite_tensor_of(m, o->in[0]), out, l));
    dt__onnx_read_from(l, x);
    DT__TRY(dt__onnx_add(m->g, l));
    dt__lite_place like = dt__lite_image;
    memcpy(like.block, from->block, sizeof like.block);
    return dt__lite_put_activated(m, o, l, o->option[depthwise ? 4 : 3], &like);
}

/* For a dilated convolution the file pads the image and cuts it into blocks, which a convolution
 * reads; the inverse crops the result. Here the convolution has the dilation. */
dt_status dt__lite_read_blocks(dt__lite_import *m, const dt__vlite_op *o)
{
    dt__onnx_layer *x;
    const dt__vlite_tensor *block, *ends;
    const bool back = o->code == DT__VLITE_BATCH_TO_SPACE_ND;
    DT__TRY(dt__lite_image_of(m, o, 0, &x));
    DT__TRY(dt__lite_constant_of(m, o, 1, &block));
    DT__TRY(dt__lite_constant_of(m, o, 2, &ends));
    const dt__lite_place from = m->place[o->in[0]];
    bool good = block->type == DT__VLITE_I32 && ends->type == DT__VLITE_I32 && block->count == 2 &&
                ends->count == 4;
    for (int i = 0; good && i < 2; i++) {
        good = block->q[i] > 0 && ends->q[2 * i] >= 0 && ends->q[2 * i + 1] >= 0 &&
               (!back || block->q[i] == from.block[i]);
    }
    if (!good || (!back && from.block[0] > 0)) {
        return dt__onnx_refuse(m->g, "its blocks are not those of a dilated convolution");
    }
    dt__lite_place to = dt__lite_image;
    dt__onnx_window w = { .axes = 2,
                          .before = { ends->q[0], ends->q[2] },
                          .after = { ends->q[1], ends->q[3] } };
    for (int i = 0; i < 2 && back; i++) {
        const int64_t range[] = { w.before[i], x->shape.dims[1 + i] - w.after[i], 1 };
        DT__TRY(dt__onnx_sliced(m->g, x, 2 + i, range, &x));
    }
    if (back) return dt__lite_put(m, o, x, from.source, &to);
    const bool pads = w.before[0] + w.before[1] + w.after[0] + w.after[1] > 0;
    if (pads) DT__TRY(dt__onnx_pad_before(m->g, &w, 0, &x));
    for (int i = 0; i < 2; i++) {
        to.block[i] = block->q[i];
        if (x->shape.dims[1 + i] % block->q[i] == 0) continue;
        return dt__onnx_refuse(m->g, "its padded image has a part of a block");
    }
    return dt__lite_put(m, o, x, from.source, &to);
}

/* A transposed convolution with its activation; SAME may crop one more element at the end of its
 * result. */
static dt_status put_cut(dt__lite_import *m, const dt__vlite_op *o, dt__onnx_layer *l)
{
    dt__onnx_layer *y = l;
    const dt__vlite_tensor *t = dt__lite_tensor_of(m, o->out[0]);
    const char *kind = o->option[3] == 1 ? "relu" : "relu6";
    if (o->option[3] != 0 && o->option[3] != 1 && o->option[3] != 3) {
        return dt__onnx_refuse(m->g, "the activation %lld in it is not known",
                               (long long)o->option[3]);
    }
    if (o->option[3] != 0) DT__TRY(dt__onnx_simple(m->g, kind, l, &y));
    for (int i = 0; i < 2; i++) {
        DT__TRY(dt__onnx_sliced(m->g, y, 2 + i, (const int64_t[]){ 0, t->dims[1 + i], 1 }, &y));
    }
    return dt__lite_put(m, o, y, l, &dt__lite_image);
}

dt_status dt__lite_read_transposed(dt__lite_import *m, const dt__vlite_op *o)
{
    dt__onnx_layer *x, *l;
    const dt__vlite_tensor *w, *bias = o->n_in > 3 ? dt__lite_tensor_of(m, o->in[3]) : NULL;
    const dt__vlite_tensor *y = dt__lite_tensor_of(m, o->out[0]);
    DT__TRY(dt__lite_image_of(m, o, 2, &x));
    DT__TRY(dt__lite_constant_of(m, o, 1, &w));
    if (w->rank != 4 || w->dims[3] != x->shape.dims[0] || y == NULL || y->rank != 4) {
        return dt__onnx_refuse(m->g, "its weight does not fit its input");
    }
    dt__onnx_window win = { .kernel = { w->dims[1], w->dims[2] } };
    DT__TRY(read_window(m, o->option, 0, &win));
    for (int i = 0; i < 2; i++) {
        const int64_t all =
            (x->shape.dims[1 + i] - 1) * win.stride[i] + win.kernel[i] - y->dims[1 + i];
        /* the end is cropped by one more than the front */
        win.before[i] = win.after[i] = dt__max_i64(0, all) / 2;
        win.output_padding[i] = dt__max_i64(0, 2 * win.before[i] - all);
    }
    DT__TRY(new_conv(m, "conv_transpose2d", &win, w->dims[0], bias != NULL, &l));
    const turn t = {
        .out = w->dims[0], .in = w->dims[3], .taps = win.kernel[0] * win.kernel[1], .in_first = true
    };
    DT__TRY(weigh(m, o, w, &t, l));
    DT__TRY(weigh_bias(m, bias, dt__lite_tensor_of(m, o->in[2]), t.out, l));
    dt__onnx_read_from(l, x);
    DT__TRY(dt__onnx_add(m->g, l));
    return put_cut(m, o, l);
}

dt_status dt__lite_read_linear(dt__lite_import *m, const dt__vlite_op *o)
{
    dt__onnx_layer *x, *l;
    dt__lite_place *p;
    int64_t flat[3];
    const dt__vlite_tensor *w, *bias = o->n_in > 2 ? dt__lite_tensor_of(m, o->in[2]) : NULL;
    DT__TRY(dt__lite_value_of(m, o, 0, &p));
    DT__TRY(dt__lite_constant_of(m, o, 1, &w));
    if (o->option[1] != 0) return dt__onnx_refuse(m->g, "its weight is stored in another format");
    DT__TRY(dt__lite_row_of(m, p, flat, &x));
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
    DT__TRY(weigh_bias(m, bias, dt__lite_tensor_of(m, o->in[0]), t.out, l));
    dt__onnx_read_from(l, x);
    DT__TRY(dt__onnx_add(m->g, l));
    return dt__lite_put_activated(m, o, l, o->option[0], &dt__lite_row);
}

/* ---- pools ----------------------------------------------------------------------------------- */

/* Whether windows of a mean in ceil mode, with the padding before x, are the file's windows. */
static bool reaches_past(const dt__onnx_window *w, const dt_shape *x)
{
    bool fits = true;
    for (int i = 0; i < 2; i++) {
        const bool even = w->before[i] == w->after[i];
        const bool whole = x->dims[1 + i] + 2 * w->before[i] >= w->kernel[i];
        fits &= even || (whole && w->stride[i] > 1);
    }
    return fits;
}

dt_status dt__lite_read_pool(dt__lite_import *m, const dt__vlite_op *o)
{
    const bool maximum = o->code == DT__VLITE_MAX_POOL_2D;
    dt__onnx_layer *x, *l;
    DT__TRY(dt__lite_image_of(m, o, 0, &x));
    dt__onnx_window w = { .kernel = { o->option[4], o->option[3] } };
    DT__TRY(read_window(m, o->option, 0, &w));
    if (o->option[0] == 0) dt__onnx_pad_same(&w, &x->shape, true);
    const bool past = !dt__onnx_is_even(&w) && !maximum;
    if (past && !reaches_past(&w, &x->shape)) {
        return dt__onnx_refuse(m->g, "its windows, of a mean, have padding that is not alike on "
                                     "both sides");
    }
    if (!dt__onnx_is_even(&w) && maximum)
        DT__TRY(dt__onnx_pad_before(m->g, &w, -(double)FLT_MAX, &x));
    DT__TRY(dt__onnx_new(m->g, dt__lite_shared_layer(o), &l));
    dt_pool_options *p = &((dt_pool_layer *)l->options)->pool;
    p->count_include_pad = false;
    p->ceil_mode = past;
    w.dilation[0] = w.dilation[1] = 0; /* as if the key were absent */
    dt__onnx_pool_window(p, &w);
    dt__onnx_read_from(l, x);
    DT__TRY(dt__onnx_add(m->g, l));
    return dt__lite_put_activated(m, o, l, o->option[5], &dt__lite_image);
}

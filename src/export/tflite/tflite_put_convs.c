/* Convolutions of TFLite, channels last: CONV_2D with weights [outputs, height, width, inputs],
 * DEPTHWISE_CONV_2D with [1, height, width, outputs], TRANSPOSE_CONV with [outputs, height, width,
 * inputs].
 *
 * Padding is SAME if that gives the same pixels, else a PAD and VALID. The result of a transposed
 * convolution is cropped by its padding; dilation and output padding become zeros in its weight. A
 * batch norm that is the only reader of a float convolution is folded into weight and bias. */
#include "export/tflite/tflite_put_model.h"

#include "autograd/op.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { X, WEIGHT, BIAS };

/* A convolution of images; a one-dimensional one is of an image with one row. */
typedef struct conv {
    bool transposed, depthwise, dense; /* dense: the weight is float, as in the trace */
    int64_t groups, in, out;           /* channels of all groups */
    int64_t kernel[2], stride[2], padding[2], dilation[2], more[2]; /* more: output padding */
    int64_t size[2], to[2];                                         /* extents of x and y */
    int64_t taps[2];                                                /* kernel extents in the file */
    int64_t first; /* first output channel of the weight in the file */
    bool wide;     /* codes of 4 bits are stored in 8 */
} conv;

static conv conv_of(const dt__lite_model *m, const dt_trace_call *c)
{
    const dt_conv_options *o = c->options;
    const dt_trace_value *x = dt__lite_operand(m, c, X), *w = dt__lite_operand(m, c, WEIGHT);
    const dt_trace_value *y = dt__lite_result_of(m, c);
    const int n = x->rank - 2;
    conv v = { .transposed = strstr(c->op->name, "transpose") != NULL,
               .groups = o->groups,
               .in = x->extent[1].size,
               .out = y->extent[1].size };
    for (int d = 0; d < 2; d++) {
        const int own = d - (2 - n);
        const bool is = own >= 0;
        v.kernel[d] = is ? w->extent[2 + own].size : 1;
        v.stride[d] = is ? o->stride[own] : 1;
        v.padding[d] = is ? o->padding[own] : 0;
        v.dilation[d] = is ? o->dilation[own] : 1;
        v.more[d] = is ? o->output_padding[own] : 0;
        v.size[d] = is ? x->extent[2 + own].size : 1;
        v.to[d] = is ? y->extent[2 + own].size : 1;
        v.taps[d] = v.kernel[d];
        if (!v.transposed) continue;
        const int64_t reach = dt__max_i64(0, v.more[d] - v.padding[d]);
        v.taps[d] = v.dilation[d] * (v.kernel[d] - 1) + 1 + reach;
    }
    v.depthwise = !v.transposed && v.groups == v.in && v.groups > 1;
    return v;
}

/* ---- the weight ------------------------------------------------------------------------------ */

/* The index in the trace's weight for an output, a tap and an input of its group; -1: none. */
static int64_t element(const conv *v, int64_t o, const int64_t tap[2], int64_t i)
{
    const int64_t in = v->in / v->groups, out = v->out / v->groups;
    int64_t k[2];
    for (int d = 0; d < 2; d++) {
        const int64_t step = v->transposed ? v->dilation[d] : 1;
        k[d] = tap[d] / step;
        if (tap[d] % step != 0 || k[d] >= v->kernel[d]) return -1;
    }
    const int64_t taps = v->kernel[0] * v->kernel[1], at = k[0] * v->kernel[1] + k[1];
    if (v->transposed && v->dense) {
        return ((o / out * in + i) * out + o % out) * taps + at;
    }
    return (o * in + i) * taps + at;
}

static int64_t by_outputs(const void *user, int64_t i)
{
    const conv *v = user;
    const int64_t in = v->in / v->groups, pixel = i / in % (v->taps[0] * v->taps[1]);
    const int64_t tap[2] = { pixel / v->taps[1], pixel % v->taps[1] };
    return element(v, v->first + i / in / (v->taps[0] * v->taps[1]), tap, i % in);
}

static int64_t by_taps(const void *user, int64_t i)
{
    const conv *v = user;
    const int64_t pixel = i / v->out;
    const int64_t tap[2] = { pixel / v->taps[1], pixel % v->taps[1] };
    return element(v, i % v->out, tap, 0);
}

/* Writes `n` outputs of the weight, of a group or of all. */
static int put_weight(dt__lite_model *m, const conv *v, const dt__lite_weight *w, int64_t n)
{
    const int64_t in = v->in / v->groups;
    dt__lite_order o = { .shape = { 4, { n, v->taps[0], v->taps[1], in } },
                         .from = by_outputs,
                         .user = v,
                         .wide = v->wide };
    if (v->depthwise) {
        o.shape = (dt__lite_shape){ 4, { 1, v->taps[0], v->taps[1], v->out } };
        o.axis = 3;
        o.from = by_taps;
    }
    return dt__lite_put_weight(m, w, &o);
}

/* ---- batch norms that are folded ------------------------------------------------------------- */

enum { N_X, N_WEIGHT, N_BIAS, N_MEAN, N_VAR, N_RESIDUAL, N_FACTOR };

/* The norm that is the only reader of call `at`'s result; NULL: none, or it also adds a
 * residual. */
static const dt_trace_call *norm_of(dt__lite_model *m, const dt_trace_call *c)
{
    const int64_t value = c->out[0], n = dt_trace_calls(m->trace);
    if (m->uses[value] != 1 || strncmp(c->op->name, "conv", 4) != 0) return NULL;
    for (int64_t i = 0; i < n; i++) {
        const dt_trace_call *k = dt_trace_call_at(m->trace, i);
        if (strncmp(k->op->name, "batch_norm", 10) != 0 || k->in[N_X].value != value) continue;
        if (dt__trace_has(k, N_RESIDUAL)) return NULL;
        m->folded[i] = true;
        return k;
    }
    return NULL;
}

/* Folds: w[o] *= slope, bias = (bias - mean) slope + offset, for z = y / factor. */
static int fold(dt__lite_model *m, const dt_trace_call *c, const dt_trace_call *norm, const conv *v,
                dt__lite_weight *w)
{
    const float *var = dt__lite_data(m, norm, N_VAR), *mean = dt__lite_data(m, norm, N_MEAN);
    const float *weight = dt__lite_data(m, norm, N_WEIGHT), *add = dt__lite_data(m, norm, N_BIAS);
    const float *factor = dt__lite_data(m, norm, N_FACTOR), *bias = dt__lite_data(m, c, BIAS);
    const int64_t count = w->rows * w->columns, taps = v->kernel[0] * v->kernel[1];
    float *to = dt__lite_memory(&m->p, count, sizeof *to);
    float *own = dt__lite_memory(&m->p, v->out, sizeof *own);
    if (to == NULL || own == NULL) return -1;
    for (int64_t i = 0; i < count; i++) {
        const int64_t out = v->out / v->groups, each = v->in / v->groups * taps;
        const int64_t o = !v->transposed
                              ? i / each
                              : i / (out * taps) / (v->in / v->groups) * out + i / taps % out;
        const double eps = dt__trace_number(norm, "eps");
        const double slope =
            dt__float_or(weight, o, 1) / sqrt(fmax(dt__float_or(var, o, 1), 0) + eps);
        to[i] = (float)((double)w->floats[i] * slope / dt__float_or(factor, o, 1));
        own[o] = (float)((dt__float_or(bias, o, 0) / dt__float_or(factor, o, 1) -
                          dt__float_or(mean, o, 0)) *
                             slope +
                         dt__float_or(add, o, 0));
    }
    w->floats = to;
    return dt__lite_floats(m, norm->module, v->out, own);
}

/* ---- the operator ---------------------------------------------------------------------------- */

/* Inputs of one operator besides its image. */
typedef struct parts {
    int weight, bias;
    bool dynamic;
    int64_t out;                 /* its output channels */
    bool nibbles;                /* the file's weight has 4-bit codes */
    const dt_trace_value *coded; /* the result as int8; NULL: floats */
    int activation;
} parts;

static void finish(dt__lite_model *m, const parts *k, int y)
{
    if (k->coded != NULL) dt__lite_coded(m, y, k->coded);
}

/* Whether SAME pads `padding` pixels in front. */
static bool is_same(const conv *v)
{
    bool same = true;
    for (int d = 0; d < 2; d++) {
        const int64_t reach = (v->kernel[d] - 1) * v->dilation[d] + 1;
        const int64_t all = (v->to[d] - 1) * v->stride[d] + reach - v->size[d];
        same = same && v->to[d] == dt__ceil_div(v->size[d], v->stride[d]) &&
               dt__max_i64(0, all) / 2 == v->padding[d];
    }
    return same;
}

static int put_forward(dt__lite_model *m, const conv *v, const parts *k, int x)
{
    dt__lite *p = &m->p;
    const dt__lite_shape s = { 4, { 1, v->to[0], v->to[1], k->out } };
    const bool same = is_same(v);
    const int64_t pads[DT__LITE_RANK] = { 0, v->padding[0], v->padding[1], 0 };
    if (!same) x = dt__lite_padded(m, x, pads, pads, 0);
    const int y = v->depthwise ? DT__LITE(p, DEPTHWISE_CONV_2D, &s, x, k->weight, k->bias)
                               : DT__LITE(p, CONV_2D, &s, x, k->weight, k->bias);
    const int behind = v->depthwise ? 1 : 0; /* offset of the fields from the activation on */
    dt__lite_option(p, 0, DT__FLAT_BYTE, same ? DT__LITE_SAME : DT__LITE_VALID);
    dt__lite_option(p, 1, DT__FLAT_INT, v->stride[1]);
    dt__lite_option(p, 2, DT__FLAT_INT, v->stride[0]);
    if (v->depthwise) dt__lite_option(p, 3, DT__FLAT_INT, v->out / v->in);
    dt__lite_option(p, 3 + behind, DT__FLAT_BYTE, k->activation);
    dt__lite_option(p, 4 + behind, DT__FLAT_INT, v->dilation[1]);
    dt__lite_option(p, 5 + behind, DT__FLAT_INT, v->dilation[0]);
    const bool dilated = v->dilation[0] > 1 || v->dilation[1] > 1;
    if (v->depthwise && dilated) dt__lite_version(p, 2);
    if (k->dynamic) dt__lite_version(p, v->depthwise ? 6 : 7);
    if (k->coded != NULL) dt__lite_version(p, k->nibbles ? 7 : 3);
    finish(m, k, y);
    return y;
}

static int put_transposed(dt__lite_model *m, const conv *v, const parts *k, int x)
{
    dt__lite *p = &m->p;
    dt__lite_shape s = { 4, { 1, 0, 0, k->out } };
    for (int d = 0; d < 2; d++) s.dims[1 + d] = (v->size[d] - 1) * v->stride[d] + v->taps[d];
    m->p.batched = false; /* the shape of the result is a constant */
    const int y =
        DT__LITE(p, TRANSPOSE_CONV, &s, dt__lite_ints(p, 0, 4, s.dims), k->weight, x, k->bias);
    dt__lite_option(p, 0, DT__FLAT_BYTE, DT__LITE_VALID);
    dt__lite_option(p, 1, DT__FLAT_INT, v->stride[1]);
    dt__lite_option(p, 2, DT__FLAT_INT, v->stride[0]);
    if (k->activation != DT__LITE_NONE) {
        dt__lite_option(p, 3, DT__FLAT_BYTE, k->activation);
        dt__lite_version(p, 4);
    }
    finish(m, k, y);
    dt__lite_slice cut = dt__lite_whole(m, y);
    for (int d = 0; d < 2; d++) {
        cut.start[1 + d] = v->padding[d];
        cut.stop[1 + d] = v->padding[d] + v->to[d];
    }
    return dt__lite_sliced(m, y, &cut);
}

/* Groups of a transposed convolution, which LiteRT does not support: one operator per group. */
static int by_group(dt__lite_model *m, conv *v, const dt__lite_weight *w, const parts *all, int x,
                    const float *bias)
{
    const int64_t n = v->groups, in = v->in / n, out = v->out / n;
    int *part = dt__lite_memory(&m->p, n, sizeof *part);
    for (int64_t g = 0; g < n && part != NULL; g++) {
        dt__lite_slice cut = dt__lite_whole(m, x);
        cut.start[3] = g * in;
        cut.stop[3] = (g + 1) * in;
        v->first = g * out;
        parts k = *all;
        k.out = out;
        k.weight = put_weight(m, v, w, out);
        k.bias = dt__lite_floats(m, w->name, out, bias + g * out);
        const int from = dt__lite_sliced(m, x, &cut);
        part[g] = put_transposed(m, v, &k, from);
    }
    return part == NULL ? -1 : dt__lite_joined(m, part, (int)n, 3);
}

static int product(dt__lite_model *m, const dt_trace_call *c, dt__lite_weight *w,
                   const dt_trace_call **norm)
{
    conv v = conv_of(m, c);
    v.dense = w->r.bits == 0;
    /* LiteRT does not support these with 4 bits and dynamic inputs */
    v.wide = v.transposed || v.groups > 1;
    const float *bias = dt__lite_data(m, c, BIAS);
    parts k = { .dynamic = w->floats == NULL, .out = v.out, .bias = -1 };
    *norm = v.dense && v.groups == 1 ? norm_of(m, c) : NULL;
    if (*norm == NULL && v.dense && v.depthwise) *norm = norm_of(m, c);
    if (*norm != NULL) k.bias = fold(m, c, *norm, &v, w);
    if (bias == NULL) bias = dt__lite_memory(&m->p, v.out, sizeof *bias);
    if (bias == NULL) return -1;
    const int x = dt__lite_last(m, c, X);
    if (v.groups > 1 && v.transposed) return by_group(m, &v, w, &k, x, bias);
    const char *name = dt__trace_has(c, BIAS) ? dt__lite_operand(m, c, BIAS)->name : "bias";
    if (k.bias < 0) k.bias = dt__lite_floats(m, name, v.out, bias);
    k.weight = put_weight(m, &v, w, v.out);
    const bool point = v.kernel[0] * v.kernel[1] == 1 && !v.transposed && !v.depthwise;
    m->pointwise += k.dynamic && point && w->r.bits > 4 && v.size[0] * v.size[1] > 1;
    return v.transposed ? put_transposed(m, &v, &k, x) : put_forward(m, &v, &k, x);
}

static bool takes_conv(const dt_trace *t, const dt_trace_call *c, char *why, size_t size)
{
    if (dt__trace_has(c, BIAS) && dt_trace_value_at(t, c->in[BIAS].value)->tensor == NULL &&
        dt_trace_value_at(t, c->in[BIAS].value)->kind == DT_VALUE_RESULT) {
        snprintf(why, size, "its bias is computed from an input");
        return false;
    }
    const dt_conv_options *o = c->options;
    const bool transposed = strstr(c->op->name, "transpose") != NULL;
    if (transposed && o->groups > 1 && dt__lite_is_dynamic(c, WEIGHT)) {
        snprintf(why, size, "%lld groups; LiteRT would find a range for each of them",
                 (long long)o->groups);
        return false;
    }
    return dt__lite_takes_product(t, c, WEIGHT, why, size);
}

static void put_conv(dt__lite_model *m, const dt_trace_call *c)
{
    const bool dynamic = dt__lite_is_dynamic(c, WEIGHT);
    const dt_trace_call *norm = NULL;
    dt__lite_weight w;
    int y = -1;
    if (dynamic) m->integer_products++;
    else m->float_products++;
    if (dt__lite_weight_of(m, c, WEIGHT, dynamic, &w) == DT_OK) {
        y = product(m, c, &w, &norm);
    }
    dt__lite_weight_free(m, &w);
    if (norm != NULL) y = dt__lite_activated(m, y, dt__trace_integer(norm, "activation"));
    dt__lite_out(m, norm != NULL ? norm : c, 0, y, DT__LITE_LAST);
}

/* ---- codes ----------------------------------------------------------------------------------- */

/* int8: transposed and grouped convolutions do not support 4 bits. */
void dt__lite_put_conv_codes(dt__lite_model *m, const dt_trace_call *c)
{
    dt__lite_layer l;
    int y = -1;
    if (dt__lite_layer_of(m, c, &l) == DT_OK) {
        conv v = conv_of(m, c);
        v.wide = v.transposed || (v.groups > 1 && !v.depthwise);
        const int x = dt__lite_last(m, c, X);
        const parts k = { .weight = put_weight(m, &v, &l.w, v.out),
                          .bias = dt__lite_layer_bias(m, c, &l),
                          .out = v.out,
                          .nibbles = l.w.r.bits <= 4 && !v.wide,
                          .coded = dt__lite_result_of(m, c),
                          .activation = dt__lite_activation(l.activation) };
        y = v.transposed ? put_transposed(m, &v, &k, x) : put_forward(m, &v, &k, x);
    }
    dt__lite_layer_free(m, &l);
    dt__lite_out(m, c, 0, y, DT__LITE_LAST);
}

#define FORWARD "CONV_2D, DEPTHWISE_CONV_2D, PAD"
#define TRANSPOSED "TRANSPOSE_CONV, STRIDED_SLICE"

const dt__lite_emitter dt__lite_convs[] = {
    { "conv2d", FORWARD, true, takes_conv, put_conv },
    { "conv1d", FORWARD, true, takes_conv, put_conv },
    { "conv_transpose2d", TRANSPOSED, true, takes_conv, put_conv },
    { "conv_transpose1d", TRANSPOSED, true, takes_conv, put_conv },
    { NULL, NULL, false, NULL, NULL },
};

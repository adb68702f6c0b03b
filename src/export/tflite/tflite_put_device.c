/* Integer-only networks (device.h) as int8 operators of TFLite: one scale and zero point per
 * tensor, int32 biases, fused activations. TFLite Micro computes the same bytes as detent.
 *
 * The input that a network quantizes and the output that it dequantizes are int8 in the file. */
#include "export/tflite/tflite_put_model.h"

#include "autograd/op.h"
#include "core/tensor.h"
#include "qat/quantized.h"

#include <detent/experimental/device.h>

#include <stdio.h>
#include <string.h>

enum { X, WEIGHT, BIAS };

void dt__lite_coded(dt__lite_model *m, int tensor, const dt_trace_value *v)
{
    dt__lite_quantize(&m->p, tensor, v->scale, v->zero_point);
}

int dt__lite_activation(int activation)
{
    return activation == DT_ACT_RELU    ? DT__LITE_FUSED_RELU
           : activation == DT_ACT_RELU6 ? DT__LITE_FUSED_RELU6
                                        : DT__LITE_NONE;
}

bool dt__lite_is_device(const dt_trace_call *c) { return strncmp(c->op->name, "device_", 7) == 0; }

static dt_status make(dt__lite_model *m, const dt_trace_call *c, dt__lite_layer *out)
{
    const dt_trace_value *x = dt__lite_operand(m, c, X), *w = dt__lite_operand(m, c, WEIGHT);
    const dt_trace_value *y = dt__lite_result_of(m, c);
    char why[DT__DEVICE_WHY];
    if (!dt_is_packed(w->tensor)) {
        return dt_fail(m->p.ctx, DT_ERR_STATE, "export: the weight %s is not converted", w->name);
    }
    const dt__device_operands of = {
        .x = { x->scale, x->zero_point },
        .y = { y->scale, y->zero_point },
        .w = ((const dt__packed *)w->tensor->ext)->codes,
        .bias = dt__lite_data(m, c, BIAS),
        .one_scale = out->one_scale,
        .activation = out->activation,
    };
    const dt_status s = dt__device_layer_make(m->p.ctx, &of, &out->layer, why);
    if (s == DT_OK || s == DT_ERR_NOMEM) return s;
    return dt_fail(m->p.ctx, s, "%s (%s): %s", c->module, c->type, why);
}

dt_status dt__lite_layer_of(dt__lite_model *m, const dt_trace_call *c, dt__lite_layer *out)
{
    const bool linear = strcmp(c->op->name, "device_linear") == 0;
    const dt_trace_value *w = dt__lite_operand(m, c, WEIGHT);
    *out = (dt__lite_layer){ .one_scale = linear &&
                                          ((const dt_device_linear_options *)c->options)->one_scale,
                             .activation = (int)dt__trace_integer(c, "activation") };
    const dt_status s = make(m, c, out);
    if (m->status == DT_OK) m->status = s;
    if (s != DT_OK) return s;
    const dt__device_layer *l = &out->layer;
    out->w = (dt__lite_weight){ .name = *w->name != 0 ? w->name : c->module,
                                .rows = l->rows,
                                .columns = l->columns,
                                .one_scale = out->one_scale,
                                .r = { .rows = { .codes = l->codes, .scale = l->scale },
                                       .bits = ((const dt__packed *)w->tensor->ext)->codes->bits,
                                       .n = l->rows,
                                       .columns = l->columns,
                                       .group = l->columns,
                                       .groups = 1 } };
    m->integer_products++;
    return DT_OK;
}

void dt__lite_layer_free(dt__lite_model *m, dt__lite_layer *l)
{
    dt__device_layer_free(m->p.ctx, &l->layer);
}

int dt__lite_layer_bias(dt__lite_model *m, const dt_trace_call *c, const dt__lite_layer *l)
{
    const int64_t n = l->layer.rows, scales = l->one_scale ? 1 : n;
    const float x = dt__lite_operand(m, c, X)->scale;
    float *scale = dt__lite_memory(&m->p, scales, sizeof *scale);
    for (int64_t i = 0; i < scales && scale != NULL; i++) scale[i] = x * l->layer.scale[i];
    const dt__lite_array a = { .name = "bias",
                               .type = DT__LITE_INT32,
                               .shape = { 1, { n } },
                               .data = l->layer.bias,
                               .bytes = (size_t)n * sizeof(int32_t),
                               .scales = { .n = scales, .scale = scale } };
    return scale == NULL ? -1 : dt__lite_constant(&m->p, &a);
}

/* Codes and scales of a layer's weight exist only after conversion, as do its bits. */
static bool lite_takes_layer(const dt_trace *t, const dt_trace_call *c, char *why, size_t size)
{
    return dt__trace_takes_weight(t, c, WEIGHT, why, size);
}

static int put_operand(dt__lite_model *m, const dt_trace_call *c, int i, bool last)
{
    const dt_trace_value *v = dt__lite_operand(m, c, i);
    if (v->tensor != NULL) {
        return dt__lite_constant_codes(m, v, dt__lite_result_of(m, c)->rank, last);
    }
    return last ? dt__lite_last(m, c, i) : dt__lite_plain(m, c, i);
}

static void put_pair(dt__lite_model *m, const dt_trace_call *c, dt__lite_operator op)
{
    const bool last = dt__lite_is_last(m, c, 0) || dt__lite_is_last(m, c, 1);
    const int a = put_operand(m, c, 0, last), b = put_operand(m, c, 1, last);
    dt__lite_shape s = dt__lite_shape_of(&m->p, a);
    const dt__lite_shape other = dt__lite_shape_of(&m->p, b);
    for (int d = 0; d < s.rank && d < other.rank; d++) {
        if (s.dims[d] == 1) s.dims[d] = other.dims[d];
    }
    const int y = dt__lite_node(&m->p, op, (const int[]){ a, b }, 2, &s);
    if (op != DT__LITE_PRELU) {
        const int activation = dt__lite_activation((int)dt__trace_integer(c, "activation"));
        dt__lite_option(&m->p, 0, DT__FLAT_BYTE, activation);
        dt__lite_version(&m->p, 2);
    }
    dt__lite_coded(m, y, dt__lite_result_of(m, c));
    dt__lite_out(m, c, 0, y, last ? DT__LITE_LAST : DT__LITE_PLAIN);
}

static void put_add(dt__lite_model *m, const dt_trace_call *c) { put_pair(m, c, DT__LITE_ADD); }
static void put_mul(dt__lite_model *m, const dt_trace_call *c) { put_pair(m, c, DT__LITE_MUL); }
static void put_sub(dt__lite_model *m, const dt_trace_call *c) { put_pair(m, c, DT__LITE_SUB); }
static void put_slopes(dt__lite_model *m, const dt_trace_call *c)
{
    put_pair(m, c, DT__LITE_PRELU);
}

/* Operators by DT_TABLE_..., with the first version that supports int8. */
static void put_table(dt__lite_model *m, const dt_trace_call *c)
{
    static const struct {
        dt__lite_operator op;
        int version;
    } of[] = { { DT__LITE_LOGISTIC, 2 },   { DT__LITE_TANH, 2 }, { DT__LITE_ELU, 1 },
               { DT__LITE_GELU, 2 },       { DT__LITE_GELU, 2 }, { DT__LITE_LEAKY_RELU, 2 },
               { DT__LITE_HARD_SWISH, 1 }, { DT__LITE_RELU, 2 }, { DT__LITE_RELU6, 2 } };
    const int function = (int)dt__trace_integer(c, "function");
    dt__lite_value v = dt__lite_as_is(m, c, 0);
    v.tensor = dt__lite_map(m, of[function].op, v.tensor);
    if (of[function].op == DT__LITE_GELU) {
        dt__lite_option(&m->p, 0, DT__FLAT_BYTE, function == DT_TABLE_GELU_TANH);
    }
    if (function == DT_TABLE_LEAKY_RELU) {
        dt__lite_option_float(&m->p, 0, (float)dt__trace_number(c, "slope"));
    }
    dt__lite_version(&m->p, of[function].version);
    dt__lite_coded(m, v.tensor, dt__lite_result_of(m, c));
    dt__lite_out_as(m, c, v);
}

static void put_softmax(dt__lite_model *m, const dt_trace_call *c)
{
    const int y = dt__lite_map(m, DT__LITE_SOFTMAX, dt__lite_plain(m, c, 0));
    dt__lite_option_float(&m->p, 0, 1);
    dt__lite_version(&m->p, 2);
    dt__lite_coded(m, y, dt__lite_result_of(m, c));
    dt__lite_out(m, c, 0, y, DT__LITE_PLAIN);
}

/* The tensor that `tensor` is a reshape of; -1: none. */
static int source_of(const dt__lite *p, int tensor)
{
    const int64_t op = p->tensor[tensor].op;
    return op < 0 ? -1 : p->op[op].in[0];
}

static void put_quantize(dt__lite_model *m, const dt_trace_call *c)
{
    dt__lite_value v = dt__lite_as_is(m, c, 0);
    const dt_trace_value *x = dt__lite_operand(m, c, 0), *y = dt__lite_result_of(m, c);
    if (x->kind == DT_VALUE_INPUT && m->uses[c->in[0].value] == 1 && !m->p.failed) {
        for (int i = v.tensor; i >= 0; i = source_of(&m->p, i)) dt__lite_coded(m, i, y);
    } else {
        v.tensor = dt__lite_map(m, DT__LITE_QUANTIZE, v.tensor);
        dt__lite_coded(m, v.tensor, y);
    }
    dt__lite_out_as(m, c, v);
}

static void put_dequantize(dt__lite_model *m, const dt_trace_call *c)
{
    dt__lite_value v = dt__lite_as_is(m, c, 0);
    if (m->uses[c->out[0]] != 2) { /* not only read as the output */
        v.tensor = dt__lite_map(m, DT__LITE_DEQUANTIZE, v.tensor);
        dt__lite_version(&m->p, 2);
    }
    dt__lite_out_as(m, c, v);
}

/* TRANSPOSE_CONV does not support groups; a depthwise weight would be read as one of a single
 * channel. */
static bool takes_transposed(const dt_trace *t, const dt_trace_call *c, char *why, size_t size)
{
    const dt_device_conv_options *o = c->options;
    if (o->conv.groups == 1) return lite_takes_layer(t, c, why, size);
    snprintf(why, size, "%lld groups; the format's transposed convolution of int8 has none",
             (long long)o->conv.groups);
    return false;
}

/* Ops that do not change codes use the float emitters, whose results have the type of their
 * operand. */
static void put_as(dt__lite_model *m, const dt_trace_call *c)
{
    dt__lite_emitter_of(c->op->name + strlen("device_"))->emit(m, c);
}

static bool takes_as(const dt_trace *t, const dt_trace_call *c, char *why, size_t size)
{
    const dt__lite_emitter *e = dt__lite_emitter_of(c->op->name + strlen("device_"));
    return e->takes == NULL || e->takes(t, c, why, size);
}

static void put_mean(dt__lite_model *m, const dt_trace_call *c)
{
    put_as(m, c);
    dt__lite_version(&m->p, 2);
    dt__lite_coded(m, m->value[c->out[0]].tensor, dt__lite_result_of(m, c));
}

const dt__lite_emitter dt__lite_device[] = {
    { "device_quantize", "int8 input, or QUANTIZE", false, NULL, put_quantize },
    { "device_dequantize", "int8 output, or DEQUANTIZE", false, NULL, put_dequantize },
    { "device_linear", "FULLY_CONNECTED", false, lite_takes_layer, dt__lite_put_linear_codes },
    { "device_conv2d", "CONV_2D, DEPTHWISE_CONV_2D, PAD", true, lite_takes_layer,
      dt__lite_put_conv_codes },
    { "device_conv_transpose2d", "TRANSPOSE_CONV, STRIDED_SLICE", true, takes_transposed,
      dt__lite_put_conv_codes },
    { "device_add", "ADD", false, NULL, put_add },
    { "device_mul", "MUL", false, NULL, put_mul },
    { "device_max_pool2d", "MAX_POOL_2D, PADV2, STRIDED_SLICE, MAXIMUM", true, takes_as, put_as },
    { "device_avg_pool2d", "AVERAGE_POOL_2D, PAD, STRIDED_SLICE, CONCATENATION", true, takes_as,
      put_as },
    { "device_sub", "SUB", false, NULL, put_sub },
    { "device_softmax", "SOFTMAX", false, NULL, put_softmax },
    { "device_prelu", "PRELU", false, NULL, put_slopes },
    { "device_table", "LOGISTIC, TANH, ELU, GELU, LEAKY_RELU, HARD_SWISH, RELU, RELU6", false, NULL,
      put_table },
    { "device_mean", "MEAN", false, NULL, put_mean },
    { "device_slice", "STRIDED_SLICE", false, takes_as, put_as },
    { "device_pad", "PAD, PADV2", false, takes_as, put_as },
    { "device_concat", "CONCATENATION", false, NULL, put_as },
    { "device_reshape", "RESHAPE", false, NULL, put_as },
    { "device_permute", "TRANSPOSE", false, takes_as, put_as },
    { "device_upsample_nearest", "RESIZE_NEAREST_NEIGHBOR; GATHER", true, takes_as, put_as },
    { NULL, NULL, false, NULL, NULL },
};

/* Linear layers and convolutions in ONNX: of codes by onnx_put_product.c, of floats by MatMul, Conv
 * and ConvTranspose, whose order of summation differs from detent's. */
#include "export/onnx/onnx_put_model.h"

#include <stdio.h>
#include <string.h>

enum { X, WEIGHT, BIAS, RESIDUAL };

/* The weight of a float product as [in, out]. */
static dt__value columns_first(dt__put_model *m, const dt_trace_call *c, int i)
{
    dt__put_rows r;
    if (c->in[i].quant == NULL || !c->in[i].weight) {
        return DT__PUT_TRANSPOSE(&m->p, dt__put_in(m, c, i), 1, 0);
    }
    dt__value y = NULL;
    if (dt__put_rows_of(m, c, i, &r) == DT_OK) y = dt__put_matrix(&m->p, &r.w, true);
    dt__put_rows_free(m, &r);
    return y;
}

static dt__value of_floats(dt__put_model *m, const dt_trace_call *c, int w)
{
    m->near = true;
    m->float_products++;
    dt__value x = dt__put_in(m, c, X);
    dt__value y = DT__PUT(&m->p, "MatMul", x, columns_first(m, c, w));
    return dt__trace_has(c, w + 1) ? DT__PUT(&m->p, "Add", y, dt__put_in(m, c, w + 1)) : y;
}

static dt__value by_codes(dt__put_model *m, const dt_trace_call *c, const dt__put_weight *w,
                          const float *bias)
{
    if (c->in[X].quant->granularity == DT_PER_GROUP) {
        const dt__put_blocks b = dt__put_activation_blocks(m, c, X);
        return dt__put_linear_blocks(&m->p, &b, w, bias);
    }
    const dt__put_quantized x = dt__put_activation(m, c, X);
    return dt__put_linear_codes(&m->p, &x, w, bias);
}

/* A constant bias is among the constants of a product of codes; a computed bias is added. */
static dt__value of_codes(dt__put_model *m, const dt_trace_call *c, int w)
{
    dt__put_rows r;
    dt__value y = NULL;
    const float *bias = dt__put_data(m, c, w + 1);
    m->integer_products++;
    if (dt__put_rows_of(m, c, w, &r) == DT_OK) {
        y = by_codes(m, c, &r.w, bias);
    }
    dt__put_rows_free(m, &r);
    if (bias != NULL || !dt__trace_has(c, w + 1)) return y;
    return DT__PUT(&m->p, "Add", y, dt__put_in(m, c, w + 1));
}

/* Counts a product that stays in float though others do not, for a note. */
static void note_float(dt__put_model *m, const dt_trace_call *c)
{
    if (m->call->options->onnx_ops != DT_ONNX_PLAIN) dt__put_count(&m->floats, c->module, 1);
}

/* The accuracy_level: level 4 quantizes activations in blocks. */
static int64_t level_of(dt__put_model *m, const dt_trace_call *c)
{
    const dt_quant_spec *x = c->in[X].quant;
    const bool blocks = x != NULL && x->granularity == DT_PER_GROUP;
    m->blocks = m->blocks || blocks;
    if (!blocks && (x != NULL || m->call->options->accuracy > 0)) m->changed = true;
    return blocks ? 4 : m->call->options->accuracy;
}

/* MatMulNBits, or a float product if the weight's groups do not fit. */
static dt__value of_nbits(dt__put_model *m, const dt_trace_call *c, int w)
{
    dt__put_rows r;
    dt__value y = NULL;
    if (dt__put_rows_of(m, c, w, &r) != DT_OK) {
        dt__put_rows_free(m, &r);
        return NULL;
    }
    const int64_t accuracy = level_of(m, c);
    const bool taken = dt__put_takes_nbits(&r.w, accuracy);
    if (taken) y = dt__put_nbits(&m->p, dt__put_plain(m, c, X), &r.w, accuracy);
    dt__put_rows_free(m, &r);
    if (!taken) {
        note_float(m, c);
        return of_floats(m, c, w);
    }
    m->near = true;
    if (accuracy > 0) m->integer_products++;
    else m->float_products++;
    return dt__trace_has(c, w + 1) ? DT__PUT(&m->p, "Add", y, dt__put_in(m, c, w + 1)) : y;
}

/* A product as QuantizeLinear and DequantizeLinear; v NULL: a linear layer. */
static dt__value of_pairs(dt__put_model *m, const dt_trace_call *c, const dt__put_conv *v)
{
    dt__put_rows r;
    dt__value y = NULL;
    m->near = true;
    m->integer_products++;
    if (dt__put_rows_of(m, c, WEIGHT, &r) == DT_OK) {
        y = dt__put_qdq(m, c, &r.w, v, dt__put_plain(m, c, X));
    }
    dt__put_rows_free(m, &r);
    return y;
}

static dt__value product(dt__put_model *m, const dt_trace_call *c, int w)
{
    const int ops = m->call->options->onnx_ops;
    if (dt__put_is_integer(m, c, X, w)) return of_codes(m, c, w);
    if (ops == DT_ONNX_NBITS && c->in[w].quant != NULL) return of_nbits(m, c, w);
    if (ops == DT_ONNX_QDQ && w == WEIGHT && dt__put_takes_qdq(c, X, w)) {
        return of_pairs(m, c, NULL);
    }
    note_float(m, c);
    return of_floats(m, c, w);
}

/* Fused activations do not occur, as the trace has no fused ops. */
static bool takes_linear(const dt_trace *t, const dt_trace_call *c, char *why, size_t size)
{
    (void)t;
    if (c->options == NULL || dt__trace_integer(c, "activation") == DT_ACT_NONE) return true;
    snprintf(why, size, "an activation is part of it");
    return false;
}

static void put_linear(dt__put_model *m, const dt_trace_call *c)
{
    dt__value y = product(m, c, WEIGHT);
    if (dt__trace_has(c, RESIDUAL)) y = DT__PUT(&m->p, "Add", y, dt__put_in(m, c, RESIDUAL));
    dt__put_out(m, c, 0, y);
}

static void put_matmul(dt__put_model *m, const dt_trace_call *c)
{
    m->near = true;
    m->float_products++;
    dt__value a = dt__put_in(m, c, 0);
    dt__put_out(m, c, 0, DT__PUT(&m->p, "MatMul", a, dt__put_in(m, c, 1)));
}

static dt__put_conv conv_of(const dt__put_model *m, const dt_trace_call *c)
{
    const dt_conv_options *o = c->options;
    const dt_trace_value *x = dt__put_operand(m, c, X), *w = dt__put_operand(m, c, WEIGHT);
    dt__put_conv v = { .n = x->rank - 2,
                       .transposed = strncmp(c->op->name, "conv_transpose", 14) == 0,
                       .groups = o->groups,
                       .channels = x->extent[1].size };
    for (int d = 0; d < v.n; d++) {
        v.size[d] = x->extent[2 + d].size;
        v.kernel[d] = w->extent[2 + d].size;
        v.stride[d] = o->stride[d];
        v.padding[d] = o->padding[d];
        v.dilation[d] = o->dilation[d];
        v.output_padding[d] = o->output_padding[d];
    }
    return v;
}

static dt__value conv_of_floats(dt__put_model *m, const dt_trace_call *c, const dt__put_conv *v)
{
    dt__put_rows r;
    dt__value w = NULL;
    m->near = true;
    m->float_products++;
    dt__value x = dt__put_in(m, c, X);
    if (c->in[WEIGHT].quant == NULL) {
        w = dt__put_in(m, c, WEIGHT);
    } else {
        if (dt__put_rows_of(m, c, WEIGHT, &r) == DT_OK) {
            w = dt__put_conv_weight(&m->p, dt__put_matrix(&m->p, &r.w, false), r.w.rows, v);
        }
        dt__put_rows_free(m, &r);
    }
    return dt__put_conv_floats(&m->p, x, w, dt__put_in(m, c, BIAS), v);
}

static void put_conv(dt__put_model *m, const dt_trace_call *c)
{
    const dt__put_conv v = conv_of(m, c);
    const float *bias = dt__put_data(m, c, BIAS);
    const bool known = bias != NULL || !dt__trace_has(c, BIAS);
    const bool integer = dt__put_is_integer(m, c, X, WEIGHT) && known;
    dt__put_rows r;
    const bool by_axis = !v.transposed || v.groups == 1; /* one scale per row */
    if (m->call->options->onnx_ops == DT_ONNX_QDQ && by_axis && known &&
        dt__put_takes_qdq(c, X, WEIGHT)) {
        dt__put_out(m, c, 0, of_pairs(m, c, &v));
        return;
    }
    if (!integer) {
        note_float(m, c);
        dt__put_out(m, c, 0, conv_of_floats(m, c, &v));
        return;
    }
    m->integer_products++;
    if (dt__put_rows_of(m, c, WEIGHT, &r) == DT_OK) {
        const dt__put_quantized x = dt__put_activation(m, c, X);
        dt__put_out(m, c, 0, dt__put_conv_codes(&m->p, &x, &r.w, &v, bias));
    }
    dt__put_rows_free(m, &r);
}

#define CONV "Conv, Add, Mul, Cast"
#define TRANSPOSED "ConvTranspose, Add, Mul, Cast"

const dt__put_emitter dt__put_products[] = {
    { "linear", "MatMulInteger, Cast, Mul, Add; MatMul", takes_linear, put_linear },
    { "matmul", "MatMul", NULL, put_matmul },
    { "conv2d", CONV, NULL, put_conv },
    { "conv1d", CONV, NULL, put_conv },
    { "conv_transpose2d", TRANSPOSED, NULL, put_conv },
    { "conv_transpose1d", TRANSPOSED, NULL, put_conv },
    { NULL, NULL, NULL, NULL },
};

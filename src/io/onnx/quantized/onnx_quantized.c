/* QuantizeLinear and DequantizeLinear:
 *
 *     q = clamp(rne(x / scale) + zero)        x = (q - zero) * scale
 *
 * For constants they are computed, and the result keeps its codes. A computed value is passed on
 * unchanged with its scale and zero point: the layer that reads it quantizes its input with them.
 * Codes are kept in signed form here: unsigned ones less 2^(bits-1). */
#include "core/text/row_named.h"
#include "io/onnx/onnx.h"

#include <math.h>
#include <string.h>

/* Bits of a code type; 0: not a supported one. */
static int bits_of(int type)
{
    if (type == DT__ONNX_U8 || type == DT__ONNX_I8) return 8;
    if (type == DT__ONNX_U4 || type == DT__ONNX_I4) return 4;
    if (type == DT__ONNX_U2 || type == DT__ONNX_I2) return 2;
    return type == DT__ONNX_I32 ? 32 : 0;
}

static bool is_unsigned(int type)
{
    return type == DT__ONNX_U8 || type == DT__ONNX_U4 || type == DT__ONNX_U2;
}

/* What is subtracted from a code of the file to get the signed form. */
static int offset_of(int type) { return is_unsigned(type) ? 1 << (bits_of(type) - 1) : 0; }

/* ---- scales ---------------------------------------------------------------------------------- */

/* Reads the shape of the scales and their axis in x. */
static dt_status read_layout(dt__onnx *g, const dt__onnx_value *x, const dt__onnx_value *scale,
                             dt__onnx_codes *q)
{
    q->axis = -1;
    q->block = dt__onnx_int_of(g->node, "block_size", 0);
    q->rank = scale->rank;
    q->scales = scale->count;
    memcpy(q->dims, scale->dims, sizeof q->dims);
    if (scale->count == 1 && q->block == 0) return DT_OK;
    DT__TRY(dt__onnx_axis(g, dt__onnx_int_of(g->node, "axis", 1), x->rank, &q->axis));
    if (x->kind != DT__ONNX_CONSTANT) {
        return dt__onnx_refuse(g, "it has %lld scales of a computed value; expected one",
                               (long long)scale->count);
    }
    bool fits = q->block >= 0 && scale->rank == (q->block > 0 ? x->rank : 1);
    for (int i = 0; fits && i < scale->rank; i++) {
        const int of = q->block > 0 ? i : q->axis;
        const int64_t n =
            of == q->axis && q->block > 0 ? dt__ceil_div(x->dims[of], q->block) : x->dims[of];
        fits = scale->dims[i] == n;
    }
    return fits ? DT_OK : dt__onnx_refuse(g, "its scales do not fit axis %d of its input", q->axis);
}

static dt_status read_zeros(dt__onnx *g, int type, dt__onnx_codes *q)
{
    const dt__onnx_value *zero = dt__onnx_in(g, 2);
    int8_t *to = dt__onnx_memory(g, q->scales, 1);
    if (to == NULL) return DT_ERR_NOMEM;
    q->zero = to;
    if (zero != NULL && (zero->kind != DT__ONNX_CONSTANT || zero->count != q->scales)) {
        return dt__onnx_refuse(g, "its zero point must be constant, and as many as scales");
    }
    for (int64_t i = 0; i < q->scales; i++) {
        const double z = zero == NULL ? 0 : dt__onnx_number_at(zero, i).value;
        if (q->bits == 32 && z != 0)
            return dt__onnx_refuse(g, "it is of int32 with a zero point; expected none");
        if (q->bits < 32 && !dt__onnx_round(type, &(double){ z })) {
            return dt__onnx_refuse(g, "its zero point is not a code");
        }
        to[i] = (int8_t)((int)z - offset_of(type));
    }
    return DT_OK;
}

/* Reads scale and zero point of codes of a type from inputs 1 and 2 of the node; x has the codes'
 * shape. */
static dt_status read_codes(dt__onnx *g, const dt__onnx_value *x, int type, dt__onnx_codes **out)
{
    const dt__onnx_value *scale = dt__onnx_in(g, 1);
    dt__onnx_codes *q = *out = dt__onnx_memory(g, 1, sizeof *q);
    if (q == NULL) return DT_ERR_NOMEM;
    q->bits = bits_of(type);
    if (q->bits == 0) {
        return dt__onnx_refuse(
            g,
            "its data type is %d; expected int8, uint8, int4, uint4, int2, uint2, or int32 of "
            "constants",
            type);
    }
    DT__TRY(dt__onnx_floats_of(g, scale, "the scale", &q->scale));
    DT__TRY(read_layout(g, x, scale, q));
    for (int64_t i = 0; i < q->scales; i++) {
        if (isnormal(q->scale[i]) && q->scale[i] > 0) continue;
        return dt__onnx_refuse(g, "its scale is %g; it must be a positive normal number",
                               (double)q->scale[i]);
    }
    return read_zeros(g, type, q);
}

/* The index of the scale of element i of a constant. */
static int64_t place_of(const dt__onnx_codes *q, const dt__onnx_value *x, int64_t i)
{
    int64_t inner = 1;
    if (q->axis < 0) return 0;
    for (int d = q->axis + 1; d < x->rank; d++) inner *= x->dims[d];
    const int64_t extent = x->dims[q->axis], at = i / inner % extent;
    if (q->block == 0) return at;
    return (i / inner / extent * q->dims[q->axis] + at / q->block) * inner + i % inner;
}

/* ---- constants ------------------------------------------------------------------------------- */

/* The type of a QuantizeLinear's codes. */
static int type_of(dt__onnx *g)
{
    const dt__onnx_value *zero = dt__onnx_in(g, 2);
    const int64_t wanted = dt__onnx_int_of(g->node, "output_dtype", 0);
    return zero != NULL ? zero->type : wanted != 0 ? (int)wanted : DT__ONNX_U8;
}

dt_status dt__onnx_fold_quantize(dt__onnx *g)
{
    const dt__onnx_value x = *dt__onnx_in(g, 0);
    const int type = type_of(g);
    const float *from;
    dt__onnx_codes *q;
    dt__onnx_number *to;
    DT__TRY(read_codes(g, &x, type, &q));
    if (q->bits == 32)
        return dt__onnx_refuse(g, "it rounds to int32; expected codes of 8, 4 or 2 bits");
    DT__TRY(dt__onnx_floats_of(g, &x, "a weight", &from));
    DT__TRY(dt__onnx_constant(g, dt__onnx_out(g, 0), x.rank, x.dims, NULL, &to));
    dt__onnx_out(g, 0)->type = type;
    dt__onnx_out(g, 0)->initializer = x.initializer;
    const double least = -(double)(1 << (q->bits - 1)), most = -least - 1;
    for (int64_t i = 0; i < x.count; i++) {
        const int64_t k = place_of(q, &x, i);
        const double code = rint((double)(from[i] / q->scale[k])) + q->zero[k];
        if (isnan(code)) return dt__onnx_refuse(g, "its input is not a number");
        to[i].value = fmin(fmax(code, least), most) + offset_of(type);
    }
    return DT_OK;
}

dt_status dt__onnx_fold_dequantize(dt__onnx *g)
{
    const dt__onnx_value x = *dt__onnx_in(g, 0);
    dt__onnx_value *out = dt__onnx_out(g, 0);
    dt__onnx_codes *q;
    float *to;
    DT__TRY(read_codes(g, &x, x.type, &q));
    DT__TRY(dt__onnx_constant(g, out, x.rank, x.dims, &to, NULL));
    out->initializer = x.initializer;
    if (q->bits < 32) out->codes = q;
    const int offset = offset_of(x.type);
    for (int64_t i = 0; i < x.count; i++) {
        const int64_t k = place_of(q, &x, i);
        const double code = dt__onnx_number_at(&x, i).value - offset - q->zero[k];
        to[i] = (float)code * q->scale[k];
    }
    return DT_OK;
}

/* ---- computed values ------------------------------------------------------------------------- */

dt_status dt__onnx_quantize(dt__onnx *g)
{
    const dt__onnx_value x = *dt__onnx_in(g, 0);
    dt__onnx_value *out = dt__onnx_out(g, 0);
    dt__onnx_codes *q;
    DT__TRY(read_codes(g, &x, type_of(g), &q));
    if (q->bits == 32)
        return dt__onnx_refuse(g, "it rounds to int32; expected codes of 8, 4 or 2 bits");
    dt__onnx_same(g, 0, &x);
    out->codes = q;
    out->type = type_of(g);
    out->integers = true;
    out->rounded = false;
    return DT_OK;
}

dt_status dt__onnx_dequantize(dt__onnx *g)
{
    const dt__onnx_value x = *dt__onnx_in(g, 0);
    const dt__onnx_value *zero = dt__onnx_in(g, 2);
    dt__onnx_codes *q;
    if (!x.integers) return dt__onnx_refuse(g, "its input must come from a QuantizeLinear");
    DT__TRY(read_codes(g, &x, zero != NULL ? zero->type : DT__ONNX_U8, &q));
    if (q->bits != x.codes->bits || q->scale[0] != x.codes->scale[0] ||
        q->zero[0] != x.codes->zero[0]) {
        return dt__onnx_refuse(
            g, "its scale and zero point must be those of the QuantizeLinear before it");
    }
    dt__onnx_same(g, 0, &x);
    dt__onnx_out(g, 0)->integers = false;
    return DT_OK;
}

/* Dynamic quantization per tensor; only products of codes may read the result (onnx_dynamic.c). */
dt_status dt__onnx_quantize_dynamic(dt__onnx *g)
{
    static const dt__onnx_codes by_tensor = { .bits = 8, .axis = -1 };
    dt__onnx_same(g, 0, dt__onnx_in(g, 0));
    dt__onnx_value *out = dt__onnx_out(g, 0);
    out->codes = &by_tensor;
    out->integers = out->rounded = false;
    return DT_OK;
}

/* Operators that only select or rearrange elements: their results have the codes of their input. */
static bool keeps_codes(const char *op)
{
    static const char *const ops[] = { "Reshape",         "Flatten",  "Squeeze", "Unsqueeze",
                                       "Transpose",       "MaxPool",  "Slice",   "Gather",
                                       "Split",           "Identity", "Dropout", "Shape",
                                       "DequantizeLinear" };
    return DT__IS_ONE_OF(op, ops);
}

/* Operators whose readers set the codes of their results. */
static bool makes_codes(const char *op)
{
    static const char *const ops[] = { "QuantizeLinear", "DynamicQuantizeLinear", "Cast" };
    return DT__IS_ONE_OF(op, ops);
}

/* Whether the node becomes a layer with a weight, which quantizes its first input. */
static bool takes_codes(dt__onnx *g)
{
    static const char *const ops[] = { "Conv", "ConvTranspose", "Gemm" };
    const char *op = g->node->op_type;
    return DT__IS_ONE_OF(op, ops) || (strcmp(op, "MatMul") == 0 && dt__onnx_is_linear(g));
}

dt_status dt__onnx_rounded(dt__onnx *g, const dt__onnx_value *v)
{
    dt__onnx_layer *l;
    dt__onnx_value *own = dt__onnx_find(g, v->name);
    const dt__onnx_codes *q = v->codes;
    if (q == NULL || v->rounded || g->options->floats) return DT_OK;
    if (q->scale == NULL) {
        return dt__onnx_refuse(g, "it reads codes of a DynamicQuantizeLinear; only MatMulInteger "
                                  "and ConvInteger are known to");
    }
    if (v->integers) {
        return dt__onnx_refuse(g, "it reads codes; a DequantizeLinear must come before it");
    }
    if (q->bits != 8)
        return dt__onnx_refuse(
            g, "it reads values that are rounded to %d bits; expected the floats before, or codes",
            q->bits);
    DT__TRY(dt__onnx_new(g, "fake_quant", &l));
    dt_fake_quant_layer *o = l->options;
    o->scale = (double)q->scale[0];
    o->zero_point = q->zero[0];
    DT__TRY(dt__onnx_add_on(g, l, dt__onnx_maker(g, v)));
    own->plain = v->plain == v->layer ? l->index : -1;
    own->layer = l->index;
    own->rounded = true;
    return DT_OK;
}

/* Integer inputs may select rows and be compared; arithmetic on them would be float arithmetic, and
 * is refused. */
static dt_status check_whole(dt__onnx *g, int i)
{
    static const char *const ops[] = { "Cast", "Equal", "Expand", "Tile", "OneHot" };
    const char *op = g->node->op_type;
    bool fits = strcmp(op, "Gather") == 0 ? i == 1 : keeps_codes(op);
    for (int k = 0; k < DT__COUNT_OF(ops); k++) fits |= strcmp(ops[k], op) == 0;
    if (fits) return DT_OK;
    return dt__onnx_refuse(
        g, "it computes with integers of an input; Gather, Equal and Cast to float can read them");
}

dt_status dt__onnx_round_inputs(dt__onnx *g)
{
    const char *op = g->node->op_type;
    for (int i = 0; (size_t)i < g->node->n_input; i++) {
        const dt__onnx_value *v = dt__onnx_in(g, i);
        if (v != NULL && v->whole) DT__TRY(check_whole(g, i));
        if (keeps_codes(op) && (v == NULL || v->codes == NULL || v->codes->scale != NULL)) continue;
        const bool taken = i == 0 && v != NULL && !v->integers && takes_codes(g);
        if (v != NULL && v->integers && strcmp(op, "Cast") == 0 &&
            dt__onnx_int_of(g->node, "to", 0) == v->type) {
            continue; /* PyTorch writes it behind each QuantizeLinear */
        }
        if (v == NULL || v->kind != DT__ONNX_COMPUTED || taken) continue;
        DT__TRY(dt__onnx_rounded(g, v));
    }
    return DT_OK;
}

void dt__onnx_keep_codes(dt__onnx *g)
{
    const dt__onnx_value *x = dt__onnx_in(g, 0);
    const char *op = g->node->op_type;
    const bool cast = strcmp(op, "Cast") == 0;
    const int64_t to = cast ? dt__onnx_int_of(g->node, "to", 0) : DT__ONNX_I64;
    dt__onnx_value *y = dt__onnx_out(g, 0);
    if (x != NULL && x->whole && y != NULL && y->kind == DT__ONNX_COMPUTED) {
        y->whole = strcmp(op, "Equal") != 0 && (to == DT__ONNX_I64 || to == DT__ONNX_I32);
    }
    if (x == NULL || x->kind != DT__ONNX_COMPUTED || x->codes == NULL || makes_codes(op)) return;
    const bool keeps = keeps_codes(op);
    for (int i = 0; (size_t)i < g->node->n_output; i++) {
        dt__onnx_value *out = dt__onnx_out(g, i);
        if (out == NULL || out->kind != DT__ONNX_COMPUTED) continue;
        out->codes = keeps ? x->codes : NULL;
        out->integers = keeps && x->integers && strcmp(op, "DequantizeLinear") != 0;
        out->rounded = keeps && x->rounded;
    }
}

dt_status dt__onnx_transpose_codes(dt__onnx *g, const dt__onnx_codes *q, const int *order, int rank,
                                   const dt__onnx_codes **out)
{
    *out = q;
    if (q->axis < 0) return DT_OK;
    dt__onnx_codes *to = dt__onnx_memory(g, 1, sizeof *to);
    dt__onnx_value scale = { .rank = q->rank, .count = q->scales, .f = q->scale }, turned;
    if (to == NULL) return DT_ERR_NOMEM;
    *to = *q;
    *out = to;
    for (int i = 0; i < rank; i++) {
        if (order[i] == q->axis) to->axis = i;
    }
    if (q->block == 0) return DT_OK;
    memcpy(scale.dims, q->dims, sizeof scale.dims);
    float *zeros = dt__onnx_memory(g, q->scales, sizeof *zeros);
    int8_t *zero = dt__onnx_memory(g, q->scales, 1);
    if (zeros == NULL || zero == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < q->scales; i++) zeros[i] = q->zero[i];
    DT__TRY(dt__onnx_transposed(g, &scale, order, &turned));
    memcpy(to->dims, turned.dims, sizeof to->dims);
    to->scale = turned.f;
    scale.f = zeros;
    DT__TRY(dt__onnx_transposed(g, &scale, order, &turned));
    for (int64_t i = 0; i < q->scales; i++) zero[i] = (int8_t)turned.f[i];
    to->zero = zero;
    return DT_OK;
}

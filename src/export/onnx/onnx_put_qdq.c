/* Static int8 products as pairs of QuantizeLinear and DequantizeLinear (--ops qdq), which runtimes
 * turn into integer kernels:
 *
 *     x        uint8 by the static range, then floats again
 *     weight codes of -127 ... 127 as uint8 with zero point 128 and one scale per row, then floats
 *     bias     int32, round(bias / (s_x s_w)), with scale s_x s_w; where that would leave int32
 *              beside the sum of products, s_w is enlarged, and the row's codes are divided
 *     y        Conv, ConvTranspose, Gemm or MatMul of these floats
 *
 * Codes of -128 become -127, since kernels of other runtimes are wrong for them. int8 weights would
 * saturate in onnxruntime on x86 without VNNI: up to a tenth of the largest output was wrong. Other
 * products stay in float, and are listed. */
#include "export/onnx/onnx_put_model.h"

#include "ops/device/device_layer.h"

#include <math.h>
#include <string.h>

enum { X, WEIGHT, BIAS };

bool dt__put_takes_qdq(const dt_trace_call *c, int x, int w)
{
    const dt_quant_spec *a = c->in[x].quant, *b = c->in[w].quant;
    return a != NULL && b != NULL && c->in[x].scale != NULL && a->bits == 8 &&
           b->granularity != DT_PER_GROUP && !dt__has_zero(b);
}

/* A constant of floats, int32 or uint8. */
static dt__value row(dt__put *p, const dt__put_weight *w, int type, const void *data, int rank,
                     const int64_t *dims)
{
    size_t n = type == DT__PUT_UINT8 ? 1 : 4;
    for (int i = 0; i < rank; i++) n *= (size_t)dims[i];
    return dt__put_tensor(p, &(dt__put_array){ .name = w->name,
                                               .type = type,
                                               .rank = rank,
                                               .dims = dims,
                                               .data = data,
                                               .bytes = n,
                                               .lent = true });
}

/* Quantizes x to uint8 and dequantizes it. */
static dt__value input_of(dt__put_model *m, const dt_trace_call *c, dt__value x, float *s)
{
    dt__put *p = &m->p;
    const dt_trace_operand *o = &c->in[X];
    const bool low = o->quant->is_unsigned && o->quant->range == DT_RANGE_LEARNED;
    const int8_t *zero = o->zero_point == NULL ? NULL : dt__values(o->zero_point);
    *s = *(const float *)dt__values(o->scale);
    dt__value scale = dt__put_f32(p, *s);
    dt__value z = dt__put_u8(p, zero != NULL ? *zero + 128 : low ? 0 : 128);
    return DT__PUT(p, "DequantizeLinear", DT__PUT(p, "QuantizeLinear", x, scale, z), scale, z);
}

/* Codes of the weight in the order of `place`, clamped; *clipped: how many were -128. */
static uint8_t *limited(dt__put *p, const dt__put_weight *w, int64_t *clipped)
{
    const int64_t n = w->rows * w->columns;
    uint8_t *codes = dt__put_memory(p, n, 1);
    *clipped = 0;
    for (int64_t i = 0; i < n && codes != NULL; i++) {
        const bool lowest = w->codes[i] == -128;
        codes[i] = (uint8_t)((lowest ? -127 : w->codes[i]) + 128);
        *clipped += lowest;
    }
    return codes;
}

/* Permutes [g, out, in, taps] to [g, in, out, taps], for a transposed convolution. */
static uint8_t *turned(dt__put *p, const dt__put_weight *w, const dt__put_conv *v,
                       const uint8_t *codes)
{
    const int64_t g = v->groups, in = v->channels / g, out = w->rows / g;
    const int64_t taps = w->columns / in;
    uint8_t *to = dt__put_memory(p, w->rows * w->columns, 1);
    for (int64_t n = 0; n < w->rows && to != NULL; n++) {
        for (int64_t i = 0; i < w->columns; i++) {
            const int64_t at = (n / out * in + i / taps) * out + n % out;
            to[at * taps + i % taps] = codes[n * w->columns + i];
        }
    }
    return to;
}

/* The row's scale, or a larger one, with which bias plus the largest sum of products fits int32;
 * any scale if all codes are 0. */
static float fitting_scale(const dt__put_weight *w, int64_t row, float bias, float s)
{
    const int8_t *codes = w->codes + row * w->columns;
    const double own = (double)w->scale[row], unit = (double)(s * w->scale[row]);
    double reach = 0;
    for (int64_t k = 0; k < w->columns; k++) reach += 255 * fabs((double)codes[k]);
    const bool fits = unit >= 0x1p-126 && fabs((double)bias) / unit + reach < 0x1p31;
    const double wanted = dt__bias_scale(bias, s);
    if (reach == 0 && (!fits || bias != 0)) return (float)wanted;
    return (float)(!fits && wanted > own ? wanted : own);
}

/* The weight with scales that fit its biases; the codes of *widened rows have changed. */
static dt__put_weight fitted(dt__put *p, const dt__put_weight *w, const float *bias, float s,
                             int64_t *widened)
{
    dt__put_weight out = *w;
    int8_t *codes = dt__put_memory(p, w->rows * w->columns, 1);
    float *scale = dt__put_memory(p, w->rows, sizeof *scale);
    *widened = 0;
    if (bias == NULL || codes == NULL || scale == NULL) return out;
    memcpy(codes, w->codes, (size_t)(w->rows * w->columns));
    for (int64_t n = 0; n < w->rows; n++) {
        scale[n] = fitting_scale(w, n, bias[n], s);
        const double by = (double)w->scale[n] / (double)scale[n];
        if (by < 1) dt__rescale_codes(codes + n * w->columns, w->columns, by);
        *widened += by < 1;
    }
    out.codes = codes;
    out.scale = scale;
    return out;
}

static dt__value weight_of(dt__put_model *m, const dt__put_weight *w, const dt__put_conv *v,
                           int64_t *clipped)
{
    dt__put *p = &m->p;
    const uint8_t *codes = limited(p, w, clipped);
    if (codes == NULL) return NULL;
    const bool transposed = v != NULL && v->transposed;
    if (transposed) codes = turned(p, w, v, codes);
    if (codes == NULL) return NULL;
    const int64_t in = v == NULL ? w->columns : v->channels / v->groups;
    int64_t dims[4] = { w->rows, in, 1, 1 };
    if (transposed) dims[0] = v->channels;
    if (transposed) dims[1] = w->rows / v->groups;
    for (int d = 0; v != NULL && d < v->n; d++) dims[2 + d] = v->kernel[d];
    dt__value q = row(p, w, DT__PUT_UINT8, codes, v == NULL ? 2 : 2 + v->n, dims);
    float *scale = dt__put_memory(p, w->rows, sizeof *scale);
    for (int64_t n = 0; n < w->rows && scale != NULL; n++) scale[n] = w->scale[n];
    const int64_t channels = transposed ? w->rows / v->groups : w->rows;
    uint8_t *zero = dt__put_memory(p, channels, 1);
    for (int64_t n = 0; n < channels && zero != NULL; n++) zero[n] = 128;
    dt__value y = DT__PUT(p, "DequantizeLinear", q, row(p, w, DT__PUT_FLOAT, scale, 1, &channels),
                          row(p, w, DT__PUT_UINT8, zero, 1, &channels));
    if (y != NULL) dt__put_attr_int(p, "axis", transposed);
    return y;
}

static dt__value bias_of(dt__put_model *m, const dt__put_weight *w, const float *bias, float s)
{
    dt__put *p = &m->p;
    int32_t *q = dt__put_memory(p, w->rows, sizeof *q);
    float *scale = dt__put_memory(p, w->rows, sizeof *scale);
    if (bias == NULL) return "";
    for (int64_t n = 0; n < w->rows && !p->failed; n++) {
        scale[n] = s * w->scale[n];
        q[n] = (int32_t)rint((double)bias[n] / (double)scale[n]);
    }
    dt__value y = DT__PUT(p, "DequantizeLinear", row(p, w, DT__PUT_INT32, q, 1, &w->rows),
                          row(p, w, DT__PUT_FLOAT, scale, 1, &w->rows));
    if (y != NULL) dt__put_attr_int(p, "axis", 0);
    return y;
}

dt__value dt__put_qdq(dt__put_model *m, const dt_trace_call *c, const dt__put_weight *w,
                      const dt__put_conv *v, dt__value x)
{
    dt__put *p = &m->p;
    float s;
    int64_t clipped = 0, widened = 0;
    const int rank = dt__put_operand(m, c, X)->rank;
    const float *given = dt__put_data(m, c, BIAS);
    x = input_of(m, c, x, &s);
    const dt__put_weight wide = fitted(p, w, given, s, &widened);
    dt__value weight = weight_of(m, &wide, v, &clipped);
    dt__value bias = bias_of(m, &wide, given, s);
    if (clipped > 0) dt__put_count(&m->clipped, c->module, clipped);
    if (widened > 0) dt__put_count(&m->widened, c->module, widened);
    if (v != NULL) return dt__put_conv_floats(p, x, weight, bias, v);
    if (rank == 2) {
        const char *const in[] = { x, weight, bias };
        dt__value y = dt__put_node(p, "Gemm", in, bias != NULL && *bias == 0 ? 2 : 3);
        if (y != NULL) dt__put_attr_int(p, "transB", 1);
        return y;
    }
    dt__value y = DT__PUT(p, "MatMul", x, DT__PUT_TRANSPOSE(p, weight, 1, 0));
    return bias != NULL && *bias == 0 ? y : DT__PUT(p, "Add", y, bias);
}

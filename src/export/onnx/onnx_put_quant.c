/* Quantization of activations in ONNX (docs/numerics.md, section 1):
 *
 *     v = round(clip(x * min(1 / s, 2^23), qmin - z, qmax - z))      code = v + z
 *
 * Codes stay floats, so that padding with 0 is padding with the zero point. Without the min,
 * onnxruntime would rewrite x * (1 / s) as x / s, which gives other codes. As s is at least 2^-23,
 * the min has no effect on values. */
#include "export/onnx/onnx_put_quant.h"

#include "qat/schemes/scheme.h"

static dt__put_quantized fixed_range(const dt__put_scheme *q, dt__put *p)
{
    const bool low = q->quant->is_unsigned && q->quant->range == DT_RANGE_LEARNED;
    const int z = q->zero_point != NULL ? *q->zero_point : low ? dt__qmin(q->quant) : 0;
    const float zu = (float)(z + 128);
    return (dt__put_quantized){ .scale = dt__put_f32(p, *q->scale),
                                .zero_u = dt__put_f32(p, zu),
                                .fixed = true,
                                .s = *q->scale,
                                .zu = zu };
}

/* The least or largest of each row's values and 0. */
static dt__value extremum(dt__put *p, const char *op, const char *bound, dt__value x,
                          const dt__put_scheme *q)
{
    int64_t axes[DT_MAX_RANK] = { -1 };
    int64_t n = 1;
    const bool whole = q->quant->granularity == DT_PER_TENSOR;
    if (whole || q->samples) {
        n = 0;
        for (int64_t i = whole ? 0 : 1; i < q->rank; i++) axes[n++] = i;
    }
    dt__value least = n == 0 ? x : DT__PUT(p, op, x, dt__put_i64s(p, n, axes));
    return DT__PUT(p, bound, least, dt__put_f32(p, 0));
}

static dt__value raw_scale(dt__put *p, const dt_quant_spec *q, dt__value lo, dt__value hi)
{
    const float qmin = (float)dt__qmin(q), qmax = (float)dt__qmax(q);
    if (q->scheme == DT_SCHEME_ASYMMETRIC) {
        return DT__PUT(p, "Div", DT__PUT(p, "Sub", hi, lo), dt__put_f32(p, qmax - qmin));
    }
    if (q->scheme == DT_SCHEME_SYMMETRIC) {
        dt__value largest = DT__PUT(p, "Max", DT__PUT(p, "Neg", lo), hi);
        return DT__PUT(p, "Div", largest, dt__put_f32(p, (qmax - qmin) / 2));
    }
    return DT__PUT(p, "Max", DT__PUT(p, "Div", lo, dt__put_f32(p, qmin)),
                   DT__PUT(p, "Div", hi, dt__put_f32(p, qmax)));
}

/* The scale, at least eps, and rounded to its dtype. */
static dt__value limited_scale(dt__put *p, const dt_quant_spec *q, dt__value s)
{
    const int dtype = dt__scale_dtype(q);
    if (dtype == DT_SCALE_F32) return DT__PUT(p, "Max", s, dt__put_f32(p, 0x1p-23f));
    if (dtype == DT_SCALE_BF16) {
        s = DT__PUT(p, "Max", s, dt__put_f32(p, 0x1p-23f));
        return dt__put_cast(p, dt__put_cast(p, s, DT__PUT_BFLOAT16), DT__PUT_FLOAT);
    }
    s = DT__PUT(p, "Min", DT__PUT(p, "Max", s, dt__put_f32(p, 0x1p-14f)), dt__put_f32(p, 65504));
    return dt__put_cast(p, dt__put_cast(p, s, DT__PUT_FLOAT16), DT__PUT_FLOAT);
}

static dt__put_quantized dynamic_range(dt__put *p, dt__value x, const dt__put_scheme *q)
{
    const float qmin = (float)dt__qmin(q->quant), qmax = (float)dt__qmax(q->quant);
    dt__value lo = extremum(p, "ReduceMin", "Min", x, q);
    dt__value hi = extremum(p, "ReduceMax", "Max", x, q);
    dt__value s = limited_scale(p, q->quant, raw_scale(p, q->quant, lo, hi));
    if (!dt__has_zero(q->quant)) {
        return (dt__put_quantized){ .scale = s, .zero_u = dt__put_f32(p, 128), .zu = 128 };
    }
    dt__value steps = DT__PUT(p, "Round", DT__PUT(p, "Div", lo, s));
    dt__value z = DT__PUT(p, "Clip", DT__PUT(p, "Sub", dt__put_f32(p, qmin), steps),
                          dt__put_f32(p, qmin), dt__put_f32(p, qmax));
    return (dt__put_quantized){ .scale = s, .zero_u = DT__PUT(p, "Add", z, dt__put_f32(p, 128)) };
}

static dt__value clipped(dt__put *p, dt__value v, const dt__put_quantized *o,
                         const dt_quant_spec *q)
{
    const float low = (float)(dt__qmin(q) + 128), high = (float)(dt__qmax(q) + 128);
    if (o->zu != 0 || o->fixed) {
        return DT__PUT(p, "Clip", v, dt__put_f32(p, low - o->zu), dt__put_f32(p, high - o->zu));
    }
    v = DT__PUT(p, "Max", v, DT__PUT(p, "Sub", dt__put_f32(p, low), o->zero_u));
    return DT__PUT(p, "Min", v, DT__PUT(p, "Sub", dt__put_f32(p, high), o->zero_u));
}

dt__put_quantized dt__put_quantize(dt__put *p, dt__value x, const dt__put_scheme *q)
{
    dt__put_quantized o = q->scale != NULL ? fixed_range(q, p) : dynamic_range(p, x, q);
    dt__value inverse;
    if (o.fixed) {
        inverse = dt__put_f32(p, 1.0f / o.s);
    } else {
        inverse = DT__PUT(p, "Div", dt__put_f32(p, 1), o.scale);
        inverse = DT__PUT(p, "Min", inverse, dt__put_f32(p, 0x1p23f));
    }
    dt__value v = DT__PUT(p, "Mul", x, inverse);
    o.v = DT__PUT(p, "Round", clipped(p, v, &o, q->quant));
    return o;
}

dt__value dt__put_dequantize(dt__put *p, const dt__put_quantized *q)
{
    return DT__PUT(p, "Mul", q->v, q->scale);
}

/* Activations in blocks in ONNX (scheme q8_0 of docs/numerics.md, section 1), and their products:
 *
 *     a = max(-lo, hi)      s = a / 127      v = round(x * min(127 / a, largest float))
 *     acc = 0       for each block   acc = fmaf(sum of v * q, s_w * s, acc)
 *
 * Where 127 / a is not a float, s is 0, so that any v will do. */
#include "export/onnx/onnx_put_quant.h"

#include "qat/schemes/scheme.h"

#include <float.h>

static dt__value stored(dt__put *p, const dt_quant_spec *q, dt__value s)
{
    const int dtype = dt__scale_dtype(q);
    if (dtype == DT_SCALE_F32) return s;
    const int type = dtype == DT_SCALE_F16 ? DT__PUT_FLOAT16 : DT__PUT_BFLOAT16;
    return dt__put_cast(p, dt__put_cast(p, s, type), DT__PUT_FLOAT);
}

static void put_block(dt__put *p, const dt_quant_spec *q, dt__value x, dt__value *v, dt__value *s)
{
    const float most = (float)dt__qmax(q);
    dt__value axes = DT__PUT_I64(p, -1);
    dt__value lo = DT__PUT(p, "Min", DT__PUT(p, "ReduceMin", x, axes), dt__put_f32(p, 0));
    dt__value hi = DT__PUT(p, "Max", DT__PUT(p, "ReduceMax", x, axes), dt__put_f32(p, 0));
    /* Of zeros of both signs Max may give either, and 1 / -0 is below every number. */
    dt__value a = DT__PUT(p, "Abs", DT__PUT(p, "Max", DT__PUT(p, "Neg", lo), hi));
    dt__value inverse = DT__PUT(p, "Div", dt__put_f32(p, most), a);
    dt__value none = DT__PUT(p, "Less", dt__put_f32(p, FLT_MAX), inverse);
    dt__value scale = stored(p, q, DT__PUT(p, "Div", a, dt__put_f32(p, most)));
    inverse = DT__PUT(p, "Min", inverse, dt__put_f32(p, FLT_MAX));
    *s = DT__PUT(p, "Where", none, dt__put_f32(p, 0), scale);
    *v = DT__PUT(p, "Round", DT__PUT(p, "Mul", x, inverse));
}

/* x cut into blocks along its last dimension of `columns`. */
static void cut(dt__put *p, dt__value x, int64_t columns, int64_t group, dt__put_blocks *b)
{
    int64_t *sizes = dt__put_memory(p, b->n, sizeof *sizes);
    b->v[0] = x;
    if (b->n == 1 || sizes == NULL) return;
    for (int64_t i = 0; i < b->n; i++) sizes[i] = dt__min_i64(group, columns - i * group);
    if (DT__PUT(p, "Split", x, dt__put_i64s(p, b->n, sizes)) == NULL) return;
    dt__put_attr_int(p, "axis", -1);
    dt__put_results(p, b->n, b->v);
}

dt__put_blocks dt__put_quantize_blocks(dt__put *p, dt__value x, const dt_quant_spec *q,
                                       int64_t columns)
{
    dt__put_blocks b = { .n = dt__max_i64(1, dt__ceil_div(columns, q->group_size)) };
    b.v = dt__put_memory(p, b.n, sizeof *b.v);
    b.scale = dt__put_memory(p, b.n, sizeof *b.scale);
    if (p->failed) return (dt__put_blocks){ 0 };
    cut(p, x, columns, q->group_size, &b);
    for (int64_t i = 0; i < b.n && !p->failed; i++) {
        put_block(p, q, b.v[i], &b.v[i], &b.scale[i]);
    }
    return b;
}

dt__value dt__put_dequantize_blocks(dt__put *p, const dt__put_blocks *b)
{
    for (int64_t i = 0; i < b->n && !p->failed; i++) {
        b->v[i] = DT__PUT(p, "Mul", b->v[i], b->scale[i]);
    }
    if (b->n == 1 || p->failed) return b->n == 0 ? NULL : b->v[0];
    dt__value y = dt__put_node(p, "Concat", b->v, (int)b->n);
    if (y != NULL) dt__put_attr_int(p, "axis", -1);
    return y;
}

dt__value dt__put_linear_blocks(dt__put *p, const dt__put_blocks *b, const dt__put_weight *w,
                                const float *bias)
{
    dt__put_chain c = { .w = w };
    float *zero = dt__put_memory(p, w->rows, sizeof *zero);
    if (p->failed) return NULL;
    for (int64_t n = 0; n < w->rows; n++) zero[n] = 0;
    c.acc = dt__put_per_row(p, &c, zero, DT__PUT_FLOAT);
    for (int64_t i = 0; i < b->n && w->columns > 0; i++) {
        const dt__put_term t = dt__put_term_at(w, i);
        dt__value u = DT__PUT(p, "Add", b->v[i], dt__put_f32(p, 128));
        u = dt__put_cast(p, u, DT__PUT_UINT8);
        dt__value codes = dt__put_term_codes(p, w, &t), middle = dt__put_u8(p, 128);
        dt__value sum = w->bits > 7 ? DT__PUT(p, "MatMulInteger", u, codes, middle, middle)
                                    : DT__PUT(p, "MatMulInteger", u, codes, middle);
        c.block_scale = b->scale[i];
        dt__put_chain_add(p, &c, i, sum, DT__PUT_INT32);
    }
    return bias == NULL ? c.acc
                        : DT__PUT(p, "Add", c.acc, dt__put_per_row(p, &c, bias, DT__PUT_FLOAT));
}

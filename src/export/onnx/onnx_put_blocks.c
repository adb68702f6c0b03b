/* Activations in blocks in ONNX (docs/numerics.md, section 1), and their products:
 *
 *     a = max(-lo, hi)
 *     q8_0          s = a / 127      v = round(x * min(127 / a, largest float))
 *     small floats  s by power(a), or E4M3 under a scale of the tensor
 *                   c = x / s, cut        v = round(c / u) * u        u = power(c) / 2^mantissa
 *     acc = 0       for each block   acc = fmaf(sum of v * q, s_w * s, acc)
 *
 * If 127 / a overflows, s of q8_0 is 0, so that v has no effect. ONNX has no bit operations on
 * floats:
 *     power(a) = 2^floor(log2 a) = q - (1 - 2^-24) q,  q = (2^23 + 1) a
 * where each operation is rounded to f32, of an a that is scaled so that q is finite   [Rump,
 * Ogita, Oishi 2008: ufp]. */
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

/* The largest power of two <= a, for a >= 0; 0 for 0. */
static dt__value power_in(dt__put *p, dt__value a)
{
    dt__value small = DT__PUT(p, "Less", a, dt__put_f32(p, 1)), one = dt__put_f32(p, 1);
    dt__value down = DT__PUT(p, "Where", small, one, dt__put_f32(p, 0x1p-24f));
    dt__value up = DT__PUT(p, "Where", small, one, dt__put_f32(p, 0x1p24f));
    dt__value near = DT__PUT(p, "Mul", a, down);
    dt__value q = DT__PUT(p, "Mul", near, dt__put_f32(p, 0x1p23f + 1));
    dt__value less = DT__PUT(p, "Mul", q, dt__put_f32(p, 1 - 0x1p-24f));
    return DT__PUT(p, "Mul", DT__PUT(p, "Sub", q, less), up);
}

static dt__value between(dt__put *p, dt__value x, float least, float most)
{
    return DT__PUT(p, "Min", DT__PUT(p, "Max", x, dt__put_f32(p, least)), dt__put_f32(p, most));
}

/* The nearest value of a small float, ties to even; adding 0 turns -0 into 0. */
static dt__value put_small(dt__put *p, const dt__small_float *f, dt__value x)
{
    dt__value c = between(p, x, -f->most, f->most);
    dt__value own = power_in(p, DT__PUT(p, "Abs", c));
    own = DT__PUT(p, "Max", own, dt__put_f32(p, dt__f32_power(1 - f->bias)));
    dt__value unit = DT__PUT(p, "Mul", own, dt__put_f32(p, dt__f32_power(-f->mantissa)));
    dt__value whole = DT__PUT(p, "Round", DT__PUT(p, "Div", c, unit));
    return DT__PUT(p, "Add", DT__PUT(p, "Mul", whole, unit), dt__put_f32(p, 0));
}

/* The scale of a block with largest magnitude a. */
static dt__value put_scale(dt__put *p, const dt_quant_spec *q, float global, dt__value a)
{
    const dt__scheme *s = dt__scheme_of(q->scheme);
    dt__value zero = dt__put_f32(p, 0);
    if (s->global != NULL) {
        dt__value e =
            DT__PUT(p, "Mul", DT__PUT(p, "Div", a, dt__put_f32(p, 6)), dt__put_f32(p, global));
        e = put_small(p, &dt__e4m3, e);
        e = DT__PUT(p, "Where", DT__PUT(p, "Less", zero, e), e, dt__put_f32(p, 0.125f));
        return DT__PUT(p, "Mul", DT__PUT(p, "Div", e, dt__put_f32(p, global)),
                       dt__put_f32(p, 0.5f));
    }
    const bool half = q->scale_dtype == DT_SCALE_F16;
    const float above = 1 + (float)s->rule.carry * 0x1p-23f;
    dt__value v = DT__PUT(p, "Div", a, dt__put_f32(p, s->rule.most)), e = power_in(p, v);
    if (s->rule.carry != 0) { /* rounded up from (2 - carry) * 2^E on */
        dt__value edge = DT__PUT(p, "Mul", e, dt__put_f32(p, 3 - above));
        dt__value twice = DT__PUT(p, "Mul", e, dt__put_f32(p, 2));
        e = DT__PUT(p, "Where", DT__PUT(p, "Less", v, edge), e, twice);
    }
    e = DT__PUT(p, "Mul", e, dt__put_f32(p, dt__f32_power(-s->rule.bits)));
    return between(p, e, half ? 0x1p-14f : 0x1p-126f, half ? 0x1p15f : 0x1p127f);
}

static void put_floats(dt__put *p, const dt__block_quant *of, dt__value x, dt__value *v,
                       dt__value a, dt__value *s)
{
    const dt__levels *l = dt__levels_of(of->quant);
    *s = put_scale(p, of->quant, of->global, a);
    x = DT__PUT(p, "Div", x, *s);
    if (l->real == NULL) x = DT__PUT(p, "Mul", x, dt__put_f32(p, 1 / l->unit));
    *v = put_small(p, l->real != NULL ? l->real : l->grid, x);
    if (l->real == NULL) *v = DT__PUT(p, "Mul", *v, dt__put_f32(p, l->unit));
}

static void put_block(dt__put *p, const dt__block_quant *of, dt__value x, dt__value *v,
                      dt__value *s)
{
    const dt_quant_spec *q = of->quant;
    const float most = (float)dt__qmax(q);
    dt__value axes = DT__PUT_I64(p, -1);
    dt__value lo = DT__PUT(p, "Min", DT__PUT(p, "ReduceMin", x, axes), dt__put_f32(p, 0));
    dt__value hi = DT__PUT(p, "Max", DT__PUT(p, "ReduceMax", x, axes), dt__put_f32(p, 0));
    /* Max of zeros of both signs may be -0, and 1 / -0 is -infinity. */
    dt__value a = DT__PUT(p, "Abs", DT__PUT(p, "Max", DT__PUT(p, "Neg", lo), hi));
    if (dt__levels_of(q) != NULL) {
        put_floats(p, of, x, v, a, s);
        return;
    }
    dt__value inverse = DT__PUT(p, "Div", dt__put_f32(p, most), a);
    dt__value none = DT__PUT(p, "Less", dt__put_f32(p, FLT_MAX), inverse);
    dt__value scale = stored(p, q, DT__PUT(p, "Div", a, dt__put_f32(p, most)));
    inverse = DT__PUT(p, "Min", inverse, dt__put_f32(p, FLT_MAX));
    *s = DT__PUT(p, "Where", none, dt__put_f32(p, 0), scale);
    *v = DT__PUT(p, "Round", DT__PUT(p, "Mul", x, inverse));
}

/* Divides x into blocks along its last dimension of `columns`. */
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

dt__put_blocks dt__put_quantize_blocks(dt__put *p, dt__value x, const dt__block_quant *of,
                                       int64_t columns)
{
    const dt_quant_spec *q = of->quant;
    dt__put_blocks b = { .n = dt__max_i64(1, dt__ceil_div(columns, q->group_size)) };
    b.v = dt__put_memory(p, b.n, sizeof *b.v);
    b.scale = dt__put_memory(p, b.n, sizeof *b.scale);
    if (p->failed) return (dt__put_blocks){ 0 };
    cut(p, x, columns, q->group_size, &b);
    for (int64_t i = 0; i < b.n && !p->failed; i++) {
        put_block(p, of, b.v[i], &b.v[i], &b.scale[i]);
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

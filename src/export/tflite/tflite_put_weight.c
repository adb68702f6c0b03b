/* Weights of TFLite: which ones LiteRT can multiply, and the order of codes and scales.
 *
 * In a product of codes, inputs are dynamically quantized: int8, asymmetric, per row or per
 * example. Its weights are symmetric, with one scale per output channel, or per block of 32 k
 * columns; scales of blocks must be exact in bf16 and in f16, as the file stores f16, and XNNPACK
 * rounds to bf16. */
#include "export/tflite/tflite_put_model.h"

#include "autograd/op.h"
#include "core/tensor.h"
#include "qat/schemes/scheme.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define BLOCK 32

/* ---- what can be written --------------------------------------------------------------------- */

bool dt__lite_is_dynamic(const dt_trace_call *c, int weight)
{
    return c->in[0].quant != NULL && c->in[weight].quant != NULL;
}

static bool takes_activation(const dt_trace_operand *a, char *why, size_t size)
{
    const dt_quant_spec *q = a->quant;
    if (q->range != DT_RANGE_DYNAMIC) {
        snprintf(why, size,
                 "its input has a fixed range, but not its output: LiteRT finds ranges of inputs "
                 "at each call (range: dynamic, which qat.target: litert trains)");
        return false;
    }
    const bool rows = a->sample || q->granularity == DT_PER_TOKEN;
    if (q->scheme == DT_SCHEME_ASYMMETRIC && q->bits == 8 && !q->is_unsigned && rows &&
        q->scale_dtype == DT_SCALE_F32) {
        return true;
    }
    snprintf(why, size,
             "its input is quantized in another way than LiteRT's, which is int8, asymmetric, a "
             "range for each row or example");
    return false;
}

/* Whether a float is exact in f16 and in bf16: at most 8 significant bits, the last of which is at
 * least 2^-24. */
static bool is_exact(float s)
{
    return s > 0 && s <= 65504.0f && s * 0x1p24f == floorf(s * 0x1p24f) &&
           ldexpf(s, 7 - ilogbf(s)) == floorf(ldexpf(s, 7 - ilogbf(s)));
}

/* Whether TFLite supports the codes of a converted weight. */
static bool takes_codes(const dt__weight_rows *r, char *why, size_t size)
{
    for (int64_t i = 0; i < r->n * r->columns && r->bits == 8; i++) {
        if (r->rows.codes[i] != INT8_MIN) continue;
        snprintf(why, size,
                 "its weight has codes of -128, with which kernels of LiteRT compute wrong sums; "
                 "train with qat.target: litert, scheme: narrow or bits: 7");
        return false;
    }
    for (int64_t i = 0; i < r->n * r->groups && r->groups > 1; i++) {
        if (is_exact(r->rows.scale[i])) continue;
        snprintf(why, size,
                 "the scale %g of a group is not exact in f16 and bf16, as which LiteRT reads it; "
                 "train with scale_dtype: bf16",
                 (double)r->rows.scale[i]);
        return false;
    }
    if (r->rows.group_of == NULL) return true;
    snprintf(why, size, "the columns of its groups are in another order");
    return false;
}

static bool takes_groups(const dt_quant_spec *q, bool linear, char *why, size_t size)
{
    if (!linear) {
        snprintf(why, size,
                 "its weight has groups of %lld columns; LiteRT has one scale for each channel of "
                 "a convolution (granularity: channel, or qat.target: litert)",
                 (long long)q->group_size);
        return false;
    }
    if (q->group_size % BLOCK != 0) {
        snprintf(why, size, "groups of %lld columns; LiteRT requires a multiple of %d",
                 (long long)q->group_size, BLOCK);
        return false;
    }
    if (dt__code_bits(q) > 4) {
        snprintf(why, size, "groups with %d bits; LiteRT has groups with 4 (granularity: channel)",
                 dt__code_bits(q));
        return false;
    }
    if (dt__scale_dtype(q) == DT_SCALE_BF16) return true;
    snprintf(why, size,
             "groups with scales of %s; LiteRT rounds them to bf16: train with scale_dtype: bf16",
             dt__scale_dtype(q) == DT_SCALE_F16 ? "f16" : "f32");
    return false;
}

/* Columns per row of a weight; rows of a transposed convolution are its second dimension. */
static int64_t columns_of(const dt_trace_call *c, const dt_trace_value *w)
{
    int64_t n = 1;
    for (int i = 1; i < w->rank; i++) n *= w->extent[i].size;
    if (strncmp(c->op->name, "conv_transpose", 14) != 0) return n;
    const dt_conv_options *o = c->options;
    return n / w->extent[1].size * (w->extent[0].size / o->groups);
}

static bool takes_weight(const dt_trace *t, const dt_trace_call *c, int i, char *why, size_t size)
{
    const dt_quant_spec *q = c->in[i].quant;
    const dt_trace_value *w = dt_trace_value_at(t, c->in[i].value);
    const bool linear = strncmp(c->op->name, "linear", 6) == 0;
    if (dt__has_zero(q)) {
        snprintf(why, size, "its weight has zero points; LiteRT's have none (scheme: symmetric)");
        return false;
    }
    if (dt__real_of(q) != NULL) {
        snprintf(why, size, "its weight is floats (scheme %s); LiteRT multiplies integers",
                 dt__scheme_of(q->scheme)->name);
        return false;
    }
    if (q->granularity == DT_PER_GROUP && q->group_size < columns_of(c, w) &&
        !takes_groups(q, linear, why, size)) {
        return false;
    }
    if (w->tensor != NULL && dt_is_packed(w->tensor)) {
        dt__weight_rows r;
        const bool taken =
            dt__weight_rows_of(dt_ctx_of(w->tensor), w->tensor, &c->in[i], &r) == DT_OK &&
            takes_codes(&r, why, size);
        dt__weight_rows_free(dt_ctx_of(w->tensor), &r);
        return taken;
    }
    if (q->bits < 8 || q->scheme == DT_SCHEME_NARROW) return true; /* narrow: -127 ... 127 */
    snprintf(why, size,
             "codes of 8 bits may be -128, with which kernels of LiteRT compute wrong sums; take "
             "scheme: narrow or bits: 7");
    return false;
}

bool dt__lite_takes_product(const dt_trace *t, const dt_trace_call *c, int weight, char *why,
                            size_t size)
{
    if (!dt__trace_takes_weight(t, c, weight, why, size)) return false;
    if (c->in[0].quant == NULL) return true;
    if (c->in[weight].quant == NULL) {
        snprintf(why, size, "its input is quantized and its weight is not");
        return false;
    }
    return takes_activation(&c->in[0], why, size) && takes_weight(t, c, weight, why, size);
}

/* ---- reading --------------------------------------------------------------------------------- */

static dt_status dequantize(dt__lite_model *m, dt__lite_weight *w)
{
    const dt__weight_rows *r = &w->r;
    w->dequantized = dt__alloc_array(m->p.ctx, w->rows * w->columns, sizeof(float));
    if (w->dequantized == NULL) return DT_ERR_NOMEM;
    const int64_t each = r->rows.op_groups > 0 ? w->rows / r->rows.op_groups : 0;
    for (int64_t i = 0; i < w->rows * w->columns; i++) {
        const int64_t row = i / w->columns, column = i % w->columns;
        const int64_t g =
            each > 0 ? r->rows.group_of[row / each * w->columns + column] : column / r->group;
        const int64_t block = row * r->groups + g;
        const int zero = r->rows.zero_point == NULL ? 0 : r->rows.zero_point[block];
        const int8_t code = r->rows.codes[i];
        const float q =
            r->real != NULL ? dt__small_value(r->real, (uint8_t)code) : (float)(code - zero);
        w->dequantized[i] = q * r->rows.scale[block];
    }
    w->floats = w->dequantized;
    return DT_OK;
}

dt_status dt__lite_weight_of(dt__lite_model *m, const dt_trace_call *c, int i, bool dynamic,
                             dt__lite_weight *out)
{
    const dt_trace_value *v = dt__lite_operand(m, c, i);
    *out = (dt__lite_weight){ .name = *v->name != 0 ? v->name : c->module,
                              .rows = v->rank == 0 ? 1 : v->extent[0].size,
                              .columns = 1 };
    for (int d = 1; d < v->rank; d++) out->columns *= v->extent[d].size;
    if (c->in[i].quant == NULL) {
        out->floats = dt__values(v->tensor);
        return DT_OK;
    }
    dt_status s = dt__weight_rows_of(m->p.ctx, v->tensor, &c->in[i], &out->r);
    out->rows = out->r.n;
    out->columns = out->r.columns;
    if (s == DT_OK && !dynamic) s = dequantize(m, out);
    if (s == DT_OK && !dynamic) m->weights_only++;
    if (m->status == DT_OK) m->status = s;
    return s;
}

void dt__lite_weight_free(dt__lite_model *m, dt__lite_weight *w)
{
    dt__weight_rows_free(m->p.ctx, &w->r);
    dt__release(m->p.ctx, w->dequantized);
    *w = (dt__lite_weight){ .floats = NULL };
}

/* ---- writing --------------------------------------------------------------------------------- */

static int64_t count_of(const dt__lite_shape *s)
{
    int64_t n = 1;
    for (int i = 0; i < s->rank; i++) n *= s->dims[i];
    return n;
}

static int put_floats(dt__lite_model *m, const dt__lite_weight *w, const dt__lite_order *o)
{
    const int64_t n = count_of(&o->shape);
    float *to = dt__lite_memory(&m->p, n, sizeof *to);
    for (int64_t i = 0; i < n && to != NULL; i++) {
        const int64_t from = o->from(o->user, i);
        to[i] = from < 0 ? 0 : w->floats[from];
    }
    if (to == NULL) return -1;
    return dt__lite_constant(&m->p, &(dt__lite_array){ .name = w->name,
                                                       .type = DT__LITE_FLOAT32,
                                                       .shape = o->shape,
                                                       .data = to,
                                                       .bytes = (size_t)n * sizeof *to,
                                                       .lent = true });
}

/* A float as f16; exact for those of is_exact. */
static uint16_t half_of(float s)
{
    const int e = ilogbf(s);
    if (e < -14) return (uint16_t)(s * 0x1p24f);
    return (uint16_t)(((e + 15) << 10) | ((int)ldexpf(s, 10 - e) & 0x3ff));
}

static int put_block_scales(dt__lite_model *m, const dt__lite_weight *w)
{
    const int64_t n = w->rows * w->r.groups;
    uint16_t *to = dt__lite_memory(&m->p, n, sizeof *to);
    for (int64_t i = 0; i < n && to != NULL; i++) to[i] = half_of(w->r.rows.scale[i]);
    if (to == NULL) return -1;
    return dt__lite_constant(&m->p, &(dt__lite_array){ .name = "scales",
                                                       .type = DT__LITE_FLOAT16,
                                                       .shape = { 2, { w->rows, w->r.groups } },
                                                       .data = to,
                                                       .bytes = (size_t)n * sizeof *to,
                                                       .lent = true });
}

static dt__lite_scales scales_of(dt__lite_model *m, const dt__lite_weight *w,
                                 const dt__lite_order *o)
{
    if (w->r.groups > 1) {
        m->blocks = true;
        return (dt__lite_scales){ .block = w->r.group, .block_scales = put_block_scales(m, w) };
    }
    const int64_t n = w->one_scale ? 1 : w->rows;
    float *scale = dt__lite_memory(&m->p, n, sizeof *scale);
    if (scale != NULL) memcpy(scale, w->r.rows.scale, (size_t)n * sizeof *scale);
    return (dt__lite_scales){ .n = n, .scale = scale, .axis = o->axis };
}

static int put_codes(dt__lite_model *m, const dt__lite_weight *w, const dt__lite_order *o)
{
    const int64_t n = count_of(&o->shape);
    const bool small = w->r.bits <= 4 && !o->wide;
    const int64_t bytes = small ? (n + 1) / 2 : n;
    uint8_t *to = dt__lite_memory(&m->p, bytes, 1);
    for (int64_t i = 0; i < n && to != NULL; i++) {
        const int64_t from = o->from(o->user, i);
        const uint8_t code = from < 0 ? 0 : (uint8_t)w->r.rows.codes[from];
        if (small) to[i / 2] = (uint8_t)(to[i / 2] | (code & 15) << (i % 2 * 4));
        else to[i] = code;
    }
    if (to == NULL) return -1;
    m->widened += w->r.bits <= 4 && o->wide;
    return dt__lite_constant(&m->p,
                             &(dt__lite_array){ .name = w->name,
                                                .type = small ? DT__LITE_INT4 : DT__LITE_INT8,
                                                .shape = o->shape,
                                                .data = to,
                                                .bytes = (size_t)bytes,
                                                .lent = true,
                                                .scales = scales_of(m, w, o) });
}

int dt__lite_put_weight(dt__lite_model *m, const dt__lite_weight *w, const dt__lite_order *o)
{
    return w->floats != NULL ? put_floats(m, w, o) : put_codes(m, w, o);
}

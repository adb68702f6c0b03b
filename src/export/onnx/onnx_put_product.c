/* Products of codes in ONNX, in the one form of docs/numerics.md, section 2:
 *
 *     acc = -(zu * ksum)     for each group   acc = fmaf(sum of u * q, s_w, acc)     y = s_x * acc
 *
 * ONNX has no fmaf. Product and sum are computed in double, and the sum is rounded to float: the
 * product of two floats is exact in double. If the sum is not, it is rounded twice, which differs
 * from fmaf in fewer than one of 2^29 cases; none was observed.
 *
 * A linear layer multiplies by MatMulInteger, uint8 by int8; codes of 8 bits are uint8 with zero
 * point 128, since products of pairs of int8 saturate on x86 without VNNI.
 *
 * A convolution multiplies floats, by Conv or ConvTranspose: codes are integers, and a sum below
 * 2^24 is exact in any order. That takes a tenth of ConvInteger's time. Padding is zu. A transposed
 * convolution multiplies v = u - zu, which is 0 between pixels, and adds zu * sum of q. If a sum
 * could be larger, it is split in halves until it cannot. */
#include "export/onnx/onnx_put_quant.h"

#include <math.h>

/* ---- numbers of rows ------------------------------------------------------------------------- */

/* Doubles are stored as floats, which runtimes cast when they load the file. */
dt__value dt__put_per_row(dt__put *p, const dt__put_chain *c, const float *value, int type)
{
    const int64_t n = c->w->rows, dims[] = { n, 1, 1 };
    const dt__put_array a = { .name = c->w->name,
                              .type = DT__PUT_FLOAT,
                              .rank = 1 + c->behind,
                              .dims = dims,
                              .data = value,
                              .bytes = (size_t)n * sizeof *value };
    dt__value y = dt__put_tensor(p, &a);
    return type == DT__PUT_FLOAT ? y : dt__put_cast(p, y, type);
}

/* Sum of a row's codes in a term; exact. */
static int64_t code_sum(const dt__put_weight *w, const dt__put_term *t, int64_t n)
{
    int64_t sum = 0;
    for (int64_t at = t->from; at < t->to; at++) {
        sum += w->codes[n * w->columns + dt__put_column(w, n, at)];
    }
    return sum;
}

/* ---- the chain ------------------------------------------------------------------------------- */

/* acc = -(zu * ksum) */
static void put_chain_begin(dt__put *p, dt__put_chain *c)
{
    const dt__put_weight *w = c->w;
    const int64_t terms = dt__put_terms(w);
    float *begin = dt__put_memory(p, w->rows, sizeof *begin);
    if (begin == NULL) return;
    for (int64_t n = 0; n < w->rows; n++) {
        float ksum = 0;
        for (int64_t i = 0; i < terms; i++) {
            const dt__put_term t = dt__put_term_at(w, i);
            ksum = fmaf(w->scale[n * w->groups + t.group], (float)code_sum(w, &t, n), ksum);
        }
        begin[n] = c->x->fixed ? -(c->x->zu * ksum) : -ksum;
    }
    c->acc = dt__put_per_row(p, c, begin, DT__PUT_FLOAT);
    if (!c->x->fixed) c->acc = DT__PUT(p, "Mul", c->x->zero_u, c->acc);
}

void dt__put_chain_add(dt__put *p, dt__put_chain *c, int64_t term, dt__value sum, int type)
{
    const dt__put_weight *w = c->w;
    const dt__put_term t = dt__put_term_at(w, term);
    float *scale = dt__put_scratch(p, w->rows, sizeof *scale);
    if (scale == NULL) return;
    for (int64_t n = 0; n < w->rows; n++) scale[n] = w->scale[n * w->groups + t.group];
    if (type != DT__PUT_FLOAT && !dt__put_is_small(w, &t)) {
        sum = dt__put_cast(p, sum, DT__PUT_FLOAT); /* rounds to float, as the definition does */
    }
    dt__value by = dt__put_per_row(p, c, scale, c->block_scale ? DT__PUT_FLOAT : DT__PUT_DOUBLE);
    dt__release(p->ctx, scale);
    if (c->block_scale != NULL) {
        by = dt__put_cast(p, DT__PUT(p, "Mul", by, c->block_scale), DT__PUT_DOUBLE);
    }
    dt__value product = DT__PUT(p, "Mul", dt__put_cast(p, sum, DT__PUT_DOUBLE), by);
    dt__value wide = DT__PUT(p, "Add", product, dt__put_cast(p, c->acc, DT__PUT_DOUBLE));
    c->acc = dt__put_cast(p, wide, DT__PUT_FLOAT);
}

/* y = s_x * acc + bias; bias NULL: none */
static dt__value put_chain_end(dt__put *p, const dt__put_chain *c, const float *bias)
{
    dt__value y = DT__PUT(p, "Mul", c->x->scale, c->acc);
    return bias == NULL ? y : DT__PUT(p, "Add", y, dt__put_per_row(p, c, bias, DT__PUT_FLOAT));
}

/* ---- linear ---------------------------------------------------------------------------------- */

dt__value dt__put_term_codes(dt__put *p, const dt__put_weight *w, const dt__put_term *t)
{
    const int64_t k = t->to - t->from, dims[] = { k, w->rows };
    int8_t *codes = dt__put_scratch(p, k * w->rows, 1);
    if (codes == NULL) return NULL;
    for (int64_t n = 0; n < w->rows; n++) {
        for (int64_t i = 0; i < k; i++) {
            codes[i * w->rows + n] = w->codes[n * w->columns + dt__put_column(w, n, t->from + i)];
        }
    }
    const dt__put_codes c = { w->name, w->bits, 2, dims, codes };
    dt__value y = w->bits > 7 ? dt__put_codes_u8(p, &c) : dt__put_codes_as(p, &c, DT__PUT_INT8);
    dt__release(p->ctx, codes);
    return y;
}

/* x as uint8, with columns in the weight's order, divided into terms. */
static dt__value *cut_codes(dt__put *p, const dt__put_quantized *x, const dt__put_weight *w)
{
    const int64_t terms = dt__put_terms(w);
    dt__value u = DT__PUT(p, "Add", x->v, x->zero_u);
    int64_t *sizes = dt__put_memory(p, w->columns + terms, sizeof *sizes);
    dt__value *cut = dt__put_memory(p, terms, sizeof *cut);
    u = dt__put_cast(p, u, DT__PUT_UINT8);
    if (p->failed) return NULL;
    if (w->order != NULL) {
        for (int64_t i = 0; i < w->columns; i++) sizes[i] = w->order[i];
        u = DT__PUT(p, "Gather", u, dt__put_i64s(p, w->columns, sizes));
        if (u != NULL) dt__put_attr_int(p, "axis", -1);
    }
    cut[0] = u;
    if (terms == 1) return cut;
    for (int64_t i = 0; i < terms; i++) {
        const dt__put_term t = dt__put_term_at(w, i);
        sizes[i] = t.to - t.from;
    }
    if (DT__PUT(p, "Split", u, dt__put_i64s(p, terms, sizes)) == NULL) return NULL;
    dt__put_attr_int(p, "axis", -1);
    dt__put_results(p, terms, cut);
    return cut;
}

dt__value dt__put_linear_codes(dt__put *p, const dt__put_quantized *x, const dt__put_weight *w,
                               const float *bias)
{
    const int64_t terms = dt__put_terms(w);
    dt__put_chain c = { .w = w, .x = x };
    put_chain_begin(p, &c);
    const dt__value *u = terms == 0 ? NULL : cut_codes(p, x, w);
    for (int64_t i = 0; i < terms && u != NULL; i++) {
        const dt__put_term t = dt__put_term_at(w, i);
        dt__value codes = dt__put_term_codes(p, w, &t);
        dt__value sum = w->bits > 7
                            ? DT__PUT(p, "MatMulInteger", u[i], codes, "", dt__put_u8(p, 128))
                            : DT__PUT(p, "MatMulInteger", u[i], codes);
        dt__put_chain_add(p, &c, i, sum, DT__PUT_INT32);
    }
    return put_chain_end(p, &c, bias);
}

/* ---- convolutions ---------------------------------------------------------------------------- */

/* Extent of the result of a transposed convolution without padding. */
static int64_t whole_of(const dt__put_conv *c, int d)
{
    return (c->size[d] - 1) * c->stride[d] + c->dilation[d] * (c->kernel[d] - 1) + 1;
}

/* Output padding must be less than the stride in runtimes: it is written as less padding at the
 * end, then zeros after the result. Whether padding must be cut off afterwards, since otherwise
 * nothing of the result would be left in between. */
static bool is_cut(const dt__put_conv *c)
{
    bool cut = false;
    for (int d = 0; d < c->n && c->transposed; d++) {
        const int64_t after = dt__max_i64(0, c->padding[d] - c->output_padding[d]);
        cut = cut || whole_of(c, d) <= c->padding[d] + after;
    }
    return cut;
}

static void conv_attributes(dt__put *p, const dt__put_conv *c)
{
    int64_t pads[4] = { 0 };
    for (int d = 0; d < c->n && !is_cut(c); d++) {
        pads[d] = c->padding[d];
        pads[c->n + d] = dt__max_i64(0, c->padding[d] - c->output_padding[d]);
    }
    dt__put_attr_ints(p, "strides", c->n, c->stride);
    dt__put_attr_ints(p, "pads", 2 * c->n, pads);
    dt__put_attr_ints(p, "dilations", c->n, c->dilation);
    dt__put_attr_int(p, "group", c->groups);
}

static dt__value with_output_padding(dt__put *p, dt__value y, const dt__put_conv *c)
{
    int64_t pads[8] = { 0 }, start[2], stop[2], axes[2] = { 2, 3 };
    bool any = false;
    for (int d = 0; d < c->n; d++) {
        const int64_t at = 2 + c->n + 2 + d;
        pads[at] =
            is_cut(c) ? c->output_padding[d] : dt__max_i64(0, c->output_padding[d] - c->padding[d]);
        any = any || pads[at] > 0;
        start[d] = c->padding[d];
        stop[d] = whole_of(c, d) - c->padding[d] + c->output_padding[d];
    }
    if (any) y = DT__PUT(p, "Pad", y, dt__put_i64s(p, 2 * (2 + c->n), pads));
    if (!is_cut(c)) return y;
    return DT__PUT(p, "Slice", y, dt__put_i64s(p, c->n, start), dt__put_i64s(p, c->n, stop),
                   dt__put_i64s(p, c->n, axes));
}

dt__value dt__put_conv_floats(dt__put *p, dt__value x, dt__value weight, dt__value bias,
                              const dt__put_conv *c)
{
    const char *const in[] = { x, weight, bias };
    const bool has_bias = bias == NULL || *bias != 0;
    dt__value y = dt__put_node(p, c->transposed ? "ConvTranspose" : "Conv", in,
                               has_bias && !c->transposed ? 3 : 2);
    if (y != NULL) conv_attributes(p, c);
    if (!c->transposed) return y;
    y = with_output_padding(p, y, c);
    if (!has_bias) return y;
    const int64_t shape[] = { -1, 1, 1 };
    return DT__PUT(p, "Add", y, DT__PUT(p, "Reshape", bias, dt__put_i64s(p, 1 + c->n, shape)));
}

static int64_t taps_of(const dt__put_conv *c)
{
    return c->kernel[0] * (c->n > 1 ? c->kernel[1] : 1);
}

dt__value dt__put_conv_weight(dt__put *p, dt__value matrix, int64_t rows, const dt__put_conv *c)
{
    const int64_t g = c->groups, in = c->channels / g, out = rows / g, taps = taps_of(c);
    const int64_t k0 = c->kernel[0], k1 = c->n > 1 ? c->kernel[1] : 1;
    if (!c->transposed) {
        const int64_t shape[] = { rows, in, k0, k1 };
        return DT__PUT(p, "Reshape", matrix, dt__put_i64s(p, 2 + c->n, shape));
    }
    dt__value parts = DT__PUT(p, "Reshape", matrix, DT__PUT_I64(p, g, out, in, taps));
    parts = DT__PUT(p, "Transpose", parts);
    if (parts != NULL) dt__put_attr_ints(p, "perm", 4, (const int64_t[]){ 0, 2, 1, 3 });
    const int64_t shape[] = { g * in, out, k0, k1 };
    return DT__PUT(p, "Reshape", parts, dt__put_i64s(p, 2 + c->n, shape));
}

/* A range of x's channels, and a weight that is 0 outside of a term. */
typedef struct window {
    int64_t from, to; /* channels of an op group */
} window;

/* If groups are consecutive columns of all channels, only the channels of a term are read. */
static window window_of(const dt__put_weight *w, const dt__put_conv *c, const dt__put_term *t)
{
    const int64_t taps = taps_of(c);
    if (c->groups > 1 || w->order != NULL) return (window){ 0, c->channels / c->groups };
    return (window){ t->from / taps, dt__ceil_div(t->to, taps) };
}

/* The index in ONNX's order of row n, channel i, tap k of the term's weight. */
static int64_t conv_place(const dt__put_weight *w, const dt__put_conv *c, const window *v,
                          const int64_t at[3])
{
    const int64_t out = w->rows / c->groups, in = v->to - v->from, taps = taps_of(c);
    if (!c->transposed) return (at[0] * in + at[1]) * taps + at[2];
    const int64_t g = at[0] / out, o = at[0] % out;
    return ((g * in + at[1]) * out + o) * taps + at[2];
}

static dt__value term_kernel(dt__put *p, const dt__put_weight *w, const dt__put_conv *c,
                             const dt__put_term *t, const window *v)
{
    const int64_t in = v->to - v->from, taps = taps_of(c), out = w->rows / c->groups;
    int8_t *codes = dt__put_scratch(p, w->rows * in * taps, 1);
    if (codes == NULL) return NULL;
    for (int64_t n = 0; n < w->rows; n++) {
        for (int64_t i = t->from; i < t->to; i++) {
            const int64_t column = dt__put_column(w, n, i);
            const int64_t at[] = { n, column / taps - v->from, column % taps };
            codes[conv_place(w, c, v, at)] = w->codes[n * w->columns + column];
        }
    }
    const int64_t k0 = c->kernel[0], k1 = c->n > 1 ? c->kernel[1] : 1;
    const int64_t rows_first[] = { w->rows, in, k0, k1 };
    const int64_t channels_first[] = { c->groups * in, out, k0, k1 };
    const dt__put_codes k = { w->name, w->bits, 2 + c->n,
                              c->transposed ? channels_first : rows_first, codes };
    dt__value y = dt__put_codes_as(p, &k, DT__PUT_FLOAT);
    dt__release(p->ctx, codes);
    return y;
}

/* x of a convolution: u = v + zu, padded with zu; of a transposed convolution v. */
static dt__value padded_codes(dt__put *p, const dt__put_quantized *x, dt__put_conv *c)
{
    int64_t pads[8] = { 0 };
    bool any = false;
    if (c->transposed) return x->v;
    for (int d = 0; d < c->n; d++) {
        pads[2 + d] = pads[2 + c->n + 2 + d] = c->padding[d];
        any = any || c->padding[d] > 0;
        c->padding[d] = 0;
    }
    dt__value v = any ? DT__PUT(p, "Pad", x->v, dt__put_i64s(p, 2 * (2 + c->n), pads)) : x->v;
    return DT__PUT(p, "Add", v, x->zero_u);
}

/* The sum of u * q over a term whose sums are exact in floats; x is from padded_codes. */
static dt__value small_sum(dt__put *p, const dt__put_chain *a, const dt__put_conv *c,
                           const dt__put_term *t, dt__value x)
{
    const dt__put_weight *w = a->w;
    const window v = window_of(w, c, t);
    if (v.to - v.from < c->channels / c->groups) {
        x = DT__PUT(p, "Slice", x, DT__PUT_I64(p, v.from), DT__PUT_I64(p, v.to), DT__PUT_I64(p, 1));
    }
    dt__value y = dt__put_conv_floats(p, x, term_kernel(p, w, c, t, &v), "", c);
    if (!c->transposed) return y;
    float *sum = dt__put_memory(p, w->rows, sizeof *sum);
    if (sum == NULL) return NULL;
    for (int64_t n = 0; n < w->rows; n++) sum[n] = (float)code_sum(w, t, n);
    dt__value rest = DT__PUT(p, "Mul", a->x->zero_u, dt__put_per_row(p, a, sum, DT__PUT_FLOAT));
    return DT__PUT(p, "Add", y, rest);
}

/* The sum over any term, as INT32 if it was split. At most 32,768 columns: 7 levels of
 * splitting. */
static dt__value conv_sum(dt__put *p, const dt__put_chain *a, const dt__put_conv *c, dt__value x,
                          const dt__put_term *t, int *type)
{
    int64_t pieces = 1;
    const int64_t n = t->to - t->from;
    for (bool small = false; !small; pieces *= 2) {
        small = true;
        for (int64_t i = 0; i < pieces && small; i++) {
            const dt__put_term part = { t->group, t->from + n * i / pieces,
                                        t->from + n * (i + 1) / pieces };
            small = dt__put_is_small(a->w, &part);
        }
        if (small) break;
    }
    *type = pieces == 1 ? DT__PUT_FLOAT : DT__PUT_INT32;
    dt__value total = NULL;
    for (int64_t i = 0; i < pieces; i++) {
        const dt__put_term part = { t->group, t->from + n * i / pieces,
                                    t->from + n * (i + 1) / pieces };
        dt__value sum = small_sum(p, a, c, &part, x);
        if (pieces > 1) sum = dt__put_cast(p, sum, DT__PUT_INT32);
        total = i == 0 ? sum : DT__PUT(p, "Add", total, sum);
    }
    return total;
}

dt__value dt__put_conv_codes(dt__put *p, const dt__put_quantized *x, const dt__put_weight *w,
                             const dt__put_conv *c, const float *bias)
{
    const int64_t terms = dt__put_terms(w);
    dt__put_chain a = { .w = w, .x = x, .behind = c->n };
    dt__put_conv conv = *c;
    dt__value u = padded_codes(p, x, &conv);
    put_chain_begin(p, &a);
    for (int64_t i = 0; i < terms && !p->failed; i++) {
        const dt__put_term t = dt__put_term_at(w, i);
        int type;
        dt__value sum = conv_sum(p, &a, &conv, u, &t, &type);
        dt__put_chain_add(p, &a, i, sum, type);
    }
    return put_chain_end(p, &a, bias);
}

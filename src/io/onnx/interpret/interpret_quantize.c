/* Quantization per tensor, per axis, or per block of an axis.
 *
 *     q = clamp(rint(x / scale) + zero)        x / scale rounded to x's type, ties to even
 *     x = (q - zero) * scale */
#include "io/onnx/interpret/interpret.h"

#include <math.h>
#include <string.h>

#define CODES (DT__VERIFY_BYTES | DT__VERIFY_NIBBLES | DT__VERIFY_CRUMBS)

/* Least and largest code of a type. */
static void code_range(dt__verify_type type, double *least, double *largest)
{
    const unsigned all = DT__VERIFY_BIT(I8) | DT__VERIFY_BIT(I4) | DT__VERIFY_BIT(I2);
    const bool is_signed = (all >> type & 1) != 0;
    const int bits = DT__VERIFY_CRUMBS >> type & 1 ? 2 : DT__VERIFY_NIBBLES >> type & 1 ? 4 : 8;
    *least = is_signed ? -(double)(1 << (bits - 1)) : 0;
    *largest = *least + (double)((1 << bits) - 1);
}

/* How to find an element's scale: dimension `axis` is divided into blocks of `block`. */
typedef struct grid {
    const dt__verify_value *scale, *zero;
    int axis; /* -1: one scale */
    int64_t block;
    int64_t stride[DT_MAX_RANK]; /* of scales */
} grid;

static dt_status read_grid(const dt__verify_call *c, grid *g)
{
    const dt__verify_value *x = c->in[0];
    const int64_t block = dt__onnx_int_of(c->node, "block_size", 0);
    *g = (grid){ .scale = c->in[1], .zero = dt__verify_in(c, 2), .axis = -1, .block = 1 };
    const bool single = g->zero != NULL && g->zero->count == 1 && g->scale->count == 1;
    if (g->zero != NULL && !single &&
        (g->zero->rank != g->scale->rank ||
         memcmp(g->zero->dims, g->scale->dims, (size_t)g->scale->rank * sizeof(int64_t)) != 0)) {
        return dt__verify_refuse(c, "scales and zero points differ in shape; expected the same");
    }
    if (!dt__verify_is_real(g->scale->type)) return dt__verify_refuse(c, "scales are not floats");
    if (block == 0 && g->scale->count == 1 && g->scale->rank <= 1) return DT_OK;
    DT__TRY(dt__verify_axis(c, dt__onnx_int_of(c->node, "axis", 1), x->rank, &g->axis));
    if (block == 0) {
        g->stride[g->axis] = 1;
        if (g->scale->rank == 1 && g->scale->count == x->dims[g->axis]) return DT_OK;
        return dt__verify_refuse(c, "%lld scales for %lld elements; expected one for each",
                                 (long long)g->scale->count, (long long)x->dims[g->axis]);
    }
    bool fits = g->scale->rank == x->rank && block > 0;
    for (int d = 0; fits && d < x->rank; d++) {
        const int64_t n = x->dims[d];
        fits = g->scale->dims[d] == (d == g->axis ? n / block + (n % block != 0) : n);
    }
    if (!fits) return dt__verify_refuse(c, "scales do not fit blocks of %lld", (long long)block);
    g->block = block;
    dt__verify_strides(g->scale, g->stride);
    return DT_OK;
}

static int64_t scale_at(const grid *g, const dt__verify_walk *w)
{
    int64_t at = 0;
    for (int d = 0; g->axis >= 0 && d < w->rank; d++) {
        at += g->stride[d] * (d == g->axis ? w->at[d] / g->block : w->at[d]);
    }
    return at;
}

static dt__verify_walk walk_over(const dt__verify_value *x)
{
    dt__verify_walk w = { .rank = x->rank };
    memcpy(w.dims, x->dims, sizeof w.dims);
    return w;
}

static double zero_at(const grid *g, int64_t i)
{
    return g->zero == NULL ? 0 : dt__verify_real_at(g->zero, i);
}

static dt_status quantize(dt__verify_call *c)
{
    const dt__verify_value *x = c->in[0];
    grid g;
    double least, largest;
    dt__verify_value *y;
    DT__TRY(read_grid(c, &g));
    const int64_t asked = dt__onnx_int_of(c->node, "output_dtype", 0);
    const dt__verify_type type = g.zero != NULL ? g.zero->type
                                 : asked != 0   ? (dt__verify_type)asked
                                                : DT__VERIFY_U8;
    if (dt__verify_size(type) == 0 || (CODES >> type & 1) == 0 ||
        (asked != 0 && asked != (int64_t)type)) {
        return dt__verify_refuse(c, "codes of %s, which are not run", dt__verify_type_name(type));
    }
    code_range(type, &least, &largest);
    DT__TRY(dt__verify_make(c, 0, type, x->rank, x->dims, &y));
    const int open = dt__verify_open_casts(c);
    dt__verify_walk w = walk_over(x);
    for (int64_t i = 0; i < x->count; i++, dt__verify_step(&w)) {
        const int64_t at = scale_at(&g, &w);
        double q = dt__verify_real_at(x, i) / dt__verify_real_at(g.scale, at);
        if (x->type != DT__VERIFY_F64) q = (double)(float)q;
        q = rint(q) + zero_at(&g, at);
        if (isnan(q)) {
            if (open == DT__VERIFY_OPEN_FAILS) return dt__verify_refuse(c, "NaN has no code");
            q = open == DT__VERIFY_OPEN_LEAST ? least : 0;
        }
        q = fmin(fmax(q, least), largest);
        dt__verify_store_real(y, i, 1, &q);
    }
    return DT_OK;
}

static dt_status dequantize(dt__verify_call *c)
{
    const dt__verify_value *x = c->in[0];
    grid g;
    dt__verify_value *y;
    DT__TRY(read_grid(c, &g));
    if (g.zero != NULL && g.zero->type != x->type) {
        return dt__verify_refuse(c,
                                 "zero points have another type than the codes; expected the same");
    }
    DT__TRY(dt__verify_make(c, 0, g.scale->type, x->rank, x->dims, &y));
    dt__verify_walk w = walk_over(x);
    for (int64_t i = 0; i < x->count; i++, dt__verify_step(&w)) {
        const int64_t at = scale_at(&g, &w);
        const double a =
            (dt__verify_real_at(x, i) - zero_at(&g, at)) * dt__verify_real_at(g.scale, at);
        dt__verify_store_real(y, i, 1, &a);
    }
    return DT_OK;
}

/* Quantizes a whole tensor to uint8, each step in float:
 *     scale = (max(x, 0) - min(x, 0)) / 255        zero = clamp(rint(-min / scale)) */
static dt_status quantize_dynamically(dt__verify_call *c)
{
    const dt__verify_value *x = c->in[0];
    dt__verify_value *y, *scale, *zero;
    float low = 0, high = 0;
    if (c->n_out != 3 || c->out[1] == NULL || c->out[2] == NULL) {
        return dt__verify_refuse(c, "it has three outputs");
    }
    DT__TRY(dt__verify_make(c, 0, DT__VERIFY_U8, x->rank, x->dims, &y));
    DT__TRY(dt__verify_make(c, 1, DT__VERIFY_F32, 0, NULL, &scale));
    DT__TRY(dt__verify_make(c, 2, DT__VERIFY_U8, 0, NULL, &zero));
    const float *from = x->data;
    for (int64_t i = 0; i < x->count; i++) {
        low = fminf(low, from[i]);
        high = fmaxf(high, from[i]);
    }
    const float s = (high - low) / 255;
    const float z = s == 0 ? 0 : fminf(fmaxf(rintf(-low / s), 0), 255);
    *(float *)scale->data = s;
    *(uint8_t *)zero->data = (uint8_t)z;
    for (int64_t i = 0; i < x->count; i++) {
        const float q = s == 0 ? z : rintf(from[i] / s) + z;
        ((uint8_t *)y->data)[i] = (uint8_t)fminf(fmaxf(q, 0), 255);
    }
    return DT_OK;
}

const dt__verify_operator dt__verify_quantizers[] = {
    { "QuantizeLinear", quantize, 2, 3, 1, 2, DT__VERIFY_FLOATS | DT__VERIFY_BIT(I32),
      "axis block_size output_dtype saturate ", NULL, NULL, 0, 0 },
    { "DequantizeLinear", dequantize, 2, 3, 1, 1, CODES | DT__VERIFY_BIT(I32), "axis block_size ",
      NULL, NULL, 0, 0 },
    { "DynamicQuantizeLinear", quantize_dynamically, 1, 1, 3, 1, DT__VERIFY_BIT(F32), NULL, NULL,
      NULL, 0, 0 },
    { .name = NULL },
};

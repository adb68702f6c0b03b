/* Integer codes of rows, plain C.
 *
 *   range    lo = min(min x, 0), hi = max(max x, 0)
 *   code     v = x * (1/s);  q = rne(clamp(v, qmin - zp, qmax - zp)) + zp
 *     value    (q - zp) * s
 *   mask     qmin <= rne(v) + zp <= qmax, of v before it is clamped
 *
 * or, for a scheme with levels, the code of the last edge below v. */
#include "kernels/products/quantize_rows.h"
#include "kernels/kernels.h"
#include "kernels/products/small_rows.inc"

#include <string.h>

/* Floats of |v| < 2^22 plus this have no fraction bits left: the sum is rounded half to even. */
#define ROUNDER 0x1.8p23f

/* Bits of a float as an integer that is ordered as the float is: -0 is -1, +0 is 0. NaN lies beyond
 * the infinities at both ends, so one integer minimum and maximum find lo, hi and values that are
 * not finite. */
static inline int32_t key_of(int32_t bits) { return bits ^ ((bits >> 31) & INT32_MAX); }

#define KEY_INFINITY 0x7f800000
#define KEY_MINUS_INFINITY (-KEY_INFINITY - 1)

static float float_of(int32_t key)
{
    const int32_t bits = key_of(key);
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static int32_t key_at(const float *x)
{
    int32_t bits;
    memcpy(&bits, x, sizeof bits);
    return key_of(bits);
}

int64_t dt__range__ref(int64_t n, int64_t group, const float *x, float *lo, float *hi)
{
    for (int64_t start = 0; start < n; start += group, lo++, hi++) {
        const int64_t end = dt__min_i64(start + group, n);
        int32_t least = 0, most = 0;
        for (int64_t k = start; k < end; k++) {
            const int32_t key = key_at(x + k);
            least = key < least ? key : least;
            most = key > most ? key : most;
        }
        if (least <= KEY_MINUS_INFINITY || most >= KEY_INFINITY) {
            for (int64_t k = start; k < end; k++) {
                const int32_t key = key_at(x + k);
                if (key <= KEY_MINUS_INFINITY || key >= KEY_INFINITY) return k;
            }
        }
        *lo = float_of(least) + 0.0f;
        *hi = float_of(most);
    }
    return -1;
}

/* If lo and hi have the same magnitude, sets the one that occurs later to 0. */
static void keep_first(int64_t n, const float *x, float *lo, float *hi)
{
    if (-*lo != *hi) return;
    for (int64_t k = 0; k < n; k++) {
        if (x[k] == *hi) *lo = 0;
        if (x[k] == *lo) *hi = 0;
        if (*lo == 0 || *hi == 0) return;
    }
}

static float mean_magnitude(int64_t n, const float *x)
{
    double sum = 0;
    for (int64_t start = 0; start < n; start += DT__CHUNK) {
        double part;
        dt__sum_absolute__ref_f32(dt__min_i64(DT__CHUNK, n - start), x + start, &part);
        sum += part;
    }
    return n == 0 ? 0 : (float)(sum / (double)n);
}

void dt__refine_range(const dt__coding *coding, int64_t n, int64_t group, const float *x, float *lo,
                      float *hi)
{
    if (!coding->extremum && !coding->mean) return;
    for (int64_t k = 0, g = 0; k < n; k += group, g++) {
        const int64_t part = dt__min_i64(group, n - k);
        if (coding->extremum) keep_first(part, x + k, lo + g, hi + g);
        if (!coding->mean) continue;
        hi[g] = mean_magnitude(part, x + k);
        lo[g] = -hi[g];
    }
}

typedef struct block {
    float scale, inverse, low, high; /* low and high are qmin - zp and qmax - zp */
    int to_code;                     /* zp and the bias */
    float offset;                    /* 0: rne */
} block;

static block block_of(const dt__code_row *r, int64_t group)
{
    const int zero = r->zero == NULL ? 0 : r->zero[group];
    const float s = r->scale[group];
    block b = {
        s, s == 0 ? 0 : 1.0f / s, (float)(r->qmin - zero), (float)(r->qmax - zero), zero + r->bias,
        0
    };
    if (r->inverse != NULL) b.inverse = r->inverse[group];
    if (r->half_up) b.offset = 0.5f - (float)r->qmin;
    return b;
}

/* v rounded, clamped to one step outside the code range, so that clipped values remain
 * recognizable. */
static inline float rounded(const block *b, float x)
{
    float v = x * b->inverse;
    v = v < b->low - 1 ? b->low - 1 : v;
    v = v > b->high + 1 ? b->high + 1 : v;
    return b->offset == 0 ? (v + ROUNDER) - ROUNDER : (float)(int)(v + b->offset) + b->low;
}

static int64_t encode_block(const block *b, int64_t n, const float *x, int8_t *codes)
{
    const block c = *b;
    int64_t clipped = 0;
    for (int64_t start = 0; start < n; start += DT__CHUNK) {
        const int64_t end = dt__min_i64(start + DT__CHUNK, n);
        int32_t outside = 0;
        for (int64_t k = start; k < end; k++) {
            const float q = rounded(&c, x[k]);
            float kept = q < c.low ? c.low : q;
            kept = kept > c.high ? c.high : kept;
            outside += q != kept;
            codes[k] = (int8_t)((int)kept + c.to_code);
        }
        clipped += outside;
    }
    return clipped;
}

#define SPAN 256

/* Scales values: v = x * inverse, or x / scale. */
static void in_scales(const dt__levels *l, const block *b, int64_t n, const float *x, float *v)
{
    for (int64_t k = 0; k < n && !l->divides; k++) v[k] = x[k] * b->inverse;
    for (int64_t k = 0; k < n && l->divides; k++) v[k] = x[k] / b->scale;
}

/* Finds places among the levels edge by edge, so that all loops are vectorized. */
static void by_edges(const dt__levels *l, int64_t n, const float *v, int32_t *q)
{
    for (int64_t k = 0; k < n; k++) q[k] = l->code[0];
    for (int i = 1; i < l->n; i++) {
        const float edge = l->edge[i];
        const int32_t step = l->code[i] - l->code[i - 1];
        for (int64_t k = 0; k < n; k++) q[k] += v[k] > edge ? step : 0;
    }
}

/* Finds codes among the levels. */
static int64_t encode_levels(const dt__levels *l, const block *b, int64_t n, const float *x,
                             int8_t *codes)
{
    const float least = l->edge[0], most = l->edge[l->n];
    int64_t clipped = 0;
    for (int64_t start = 0; start < n; start += SPAN) {
        const int64_t count = dt__min_i64(SPAN, n - start);
        float v[SPAN];
        int32_t q[SPAN], outside = 0;
        in_scales(l, b, count, x + start, v);
        by_edges(l, count, v, q);
        for (int64_t k = 0; k < count; k++) {
            outside += !(v[k] > least) | (v[k] > most);
            codes[start + k] = (int8_t)(q[k] + b->to_code);
        }
        clipped += outside;
    }
    return clipped;
}

/* Whether the code of x is not clipped. */
static bool is_inside(const dt__code_row *r, const block *b, float x)
{
    if (r->levels != NULL && r->levels->real != NULL) {
        return fabsf(x * b->inverse) < r->levels->real->edge;
    }
    if (r->levels != NULL) {
        float v;
        in_scales(r->levels, b, 1, &x, &v);
        return v > r->levels->edge[0] && !(v > r->levels->edge[r->levels->n]);
    }
    const float q = rounded(b, x);
    return q >= b->low && q <= b->high;
}

int64_t dt__encode__ref(const dt__code_row *r, const float *x, int8_t *codes, uint8_t *mask)
{
    int64_t clipped = 0;
    if (mask != NULL) memset(mask, 0xff, (size_t)dt__ceil_div(r->n, 8));
    for (int64_t start = 0, g = 0; start < r->n; start += r->group, g++) {
        const int64_t n = dt__min_i64(r->group, r->n - start);
        const block b = block_of(r, g);
        const dt__levels *l = r->levels;
        const small_group small = { b.scale, b.inverse, b.to_code, n, x + start, codes + start };
        const int64_t outside = l == NULL ? encode_block(&b, n, x + start, codes + start)
                                : dt__is_small(l)
                                    ? encode_small(l, &small)
                                    : encode_levels(l, &b, n, x + start, codes + start);
        clipped += outside;
        if (mask == NULL || outside == 0) continue;
        for (int64_t k = start; k < start + n; k++) {
            const bool pass = is_inside(r, &b, x[k]);
            mask[k / 8] = (uint8_t)(mask[k / 8] & ~(unsigned)(!pass << (k % 8)));
        }
    }
    return clipped;
}

void dt__decode__ref(const dt__code_row *r, const int8_t *codes, float *y)
{
    for (int64_t start = 0, g = 0; start < r->n; start += r->group, g++) {
        const int64_t end = dt__min_i64(start + r->group, r->n);
        const float s = r->scale[g];
        const int zero = r->zero == NULL ? 0 : r->zero[g];
        if (r->real != NULL) {
            decode_reals(r->real, s, r->bias, end - start, codes + start, y + start);
            continue;
        }
        for (int64_t k = start; k < end; k++) {
            const int q = (int8_t)(codes[k] - r->bias);
            y[k] = (float)(q - zero) * s;
        }
    }
}

void dt__pass__ref(int64_t n, const uint8_t *mask, const float *dy, float *dx)
{
    for (int64_t k = 0; k < n; k++) dx[k] = (mask[k / 8] >> (k % 8)) & 1 ? dy[k] : 0;
}

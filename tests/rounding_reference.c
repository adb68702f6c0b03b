/* The rounders by their definitions, in double (rounding_reference.h). */
#include "rounding_reference.h"

#include "core/text/half.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

/* One group of a layer while it is rounded. Columns are counted in the original order; an index
 * called j counts in processing order. */
typedef struct run {
    const layer *l;
    const dt_quant_spec *quant;
    const dt_rounding_options *options;
    bool bounded, keep_zeros;
    int64_t R, K, n, scales;
    const float *w, *x, *xq; /* [R][K], [K][n] */
    double *h;               /* [K][K]: sum xq xq^T */
    bool *dead;
    int32_t *order, *group_of;
    float *scale, *inverse;
    int8_t *zero, *codes;
    bool *chosen;                       /* [K]: columns that have codes */
    double *margin, *theta, *image, *v; /* [R][K] */
    int32_t *tile_of;
    double loss, damping;
} run;

static void *zeros(int64_t n, size_t size) { return calloc((size_t)dt__max_i64(n, 1), size); }

/* ---- scales --------------------------------------------------------------------------------- */

/* The power of two of a block whose largest magnitude is `most`. */
static float power_of(int scheme, float most)
{
    if (most == 0) return 0;
    if (scheme == DT_SCHEME_MXFP4_UP) return ldexpf(1, (int)ceil(log2((double)(most / 6))) - 1);
    if (scheme == DT_SCHEME_MXFP8_UP) return ldexpf(1, (int)ceil(log2((double)(most / 448))));
    const bool fp4 = scheme == DT_SCHEME_MXFP4 || scheme == DT_SCHEME_MXFP4_NEAR;
    const bool near = scheme == DT_SCHEME_MXFP4_NEAR || scheme == DT_SCHEME_MXFP8_NEAR;
    const int down = fp4                                 ? 3
                     : scheme == DT_SCHEME_MXFP6         ? 5
                     : scheme == DT_SCHEME_MXFP8 || near ? 8
                     : scheme == DT_SCHEME_MXFP8_E5M2    ? 15
                                                         : 4;
    const int e = (int)floor(log2((double)most));
    return ldexpf(1, e - down + (near && (double)most >= 1.75 * ldexp(1, e)));
}

/* Scale, inverse and zero point of a block (numerics §1); e is its extremum, or of ternary and
 * binary the mean of its magnitudes. */
static void observe(const dt_quant_spec *q, float lo, float hi, float e, float *scale,
                    float *inverse, int8_t *zero)
{
    const float qmin = (float)-(1 << (q->bits - 1)), qmax = -qmin - 1, most = fmaxf(-lo, hi);
    const double step = ((double)hi - (double)lo) / (double)(qmax - qmin);
    *zero = 0;
    switch (q->scheme) {
    case DT_SCHEME_Q4_0:
        *scale = dt__round_f16(e * -0.125f);
        *inverse = *scale == 0 ? 0 : 1 / (e * -0.125f);
        return;
    case DT_SCHEME_Q8_0:
        *scale = most / qmax;
        *inverse = *scale == 0 || isinf(qmax / most) ? 0 : qmax / most;
        if (*inverse == 0) *scale = 0;
        return;
    case DT_SCHEME_SYMMETRIC: *scale = most / ((qmax - qmin) / 2); break;
    case DT_SCHEME_SYMMETRIC_NO_CLIP: *scale = fmaxf(lo / qmin, hi / qmax); break;
    case DT_SCHEME_ASYMMETRIC: *scale = (hi - lo) / (qmax - qmin); break;
    case DT_SCHEME_DEVICE: *scale = hi == lo ? 1 : (float)step; break;
    case DT_SCHEME_HALF_LEVELS: *scale = most / 4; break;
    case DT_SCHEME_POWER_OF_TWO: *scale = most / 64; break;
    case DT_SCHEME_MXFP4:
    case DT_SCHEME_MXFP4_UP:
    case DT_SCHEME_MXFP8:
    case DT_SCHEME_MXFP8_UP:
    case DT_SCHEME_MXFP8_E5M2:
    case DT_SCHEME_MXFP4_NEAR:
    case DT_SCHEME_MXFP8_NEAR:
    case DT_SCHEME_MXFP6_E3M2:
    case DT_SCHEME_MXFP6: *scale = power_of(q->scheme, most); break;
    case DT_SCHEME_NVFP4: *scale = most; break; /* until all blocks are known */
    case DT_SCHEME_TERNARY:
    case DT_SCHEME_BINARY: *scale = e; break;
    case DT_SCHEME_NARROW: *scale = most > 0 ? most / qmax : 1; break;
    default: ck_abort_msg("add the formula of scheme %d here", q->scheme);
    }
    *scale = fmaxf(*scale, FLT_MIN);
    *inverse = 1 / *scale;
    if (q->scheme == DT_SCHEME_ASYMMETRIC) {
        *zero = (int8_t)fminf(fmaxf(qmin - rintf(lo / *scale), qmin), qmax);
    }
    if (q->scheme == DT_SCHEME_DEVICE && hi > lo) {
        *zero = (int8_t)(fmin(round(-(double)lo / step), (double)(qmax - qmin)) + (double)qmin);
    }
}

/* The nearest of E4M3's values, which are tried one by one. */
static double e4m3_of(double x)
{
    double best = 0;
    bool even = true; /* the mantissa of best */
    for (int code = 1; code <= 0x7e; code++) {
        const int e = code >> 3, m = code & 7;
        const double v = e == 0 ? ldexp(m, -9) : ldexp(8 + m, e - 10);
        if (fabs(x - v) > fabs(x - best) || (fabs(x - v) == fabs(x - best) && even)) break;
        best = v;
        even = m % 2 == 0;
    }
    return best;
}

/* The scales of nvfp4, from the largest magnitude of the layer and of each block. */
static void settle(run *u)
{
    float most = FLT_MIN;
    for (int64_t i = 0; i < u->l->groups * u->R * u->K; i++) most = fmaxf(most, fabsf(u->l->w[i]));
    const float global = fminf(2688 * (1 / most), ldexpf(1, 116));
    for (int64_t i = 0; i < u->R * u->scales; i++) {
        const double e = e4m3_of((double)(global * (u->scale[i] / 6)));
        u->scale[i] = (e == 0 ? 0.125f : (float)e) / global / 2;
    }
}

static bool has_mean(const dt_quant_spec *q)
{
    return q->scheme == DT_SCHEME_TERNARY || q->scheme == DT_SCHEME_BINARY;
}

/* The block of a row's columns whose group is `group`, with values `v` in place of the weight's. */
static void observe_group(run *u, int64_t row, int64_t group, const double *v)
{
    float lo = 0, hi = 0, e = 0;
    double sum = 0;
    int64_t n = 0;
    for (int64_t k = 0; k < u->K; k++) {
        if (u->group_of[k] != group) continue;
        const float x = (float)v[row * u->K + k];
        lo = fminf(lo, x);
        hi = fmaxf(hi, x);
        if (fabsf(x) > fabsf(e)) e = x;
        sum += fabs((double)x);
        n++;
    }
    if (has_mean(u->quant)) e = (float)(sum / (double)n);
    const int64_t at = row * u->scales + group;
    observe(u->quant, lo, hi, e, u->scale + at, u->inverse + at, u->zero + at);
}

/* One scale for the whole layer. */
static void observe_layer(run *u)
{
    float lo = 0, hi = 0;
    double sum = 0;
    const int64_t n = u->l->groups * u->R * u->K;
    for (int64_t i = 0; i < n; i++) {
        sum += fabs((double)u->l->w[i]);
        lo = fminf(lo, u->l->w[i]);
        hi = fmaxf(hi, u->l->w[i]);
    }
    for (int64_t row = 0; row < u->R; row++) {
        observe(u->quant, lo, hi, (float)(sum / (double)n), u->scale + row, u->inverse + row,
                u->zero + row);
    }
}

/* Number of columns that share a scale; a group longer than the row has all its columns. */
static int64_t block_of(const run *u)
{
    return u->quant->granularity == DT_PER_GROUP ? dt__min_i64(u->quant->group_size, u->K) : u->K;
}

static void take_groups(run *u)
{
    const int64_t size = block_of(u);
    const bool by_order = u->options->rounding.order == DT_ORDER_GROUP;
    for (int64_t j = 0; j < u->K; j++) {
        u->group_of[by_order ? u->order[j] : j] = (int32_t)(j / size);
    }
    if (u->quant->granularity == DT_PER_TENSOR) {
        observe_layer(u);
        return;
    }
    double *v = zeros(u->R * u->K, sizeof *v);
    for (int64_t i = 0; i < u->R * u->K; i++) v[i] = (double)u->w[i];
    for (int64_t i = 0; i < u->R * u->scales; i++)
        observe_group(u, i / u->scales, i % u->scales, v);
    if (u->quant->scheme == DT_SCHEME_NVFP4) settle(u);
    free(v);
}

/* ---- order ---------------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static void take_order(run *u)
{
    for (int64_t k = 0; k < u->K; k++) u->order[k] = (int32_t)k;
    if (u->options->rounding.order == DT_ORDER_NONE) return;
    for (int64_t i = 1; i < u->K; i++) { /* by falling diagonal, one inserted after the other */
        for (int64_t j = i; j > 0; j--) {
            const int32_t a = u->order[j - 1], b = u->order[j];
            if (u->h[a * u->K + a] >= u->h[b * u->K + b]) break;
            u->order[j - 1] = b;
            u->order[j] = a;
        }
    }
    for (int64_t i = 0; i < u->K;) { /* runs of equals by number */
        int64_t end = i + 1;
        for (; end < u->K; end++) {
            const int32_t a = u->order[end - 1], b = u->order[end];
            const double large = u->h[a * u->K + a], small = u->h[b * u->K + b];
            if (large - small > 1e-6 * fabs(large)) break;
        }
        qsort(u->order + i, (size_t)(end - i), sizeof *u->order, by_number);
        i = end;
    }
}

int64_t reference_input(const dt_accumulator *a, int end)
{
    static const int64_t none_given[] = { 0, 255 };
    return a->input.n == 2 ? a->input.v[end] : none_given[end];
}

/* ---- bounds --------------------------------------------------------------------------------- */

/* Width of a tile: consecutive columns of a group, in their original order. */
static void take_tiles(run *u)
{
    const int64_t size = block_of(u);
    const int64_t width = u->options->accumulator.tile > 0 ? u->options->accumulator.tile : size;
    for (int64_t k = 0; k < u->K; k++) {
        int64_t before = 0;
        for (int64_t i = 0; i < k; i++) before += u->group_of[i] == u->group_of[k];
        u->tile_of[k] = (int32_t)(u->group_of[k] * dt__ceil_div(size, width) + before / width);
    }
}

/* Whether code c can be added to tile t of a row: its largest and smallest sums are computed
 * again. */
static bool fits(const run *u, int64_t row, int64_t tile, int64_t c)
{
    const dt_accumulator *a = &u->options->accumulator;
    const int64_t low = reference_input(a, 0), high = reference_input(a, 1);
    const int64_t limit = ((int64_t)1 << (a->bits - 1)) - 1;
    int64_t most = c > 0 ? c * high : c * low, least = c > 0 ? c * low : c * high;
    for (int64_t k = 0; k < u->K; k++) {
        if (u->tile_of[k] != tile || !u->chosen[k]) continue;
        const int64_t q = u->codes[row * u->K + k] - u->zero[row * u->scales + u->group_of[k]];
        most += q > 0 ? q * high : q * low;
        least += q > 0 ? q * low : q * high;
    }
    return most <= limit && least >= -limit;
}

/* The largest code of a sign that fits, by halving. */
static int64_t search(const run *u, int64_t row, int64_t tile, int sign)
{
    int64_t good = 0, bad = (int64_t)1 << 33;
    while (bad - good > 1) {
        const int64_t middle = (good + bad) / 2;
        if (fits(u, row, tile, sign * middle)) good = middle;
        else bad = middle;
    }
    return sign * good;
}

static int falling(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* The soft threshold of a tile, by sorting. */
static double soft(const run *u, int64_t row, int64_t tile)
{
    const dt_accumulator *a = &u->options->accumulator;
    const int64_t size = block_of(u);
    const int64_t width = a->tile > 0 ? a->tile : size;
    double *v = zeros(width, sizeof *v), mean = 0, sum = 0, theta = 0;
    int64_t n = 0;
    for (int64_t k = 0; k < u->K; k++) {
        if (u->tile_of[k] != tile) continue;
        const double s = (double)u->scale[row * u->scales + u->group_of[k]];
        v[n++] = u->dead[k] || s == 0 ? 0 : (double)u->w[row * u->K + k] / s;
    }
    for (int64_t i = 0; i < width; i++) mean += v[i] / (double)width;
    for (int64_t i = 0; i < width; i++) sum += v[i] = fabs(v[i] - mean);
    qsort(v, (size_t)width, sizeof *v, falling);
    const double room =
        (pow(2, (double)a->bits) - 2) / (double)(reference_input(a, 1) - reference_input(a, 0));
    double partial = 0;
    for (int64_t i = 0; i < width && sum > room; i++) {
        partial += v[i];
        if (v[i] * (double)(i + 1) > partial - room) theta = (partial - room) / (double)(i + 1);
    }
    free(v);
    return theta;
}

static void take_bounds(run *u)
{
    take_tiles(u);
    if (!u->bounded || !u->options->accumulator.soft_threshold) return;
    for (int64_t i = 0; i < u->R * u->K; i++) {
        u->theta[i] = soft(u, i / u->K, u->tile_of[i % u->K]);
    }
}

/* ---- one element ---------------------------------------------------------------------------- */

typedef struct choice {
    double kept, image; /* the value to round, and its dequantized value */
} choice;

static double distance(double t, double low, double high)
{
    if (low == high) return 0.5;
    double d = fabs(t - floor(t) - 0.5);
    if (t > high - 0.5 || t < low + 0.5) d = fmin(fabs(t - (high - 0.5)), fabs(t - (low + 0.5)));
    return fmin(d, 0.5);
}

static double clip(double x, double a, double b) { return fmin(fmax(x, fmin(a, b)), fmax(a, b)); }

/* What the values of a float are: mantissas with each of some exponents, the least value. */
typedef struct small_levels {
    int mantissas, exponents, unit;
} small_levels;

static small_levels levels_of(int scheme)
{
    switch (scheme) {
    case DT_SCHEME_MXFP6: return (small_levels){ 8, 4, 0 };
    case DT_SCHEME_MXFP8:
    case DT_SCHEME_MXFP8_UP:
    case DT_SCHEME_MXFP8_NEAR: return (small_levels){ 8, 16, -9 };
    case DT_SCHEME_MXFP8_E5M2: return (small_levels){ 4, 31, -16 };
    case DT_SCHEME_MXFP6_E3M2: return (small_levels){ 4, 8, -4 };
    default: return (small_levels){ 2, 4, 0 };
    }
}

static bool is_real(int scheme) { return levels_of(scheme).unit != 0; }

/* The nearest of 0 and the magnitudes of a scheme; of two equally near ones the one at an even
 * place, of power_of_two the larger one. *margin is the distance to where another is nearest, of
 * floats in steps of their values; *place which it is. */
static double nearest_level(int scheme, double t, double *margin, int *place)
{
    double list[130] = { 0 }, distance_to = INFINITY;
    int n = 1, best = 0;
    for (int m = 0; scheme == DT_SCHEME_POWER_OF_TWO && m < 7; m++) list[n++] = ldexp(1, m);
    const small_levels of = levels_of(scheme);
    for (int e = 0; scheme != DT_SCHEME_POWER_OF_TWO && e < of.exponents; e++) {
        for (int m = e == 0; m < of.mantissas; m++) {
            list[n++] = ldexp(e == 0 ? m : of.mantissas + m, of.unit + (e > 0 ? e - 1 : 0));
        }
    }
    n -= of.unit == -9; /* E4M3's last is NaN */
    for (int i = 0; i < n; i++) {
        const double d = fabs(fabs(t) - list[i]);
        const bool wins = scheme == DT_SCHEME_POWER_OF_TWO || i % 2 == 0;
        if (d < distance_to || (d == distance_to && wins)) best = i;
        distance_to = fmin(distance_to, d);
    }
    *margin = 0.5;
    for (int i = 1; i < n; i++) {
        const double step = is_real(scheme) ? list[i] - list[i - 1] : 1;
        *margin = fmin(*margin, fabs(fabs(t) - (list[i - 1] + list[i]) / 2) / step);
    }
    *place = best;
    return copysign(list[best], t) + 0;
}

static choice choose(run *u, int64_t row, int64_t k, double v)
{
    const int64_t at = row * u->K + k, group = row * u->scales + u->group_of[k];
    const double s = (double)u->scale[group];
    const bool ternary = u->quant->scheme == DT_SCHEME_TERNARY;
    const int zero = u->zero[group], qmin = ternary ? -1 : -(1 << (u->quant->bits - 1));
    const int qmax = ternary ? 1 : -qmin - 1;
    if (u->keep_zeros && u->w[at] == 0) v = 0;
    double x = v, low = qmin - zero, high = qmax - zero;
    if (u->bounded) {
        const double least = (double)search(u, row, u->tile_of[k], -1);
        const double most = (double)search(u, row, u->tile_of[k], 1);
        x = copysign(fmax(fabs(x) - u->theta[at] * fabs(s), 0), x);
        x = clip(x, s * least, s * most);
        low = fmax(low, least);
        high = fmin(high, most);
    }
    const bool divides = u->quant->scheme == DT_SCHEME_NVFP4;
    const float t = divides ? (float)x / u->scale[group] : (float)x * u->inverse[group];
    double q = u->quant->scheme == DT_SCHEME_Q4_0 ? floor((double)(t + 8.5f)) - 8 : rint((double)t);
    q = clip(q, low, high);
    u->margin[at] = distance((double)t, low, high);
    if (u->quant->scheme == DT_SCHEME_HALF_LEVELS) {
        q = clip(2 * rint(((double)t - 1) / 2) + 1, -3, 3);
        u->margin[at] = 2 * distance(((double)t - 1) / 2, -2, 1);
    }
    int place = 0;
    if (u->quant->scheme >= DT_SCHEME_POWER_OF_TWO)
        q = nearest_level(u->quant->scheme, (double)t, &u->margin[at], &place);
    if (u->quant->scheme == DT_SCHEME_BINARY) {
        q = t < 0 ? -1 : 1;
        u->margin[at] = fmin(0.5, fabs((double)t));
    }
    u->codes[at] = (int8_t)(q + zero);
    if (is_real(u->quant->scheme)) u->codes[at] = (int8_t)(q < 0 ? place - 128 : place);
    u->image[at] = q * s;
    const bool whole = u->bounded && u->options->accumulator.diffuse == DT_DIFFUSE_ALL;
    return (choice){ whole ? v : x, q * s };
}

/* ---- algorithms ----------------------------------------------------------------------------- */

/* The inverse of a positive definite matrix, by elimination without pivots. */
static double *inverse_of(const double *m, int64_t n)
{
    double *a = zeros(n * n, sizeof *a), *out = zeros(n * n, sizeof *out);
    for (int64_t i = 0; i < n * n; i++) {
        a[i] = m[i];
        out[i] = i / n == i % n;
    }
    for (int64_t p = 0; p < n; p++) {
        const double pivot = a[p * n + p];
        TEST_EACH(pivot > 0, "the reference met a pivot of %g", pivot);
        for (int64_t k = 0; k < n; k++) {
            a[p * n + k] /= pivot;
            out[p * n + k] /= pivot;
        }
        for (int64_t i = 0; i < n; i++) {
            const double factor = a[i * n + p];
            if (i == p || factor == 0) continue;
            for (int64_t k = 0; k < n; k++) {
                a[i * n + k] -= factor * a[p * n + k];
                out[i * n + k] -= factor * out[p * n + k];
            }
        }
    }
    free(a);
    return out;
}

/* The inverse of M over the columns from place j on; M is in the original order. */
static double *remaining(const run *u, const double *m, int64_t j)
{
    const int64_t n = u->K - j;
    double *part = zeros(n * n, sizeof *part);
    for (int64_t i = 0; i < n * n; i++) {
        part[i] = m[u->order[j + i / n] * u->K + u->order[j + i % n]];
    }
    double *out = inverse_of(part, n);
    free(part);
    return out;
}

/* H * share with 1 for dead columns, plus damping on the diagonal. */
static double *damped(const run *u, double share, double damping)
{
    double *m = zeros(u->K * u->K, sizeof *m);
    for (int64_t i = 0; i < u->K * u->K; i++) m[i] = u->h[i] * share;
    for (int64_t k = 0; k < u->K; k++)
        m[k * u->K + k] = (u->dead[k] ? 1 : m[k * u->K + k]) + damping;
    return m;
}

static double mean_of(const run *u, double share)
{
    const bool all = u->options->rounding.damping_mean == DT_MEAN_ALL;
    double sum = 0, n = 0;
    for (int64_t k = 0; k < u->K; k++) {
        if (u->dead[k] && !all) continue;
        sum += u->dead[k] ? 1 : u->h[k * u->K + k] * share;
        n++;
    }
    return n > 0 ? sum / n : 1;
}

/* Rounds columns from place `first` on, one at a time; after each, the remaining ones are set to
 * the minimum of the quadratic form M. */
static void settle_one_by_one(run *u, const double *m, int64_t first)
{
    const dt_rounding *o = &u->options->rounding;
    for (int64_t j = first; j < u->K; j++) {
        double *inverse = remaining(u, m, j);
        const int64_t c = u->order[j];
        const bool begins = j == 0 || u->group_of[c] != u->group_of[u->order[j - 1]];
        for (int64_t row = 0; row < u->R; row++) {
            if (o->group_scales == DT_SCALES_REFRESH && begins) {
                observe_group(u, row, u->group_of[c], u->v);
            }
            const choice q = choose(u, row, c, u->v[row * u->K + c]);
            const double e = q.kept - q.image;
            u->loss += e * e / inverse[0] / 2;
            for (int64_t k = j + 1; k < u->K; k++) {
                const int64_t at = row * u->K + u->order[k];
                if (u->keep_zeros && u->w[at] == 0) continue;
                u->v[at] -= e / inverse[0] * inverse[k - j];
            }
        }
        u->chosen[c] = true;
        free(inverse);
    }
}

static void run_gptq(run *u)
{
    const dt_rounding *o = &u->options->rounding;
    const double share = 2 / (double)u->n;
    u->damping = o->damping_absolute > 0 ? o->damping_absolute : o->damping * mean_of(u, share);
    double *m = damped(u, share, u->damping);
    settle_one_by_one(u, m, 0);
    free(m);
}

static void run_nearest(run *u)
{
    for (int64_t j = 0; j < u->K; j++) {
        const int64_t c = u->order[j];
        for (int64_t row = 0; row < u->R; row++) choose(u, row, c, u->v[row * u->K + c]);
        u->chosen[c] = true;
    }
}

/* The error of a row's output so far: sum of (W0 x - dequantized xq) over the columns before place
 * j. */
static void run_gpfq(run *u)
{
    double *missing = zeros(u->R * u->n, sizeof *missing);
    for (int64_t j = 0; j < u->K; j++) {
        const int64_t c = u->order[j];
        const float *x = u->x + c * u->n, *xq = u->xq + c * u->n;
        for (int64_t row = 0; row < u->R; row++) {
            double *d = missing + row * u->n, product = 0;
            for (int64_t i = 0; i < u->n; i++) {
                d[i] += (double)u->w[row * u->K + c] * (double)x[i];
                product += d[i] * (double)xq[i];
            }
            const double norm = u->h[c * u->K + c];
            const choice q = choose(u, row, c, norm == 0 ? 0 : product / norm);
            for (int64_t i = 0; i < u->n; i++) d[i] -= q.image * (double)xq[i];
        }
        u->chosen[c] = true;
    }
    free(missing);
}

static double largest_eigenvalue(const run *u)
{
    double *b = zeros(u->K, sizeof *b), *y = zeros(u->K, sizeof *y), value = 0;
    for (int64_t k = 0; k < u->K; k++) b[k] = 1 / sqrt((double)u->K);
    for (int step = 0; step <= 30; step++) {
        double norm = 0;
        value = 0;
        for (int64_t i = 0; i < u->K; i++) {
            y[i] = 0;
            for (int64_t k = 0; k < u->K; k++) y[i] += u->h[i * u->K + k] * b[k] / (double)u->n;
            norm += y[i] * y[i];
            value += y[i] * b[i];
        }
        for (int64_t i = 0; i < u->K && step < 30; i++) b[i] = y[i] / (sqrt(norm) + 1e-300);
    }
    free(b);
    free(y);
    return value;
}

/* Columns from place j on that, with the dequantized columns before them, reproduce W0 X best,
 * regularized towards the weight: the normal equations of this least-squares problem, sums over
 * samples. */
static void least_squares(run *u, int64_t j, const double *m)
{
    double *inverse = remaining(u, m, j), *right = zeros(u->K, sizeof *right);
    double *missing = zeros(u->n, sizeof *missing);
    for (int64_t row = 0; row < u->R; row++) {
        for (int64_t i = 0; i < u->n; i++) {
            missing[i] = 0;
            for (int64_t k = 0; k < u->K; k++) {
                missing[i] += (double)u->w[row * u->K + k] * (double)u->x[k * u->n + i];
                if (!u->chosen[k]) continue;
                missing[i] -= u->image[row * u->K + k] * (double)u->xq[k * u->n + i];
            }
        }
        for (int64_t k = j; k < u->K; k++) {
            const int64_t c = u->order[k];
            right[k] = u->dead[c] ? 0 : u->damping * (double)u->w[row * u->K + c];
            for (int64_t i = 0; i < u->n; i++) {
                right[k] += missing[i] * (double)u->xq[c * u->n + i] / (double)u->n;
            }
        }
        for (int64_t k = j; k < u->K; k++) {
            double sum = 0;
            for (int64_t i = j; i < u->K; i++)
                sum += inverse[(k - j) * (u->K - j) + i - j] * right[i];
            u->v[row * u->K + u->order[k]] = sum;
        }
    }
    free(missing);
    free(right);
    free(inverse);
}

/* The first column: v minimizes ||W0 X - v Xq_0 - W_rest Xq_rest||. */
static void first_column(run *u)
{
    const int64_t c = u->order[0];
    for (int64_t row = 0; row < u->R; row++) {
        double product = 0;
        for (int64_t i = 0; i < u->n; i++) {
            double missing = 0;
            for (int64_t k = 0; k < u->K; k++) {
                const double w = (double)u->w[row * u->K + k];
                missing += w * (double)u->x[k * u->n + i];
                if (k != c) missing -= w * (double)u->xq[k * u->n + i];
            }
            product += missing * (double)u->xq[c * u->n + i];
        }
        const double norm = u->h[c * u->K + c];
        choose(u, row, c, norm == 0 ? 0 : product / norm);
    }
    u->chosen[c] = true;
}

/* Where errors are not measured from the least-squares solution, it is solved once and then
 * updated; otherwise it is solved again for every column. */
static void run_qronos(run *u)
{
    const dt_rounding *o = &u->options->rounding;
    u->damping = o->damping_absolute > 0 ? o->damping_absolute : o->alpha * largest_eigenvalue(u);
    double *m = damped(u, 1 / (double)u->n, u->damping);
    first_column(u);
    const bool moved = u->keep_zeros || u->bounded;
    for (int64_t j = 1; j < u->K && (j == 1 || !moved); j++) {
        least_squares(u, j, m);
        for (int64_t row = 0; row < u->R && !moved; row++) {
            choose(u, row, u->order[j], u->v[row * u->K + u->order[j]]);
        }
        u->chosen[u->order[j]] = !moved;
    }
    if (moved) settle_one_by_one(u, m, 1);
    free(m);
}

/* ---- a layer -------------------------------------------------------------------------------- */

static void begin(run *u, reference *r, const layer *l, int64_t g)
{
    const int64_t at = g * l->rows;
    u->R = l->rows;
    u->K = l->columns;
    u->n = l->samples;
    u->scales = r->groups;
    u->w = l->w + at * u->K;
    u->x = l->xs + g * u->K * u->n;
    u->xq = l->xqs + g * u->K * u->n;
    u->codes = r->codes + at * u->K;
    u->margin = r->margin + at * u->K;
    u->scale = r->scale + at * u->scales;
    u->zero = r->zero + at * u->scales;
    u->order = r->order + g * u->K;
    u->group_of = r->group_of + g * u->K;
    u->tile_of = r->tile_of + g * u->K;
    u->h = zeros(u->K * u->K, sizeof *u->h);
    u->dead = zeros(u->K, sizeof *u->dead);
    u->chosen = zeros(u->K, sizeof *u->chosen);
    u->theta = zeros(u->R * u->K, sizeof *u->theta);
    u->inverse = zeros(u->R * u->scales, sizeof *u->inverse);
    u->image = zeros(u->R * u->K, sizeof *u->image);
    u->v = zeros(u->R * u->K, sizeof *u->v);
    for (int64_t i = 0; i < u->K * u->K; i++) {
        const float *a = u->xq + i / u->K * u->n, *b = u->xq + i % u->K * u->n;
        for (int64_t s = 0; s < u->n; s++) u->h[i] += (double)a[s] * (double)b[s];
    }
    for (int64_t k = 0; k < u->K; k++) u->dead[k] = u->h[k * u->K + k] == 0;
    for (int64_t i = 0; i < u->R * u->K; i++) u->v[i] = u->dead[i % u->K] ? 0 : (double)u->w[i];
}

static void end(run *u)
{
    void *all[] = { u->h, u->dead, u->chosen, u->theta, u->inverse, u->image, u->v };
    for (int i = 0; i < DT__COUNT_OF(all); i++) free(all[i]);
}

static bool many_zeros(const layer *l)
{
    int64_t n = 0;
    const int64_t all = l->groups * l->rows * l->columns;
    for (int64_t i = 0; i < all; i++) n += l->w[i] == 0;
    return (double)n >= 0.05 * (double)all;
}

static reference empty(const layer *l, const dt_quant_spec *quant)
{
    const bool grouped = quant->granularity == DT_PER_GROUP;
    reference r = { .rows = l->groups * l->rows, .columns = l->columns };
    const int64_t columns = l->groups * r.columns;
    r.groups = grouped ? dt__ceil_div(l->columns, quant->group_size) : 1;
    r.codes = zeros(r.rows * r.columns, 1);
    r.zero = zeros(r.rows * r.groups, 1);
    r.scale = zeros(r.rows * r.groups, sizeof *r.scale);
    r.order = zeros(columns, sizeof *r.order);
    r.group_of = zeros(columns, sizeof *r.group_of);
    r.tile_of = zeros(columns, sizeof *r.tile_of);
    r.margin = zeros(r.rows * r.columns, sizeof *r.margin);
    return r;
}

static reference run_layer(const layer *l, const dt_quant_spec *quant,
                           const dt_rounding_options *options, void (*algorithm)(run *))
{
    reference r = empty(l, quant);
    for (int64_t g = 0; g < l->groups; g++) {
        run u = { .l = l, .quant = quant, .options = options };
        u.bounded = options->accumulator.bits > 0;
        const bool has_zero =
            u.quant->scheme != DT_SCHEME_HALF_LEVELS && u.quant->scheme != DT_SCHEME_BINARY;
        u.keep_zeros = options->rounding.keep_zeros && has_zero && many_zeros(l);
        begin(&u, &r, l, g);
        take_order(&u);
        take_groups(&u);
        take_bounds(&u);
        algorithm(&u);
        r.loss += u.loss;
        r.damping = fmax(r.damping, u.damping);
        end(&u);
    }
    return r;
}

reference reference_round(const layer *l, const dt_quant_spec *quant,
                          const dt_rounding_options *options)
{
    static void (*const algorithms[])(run *) = { run_nearest, run_gptq, run_gpfq,  run_qronos,
                                                 run_gptq,    run_gpfq, run_qronos };
    return run_layer(l, quant, options, algorithms[options->rounder]);
}

reference reference_nearest(const layer *l, const dt_quant_spec *quant,
                            const dt_rounding_options *options)
{
    return run_layer(l, quant, options, run_nearest);
}

void reference_free(reference *r)
{
    void *all[] = { r->codes, r->zero, r->scale, r->order, r->group_of, r->tile_of, r->margin };
    for (int i = 0; i < DT__COUNT_OF(all); i++) free(all[i]);
    *r = (reference){ 0 };
}

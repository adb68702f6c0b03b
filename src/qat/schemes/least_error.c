/* Observer `mse`: the range of a block of values, shrunk where that reduces the error.
 *
 *     p = 1 - i/100, i = 0 ... 19         scale s and zero point z of (p lo, p hi) by the scheme
 *     q = rne(clamp(x/s + z))             x^ = (q - z) s
 *     the first p of least sum |x^ - x|^2.4
 *
 * With levels (scheme.h): i = 0 ... 99, from the ends of the values, and the squared error.
 *
 * Every p is tried. Sums are in double, over PARTS parts of the values, added in order, so that
 * they do not depend on threads. [after llm-compressor's memoryless_mse observer] */
#include "qat/schemes/least_error.h"

#include "autograd/spread.h"
#include "kernels/kernels.h"
#include "qat/quantized.h"
#include "qat/schemes/scheme.h"

#include <math.h>

#define STEPS 20
#define LEVEL_STEPS 100
#define PARTS 64

typedef struct trial {
    float scale, zero, qmin, qmax;
    const dt__levels *levels;
} trial;

static double level_error(const trial *t, int64_t n, const float *x)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const float dequantized = (float)dt__level_of(t->levels, x[i] / t->scale) * t->scale;
        const double error = (double)dequantized - (double)x[i];
        sum += error * error;
    }
    return sum;
}

static double error_of(const trial *t, int64_t n, const float *x)
{
    double sum = 0;
    if (t->levels != NULL) return level_error(t, n, x);
    for (int64_t i = 0; i < n; i++) {
        float v = x[i] / t->scale + t->zero;
        v = v < t->qmin ? t->qmin : v > t->qmax ? t->qmax : v;
        const float dequantized = (rintf(v) - t->zero) * t->scale;
        sum += pow(fabs((double)dequantized - (double)x[i]), 2.4);
    }
    return sum;
}

typedef struct error_args {
    const trial *t;
    int64_t n, step;
    const float *x;
    double *part;
} error_args;

static void error_share(const void *args, const dt__share *share)
{
    const error_args *of = args;
    for (int64_t k = share->first; k < share->past; k++) {
        const int64_t first = dt__min_i64(k * of->step, of->n);
        of->part[k] = error_of(of->t, dt__min_i64(of->step, of->n - first), of->x + first);
    }
}

static double whole_error(const trial *t, int64_t n, const float *x)
{
    double part[PARTS], sum = 0;
    const int64_t step = dt__ceil_div(n, PARTS);
    dt__parallel(PARTS, 16 * step, error_share, &(error_args){ t, n, step, x, part });
    for (int k = 0; k < PARTS; k++) sum += part[k];
    return sum;
}

int dt__least_error(const dt_quant_spec *q, int64_t n, const float *x, float *lo, float *hi)
{
    int best = 0;
    double least = 0;
    const dt__levels *levels = dt__levels_of(q);
    for (int i = 0; i < (levels != NULL ? LEVEL_STEPS : STEPS); i++) {
        const float p = (float)(1 - i / 100.0), low = *lo * p, high = *hi * p;
        float scale;
        int8_t zero = 0;
        const bool has_zero = dt__scheme_of(q->scheme)->has_zero;
        dt__range_scale(q, low, high, &scale, has_zero ? &zero : NULL);
        const trial t = { scale, (float)zero, (float)dt__qmin(q), (float)dt__qmax(q), levels };
        const double error = whole_error(&t, n, x);
        if (i > 0 && !(error < least)) continue;
        best = i;
        least = error;
    }
    const float p = (float)(1 - best / 100.0);
    *lo *= p;
    *hi *= p;
    return best;
}

/* ---- a whole weight ------------------------------------------------------------------------- */

/* Scale and zero point of block i; false where they would not be finite. */
static bool set_block(const dt__quantizer *range, const dt__cut *c, const float *x, int64_t i)
{
    const dt__kernels *kernels = dt__kernels_of(range->scale->ctx, DT_F32);
    const int64_t row = i / c->groups, column = i % c->groups * c->group;
    const int64_t n = c->whole ? c->rows * c->columns : dt__min_i64(c->group, c->columns - column);
    const float *from = c->whole ? x : x + row * c->columns + column;
    float lo = 0, hi = 0;
    kernels->range(n, n, from, &lo, &hi);
    dt__least_error(&range->quant, n, from, &lo, &hi);
    int8_t *zero = range->zero_point == NULL ? NULL : dt__values_mut(range->zero_point);
    float *scale = dt__values_mut(range->scale);
    return dt__range_scale(&range->quant, lo, hi, scale + i, zero == NULL ? NULL : zero + i);
}

typedef struct set_args {
    const dt__quantizer *range;
    const dt__cut *cut;
    const float *x;
    atomic_bool *wrong; /* a scale is not finite */
} set_args;

static void set_share(const void *args, const dt__share *share)
{
    const set_args *of = args;
    for (int64_t i = share->first; i < share->past; i++) {
        if (!set_block(of->range, of->cut, of->x, i)) atomic_store(of->wrong, true);
    }
}

static dt_status set_ranges(const dt__quantizer *range, const dt_tensor *x, int64_t experts,
                            const char *name)
{
    dt__cut cut;
    float lo, hi;
    const dt__row_map as_it_lies = dt__row_map_of_experts(experts);
    const dt__weight_shape shape = dt__weight_shape_of(x, &as_it_lies);
    DT__TRY(dt__weight_cut(x->ctx, &range->quant, &shape, &cut));
    const int64_t bad = dt__range_of(x->ctx, &cut, dt__values(x), &lo, &hi);
    if (bad >= 0) {
        return dt_fail(x->ctx, DT_ERR_NUMERIC,
                       "quantize %s: element %lld is not finite; only finite values have a range",
                       name, (long long)bad);
    }
    const int64_t blocks = dt__cut_blocks(&cut);
    atomic_bool wrong = false;
    const set_args args = { range, &cut, dt__values(x), &wrong };
    dt__team *const threads = dt__threads_enter(x->ctx);
    if (blocks > 0) dt__parallel(blocks, 16 * STEPS * (x->count / blocks), set_share, &args);
    dt__threads_leave(threads);
    if (!atomic_load(&wrong)) return DT_OK;
    return dt_fail(x->ctx, DT_ERR_NUMERIC,
                   "quantize %s: values too large: a scale, or a dequantized value, is not finite",
                   name);
}

dt_status dt__least_error_observe(const dt_tensor *x, const dt__row_map *map,
                                  const dt__quantizer *range)
{
    const char *name = x->name != NULL ? x->name : "a weight";
    dt_tensor *rows;
    if (range->scale->storage->frozen) {
        return dt_fail(x->ctx, DT_ERR_STATE, "the range of %s belongs to a frozen model", name);
    }
    if (x->count == 0) return DT_OK;
    DT__TRY(dt__kernels_open(x->ctx));
    DT__TRY(dt__matrix_of(x, map, &rows));
    const dt_status s = set_ranges(range, rows != NULL ? rows : x, map->experts, name);
    dt_tensor_free(rows);
    range->scale->storage->version++;
    if (range->zero_point != NULL) range->zero_point->storage->version++;
    DT__TRY(s);
    *(int64_t *)dt_data_mut(range->count) = dt__whole_count(x);
    return DT_OK;
}

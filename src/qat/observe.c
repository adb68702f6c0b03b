/* Observers: the range [lo, hi] of an activation, from batches (numerics §1).
 *
 *     minmax           lo = min(lo, batch's)              hi = max(hi, batch's)
 *     moving_average   lo += a (batch's - lo)             likewise; the first batch sets both
 *     percentile       the (100 - p)/2 and (100 + p)/2 percentiles of all values; of magnitudes,
 *                      the p percentile and its negative, where the scheme has no zero point
 *     mse              as moving_average, of each batch's range of least error (least_error.c)
 *
 * The range of a batch includes 0. Percentiles are those of a sample of the values: the first
 * `samples` values are kept; after that value k (from 0) replaces a random kept one with
 * probability samples / (k + 1), drawn from one block of the context's random stream for each value
 * [Vitter 1985, algorithm R]. */
#include "qat/observe.h"

#include "autograd/op.h"
#include "qat/schemes/least_error.h"
#include "qat/schemes/scheme.h"

#include <math.h>
#include <string.h>

enum { X, LO, HI, COUNT, SCALE, ZERO, VALUES, OPERANDS };

/* ---- order statistics ----------------------------------------------------------------------- */

#define DIGIT 11 /* bits of a float that one pass sorts by */

/* Maps floats to unsigned numbers of the same order. */
static uint32_t key_of(float x, bool magnitude)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    if (magnitude) return u & 0x7fffffffu;
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

static float value_of(uint32_t key, bool magnitude)
{
    float x;
    const uint32_t u = magnitude ? key : key & 0x80000000u ? key & 0x7fffffffu : ~key;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* The value of a rank, by radix selection from the top digit: each pass counts the values whose
 * digits so far agree. */
static float of_rank(const float *x, int64_t n, int64_t rank, bool magnitude)
{
    uint32_t found = 0, known = 0; /* the digits found, and a mask of them */
    for (int shift = 32 - DIGIT + 1; known != ~0u; shift = shift > DIGIT ? shift - DIGIT : 0) {
        int64_t count[1 << DIGIT] = { 0 };
        for (int64_t i = 0; i < n; i++) {
            const uint32_t key = key_of(x[i], magnitude);
            if ((key & known) == found) count[key >> shift & ((1u << DIGIT) - 1)]++;
        }
        uint32_t digit = 0;
        while (rank >= count[digit]) rank -= count[digit++];
        found |= digit << shift;
        known = ~0u << shift;
    }
    return value_of(found, magnitude);
}

/* The value of rank + 1, if `low` is the value of `rank`. */
static float next_in_order(const float *x, int64_t n, int64_t rank, float low, bool magnitude)
{
    const uint32_t key = key_of(low, magnitude);
    uint32_t next = ~0u;
    int64_t not_above = 0;
    for (int64_t i = 0; i < n; i++) {
        const uint32_t other = key_of(x[i], magnitude);
        not_above += other <= key;
        next = other > key && other < next ? other : next;
    }
    return not_above > rank + 1 ? low : value_of(next, magnitude);
}

float dt__quantile(const float *x, int64_t n, double share, bool magnitudes)
{
    const double at = share * (double)(n - 1);
    const int64_t below = (int64_t)at;
    const float low = of_rank(x, n, below, magnitudes);
    const double past = at - (double)below;
    if (past <= 0 || below + 1 >= n) return low;
    const double high = (double)next_in_order(x, n, below, low, magnitudes);
    return (float)((double)low + past * (high - (double)low));
}

/* ---- observers ------------------------------------------------------------------------------ */

/* A batch and the range that it updates. */
typedef struct batch {
    const dt_call *call;
    const dt_quant_spec *quant;
    const float *x;
    int64_t n, seen; /* number of values of the batch, and seen before it */
    float lo, hi;    /* the batch's range */
} batch;

typedef struct range {
    float lo, hi;
} range;

static range minmax(const batch *b, range r)
{
    return (range){ b->lo < r.lo ? b->lo : r.lo, b->hi > r.hi ? b->hi : r.hi };
}

static range average(const batch *b, range r, range of_batch)
{
    const float share = (float)b->quant->averaging;
    if (b->seen == 0) return of_batch;
    return (range){ r.lo + share * (of_batch.lo - r.lo), r.hi + share * (of_batch.hi - r.hi) };
}

static range moving_average(const batch *b, range r)
{
    return average(b, r, (range){ b->lo, b->hi });
}

static range least_error(const batch *b, range r)
{
    range own = { b->lo, b->hi };
    dt__least_error(b->quant, b->n, b->x, &own.lo, &own.hi);
    return average(b, r, own);
}

static void keep_values(const batch *b)
{
    dt_tensor *kept = b->call->arg[VALUES];
    float *values = dt__values_mut(kept);
    int64_t i = dt__min_i64(b->n, dt__max_i64(0, kept->count - b->seen));
    if (i > 0) memcpy(values + b->seen, b->x, (size_t)i * sizeof *values);
    for (; i < b->n; i++) {
        uint32_t word[4];
        dt__philox((uint64_t)b->call->state[2], (uint64_t)(b->call->state[3] + i), word);
        const double place = dt__unit_f64(word[0], word[1]) * (double)(b->seen + i + 1);
        if (place < (double)kept->count) values[(int64_t)place] = b->x[i];
    }
}

void dt__percentile_range(const dt_quant_spec *q, const float *values, int64_t n, float *lo,
                          float *hi)
{
    const double share = q->percentile / 100;
    if (!dt__scheme_of(q->scheme)->has_zero) {
        *hi = dt__quantile(values, n, share, true);
        *lo = -*hi;
        return;
    }
    const float low = dt__quantile(values, n, (1 - share) / 2, false);
    const float high = dt__quantile(values, n, (1 + share) / 2, false);
    *lo = low < 0 ? low : 0;
    *hi = high > 0 ? high : 0;
}

static range percentile(const batch *b, range r)
{
    const dt_tensor *kept = b->call->arg[VALUES];
    const int64_t n = dt__min_i64(kept->count, b->seen + b->n);
    keep_values(b);
    dt__percentile_range(b->quant, dt__values(kept), n, &r.lo, &r.hi);
    return r;
}

static range (*const observers[])(const batch *b, range r) = {
    [DT_OBSERVER_MINMAX] = minmax,
    [DT_OBSERVER_MOVING_AVERAGE] = moving_average,
    [DT_OBSERVER_PERCENTILE] = percentile,
    [DT_OBSERVER_MSE] = least_error,
};

/* ---- the op --------------------------------------------------------------------------------- */

static dt_status refuse_value(const dt_call *c, int64_t element)
{
    const float value = ((const float *)dt__values(c->arg[X]))[element];
    return dt_refuse(c, DT_ERR_NUMERIC, "element %lld is %s; only finite values have a range",
                     (long long)element, isnan(value) ? "NaN" : "infinite");
}

/* Whatever the observer, the range lies within +-the largest magnitude of the batches. */
static dt_status check_scale(const dt_call *c, range r)
{
    const float most = -r.lo > r.hi ? -r.lo : r.hi;
    float scale;
    int8_t zero;
    if (dt__range_scale(c->options, -most, most, &scale, c->arg[ZERO] == NULL ? NULL : &zero)) {
        return DT_OK;
    }
    return dt_refuse(c, DT_ERR_NUMERIC, "a value of magnitude %g is too large for a finite scale",
                     (double)most);
}

/* state: lo and hi of the batch as the bits of floats; key and counter of the random stream. */
static dt_status shape(dt_call *c)
{
    dt__cut cut;
    range r = { 0, 0 };
    DT__TRY(dt__want_dtype(c, X, DT_F32));
    DT__TRY(dt__cut_of(c->ctx, c->options, c->arg[X]->rank, c->arg[X]->dims, &cut));
    const int64_t bad = dt__range_of(c->ctx, &cut, dt__values(c->arg[X]), &r.lo, &r.hi);
    if (bad >= 0) return refuse_value(c, bad);
    DT__TRY(check_scale(c, r));
    memcpy(&c->state[0], &r.lo, sizeof r.lo);
    memcpy(&c->state[1], &r.hi, sizeof r.hi);
    const int64_t seen = *(const int64_t *)dt__values(c->arg[COUNT]), n = c->arg[X]->count;
    if (c->arg[VALUES] == NULL || seen + n <= c->arg[VALUES]->count) return DT_OK;
    uint64_t key;
    c->state[3] = (int64_t)dt__tape_draw(c->tape, DT__FOR_OBSERVERS, (uint64_t)n, &key);
    c->state[2] = (int64_t)key;
    return DT_OK;
}

static void forward(const dt_call *c)
{
    float *lo = dt__values_mut(c->arg[LO]), *hi = dt__values_mut(c->arg[HI]);
    int64_t *count = dt__values_mut(c->arg[COUNT]);
    batch b = { .call = c, .quant = c->options, .x = dt__values(c->arg[X]), .n = c->arg[X]->count };
    if (b.n == 0) return;
    b.seen = *count;
    memcpy(&b.lo, &c->state[0], sizeof b.lo);
    memcpy(&b.hi, &c->state[1], sizeof b.hi);
    const range r = observers[b.quant->observer](&b, (range){ *lo, *hi });
    *lo = r.lo;
    *hi = r.hi;
    *count += b.n;
    int8_t *zero = c->arg[ZERO] == NULL ? NULL : dt__values_mut(c->arg[ZERO]);
    dt__range_scale(b.quant, *lo, *hi, dt__values_mut(c->arg[SCALE]), zero);
}

static const dt_op observe = {
    .name = "observe",
    .text = "brings a static range up to date with x",
    .in_name = { "x", "lo", "hi", "count", "scale", "zero_point", "values" },
    .role = { DT_READ, DT_WRITE, DT_WRITE, DT_WRITE, DT_WRITE, DT_WRITE, DT_WRITE },
    .optional = { [ZERO] = true, [VALUES] = true },
    .random = true,
    .options_size = sizeof(dt_quant_spec),
    .shape = shape,
    .forward = forward,
};

dt_status dt__observe(dt_tape *t, dt_tensor *x, const dt__quantizer *q)
{
    dt_tensor *const in[OPERANDS] = {
        x, q->lo, q->hi, q->count, q->scale, q->zero_point, q->values
    };
    return dt_apply_n(t, &observe, in, OPERANDS, &q->quant, NULL, 0);
}

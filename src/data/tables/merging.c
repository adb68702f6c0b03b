#include "data/tables/merging.h"

#include "core/text/number.h"
#include "data/array_dtypes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LEVELS 4096  /* least number of f32 values in a column's range */
#define SAME 0x1p-48 /* relative */
#define SMALL 0x1p24 /* integers below this are exact in f32, and no other integer rounds to them */
#define MOST_VALUES ((int64_t)1 << 22) /* per table; further values are not compared */
#define ALL_INTEGERS 0x1p52            /* doubles from here on are integers */

/* ---- values ------------------------------------------------------------------------------- */

static bool has_fraction(double v) { return fabs(v) < ALL_INTEGERS && v != floor(v); }

dt__exact dt__exact_real(double value)
{
    const bool fits = fabs(value) < 0x1p63 && !has_fraction(value);
    return (dt__exact){ value, fits ? (int64_t)value : 0, fits || !has_fraction(value) };
}

static bool are_same(const dt__exact *a, const dt__exact *b)
{
    if (a->is_integer && b->is_integer && fabs(a->value) < 0x1p63) return a->integer == b->integer;
    return fabs(a->value - b->value) <= SAME * fmax(fabs(a->value), fabs(b->value));
}

static bool is_exact(const dt__exact *v, float rounded)
{
    const dt__exact r = dt__exact_real((double)rounded);
    return are_same(v, &r);
}

/* The distance between f32 numbers at x. */
static double step_at(double x)
{
    int exponent;
    frexp(x, &exponent);
    return ldexp(1, exponent < -125 ? -149 : exponent - 24);
}

static double levels_of(const dt__value_range *r)
{
    return (r->high - r->low) / step_at(fmax(fabs(r->low), fabs(r->high)));
}

/* Whether it is an error if two values of the column are equal as f32. */
static bool range_is_strict(const dt__value_range *r)
{
    return r->inexact && (!r->real || levels_of(r) < LEVELS);
}

static void widen(dt__value_range *r, const dt__exact *v)
{
    if (!r->any || v->value < r->low) r->low = v->value;
    if (!r->any || v->value > r->high) r->high = v->value;
    r->any = true;
    r->real = r->real || !v->is_integer;
}

/* ---- the table ---------------------------------------------------------------------------- */

void dt__merging_free(dt_ctx *ctx, dt__merging *m)
{
    dt__release(ctx, m->slot);
    *m = (dt__merging){ .slot = NULL };
}

/* The slot that contains a number, or where it would be inserted. */
static dt__merge_slot *slot_of(const dt__merging *m, float rounded)
{
    uint32_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    int64_t i = (int64_t)((bits * UINT64_C(0x9E3779B97F4A7C15)) >> 20) & (m->slots - 1);
    while (m->slot[i].used != 0 && m->slot[i].rounded != rounded) i = (i + 1) & (m->slots - 1);
    return &m->slot[i];
}

static dt_status grow(dt_ctx *ctx, dt__merging *m)
{
    const dt__merging old = *m;
    m->slots = m->slots == 0 ? 64 : 2 * m->slots;
    m->slot = dt__alloc_array(ctx, m->slots, sizeof *m->slot);
    if (m->slot == NULL) {
        *m = old;
        return DT_ERR_NOMEM;
    }
    memset(m->slot, 0, (size_t)m->slots * sizeof *m->slot);
    for (int64_t i = 0; i < old.slots; i++) {
        if (old.slot[i].used != 0) *slot_of(m, old.slot[i].rounded) = old.slot[i];
    }
    dt__release(ctx, old.slot);
    return DT_OK;
}

dt_status dt__merging_put(dt_ctx *ctx, dt__merging *m, const dt__exact *v, float rounded)
{
    if (m->found || m->full) return DT_OK;
    if (2 * m->n >= m->slots) DT__TRY(grow(ctx, m));
    dt__merge_slot *s = slot_of(m, rounded);
    if (s->used == 0) {
        *s = (dt__merge_slot){ v->value, v->integer, rounded, 1, v->is_integer };
        m->full = ++m->n == MOST_VALUES;
        return DT_OK;
    }
    const dt__exact before = { s->value, s->integer, s->is_integer != 0 };
    m->found = !are_same(&before, v);
    m->pair[0] = before;
    m->pair[1] = *v;
    m->both = rounded;
    return DT_OK;
}

/* Small integers are not stored while a column has nothing else, as they can only equal rounded
 * fractions. If the range of a column with fractions is clearly wide, nothing more is stored. */
dt_status dt__merging_add(dt_ctx *ctx, dt__merging *m, const dt__exact *v, float rounded,
                          bool *missing)
{
    *missing = false;
    if (m->wide) return DT_OK;
    const bool first_real = !m->range.real && !v->is_integer && m->range.any;
    widen(&m->range, v);
    const bool small = v->is_integer && fabs(v->value) < SMALL;
    if (small && !m->range.real) return DT_OK;
    if (m->range.real && levels_of(&m->range) >= 2 * LEVELS) {
        dt__merging_free(ctx, m);
        m->wide = true;
        return DT_OK;
    }
    m->range.inexact = m->range.inexact || !is_exact(v, rounded);
    *missing = first_real;
    return dt__merging_put(ctx, m, v, rounded);
}

static void print_exact(const dt__exact *v, char text[32])
{
    if (v->is_integer && fabs(v->value) < 0x1p63) snprintf(text, 32, "%lld", (long long)v->integer);
    else dt__print_real(v->value, text);
}

/* Whether subtracting the least value would make the numbers distinct in f32: integers below 2^24,
 * or fractions with a large offset. */
static bool offset_helps(const dt__value_range *r)
{
    const double most = fmax(fabs(r->low), fabs(r->high)), range = r->high - r->low;
    return range < most / 4 || (!r->real && range < SMALL);
}

dt_status dt__merging_check(dt_ctx *ctx, const dt__merging *m, const char *where)
{
    if (!m->found || m->wide || !range_is_strict(&m->range)) return DT_OK;
    char first[32], second[32], both[32], low[32], advice[128];
    const dt__exact rounded = dt__exact_real((double)m->both);
    const dt__exact least = dt__exact_real(floor(m->range.low));
    print_exact(&m->pair[0], first);
    print_exact(&m->pair[1], second);
    print_exact(&rounded, both);
    print_exact(&least, low);
    snprintf(advice, sizeof advice,
             offset_helps(&m->range) ? "subtract an offset, such as %s, before the numbers are "
                                       "stored, or use a larger unit"
                                     : "use a larger unit%.0s, or leave the column out if it only "
                                       "numbers the rows",
             low);
    return dt_fail(ctx, DT_ERR_FORMAT,
                   "%s: %s and %s are both %s in f32, which models compute with; %s", where, first,
                   second, both, advice);
}

/* ---- arrays ------------------------------------------------------------------------------- */

static bool may_merge(int dtype)
{
    return dtype == DT_ARRAY_F64 || dtype == DT_ARRAY_I32 || dtype == DT_ARRAY_I64;
}

static dt__exact exact_at(int dtype, const uint8_t *data, int64_t i)
{
    int64_t integer;
    if (dtype != DT_ARRAY_I64) {
        const dt__array_dtype *t = dt__array_dtype_of(dtype);
        return dt__exact_real(t->at(data + i * t->bytes));
    }
    memcpy(&integer, data + i * (int64_t)sizeof integer, sizeof integer);
    return dt__exact_integer(integer);
}

/* Ranges of n consecutive numbers, for each of `columns` if inner is 1. */
#define RANGES(name, type)                                                                         \
    static void name##_ranges(const uint8_t *data, int64_t n, int64_t step,                        \
                              dt__value_range *range)                                              \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                          \
            type own;                                                                              \
            memcpy(&own, data + i * (int64_t)sizeof own, sizeof own);                              \
            const double v = (double)own;                                                          \
            dt__value_range *r = &range[i * step];                                                 \
            r->low = v < r->low ? v : r->low;                                                      \
            r->high = v > r->high ? v : r->high;                                                   \
            r->inexact |= (double)(float)v != v || fabs(v) >= 0x1p53;                              \
            r->real |= fabs(v) < ALL_INTEGERS && (v + 0x1.8p52) - 0x1.8p52 != v;                   \
        }                                                                                          \
    }

RANGES(f64, double)
RANGES(i32, int32_t)
RANGES(i64, int64_t)

static void find_ranges(const dt__number_run *run, int64_t columns, int64_t inner,
                        dt__value_range *range)
{
    const int64_t bytes = dt__array_dtype_of(run->dtype)->bytes;
    const int64_t each = inner == 1 ? columns : inner;
    for (int64_t i = 0, c = 0; i < run->n; i += each, c = (c + 1) % columns) {
        dt__value_range *to = inner == 1 ? range : &range[c];
        const int64_t n = dt__min_i64(each, run->n - i), step = inner == 1;
        const uint8_t *from = run->data + i * bytes;
        if (run->dtype == DT_ARRAY_F64) f64_ranges(from, n, step, to);
        else if (run->dtype == DT_ARRAY_I32) i32_ranges(from, n, step, to);
        else i64_ranges(from, n, step, to);
    }
}

/* Compares the values of column shape[0] until two are equal as f32. */
static dt_status compare_column(dt_ctx *ctx, const dt__number_run *run, int64_t runs,
                                const int64_t shape[3], dt__merging *m)
{
    const int64_t c = shape[0], columns = shape[1], inner = shape[2];
    for (int64_t k = 0; k < runs; k++) {
        for (int64_t i = c * inner; i < run[k].n && may_merge(run[k].dtype); i += columns * inner) {
            const int64_t end = dt__min_i64(run[k].n, i + inner);
            for (int64_t at = i; at < end; at++) {
                const dt__exact v = exact_at(run[k].dtype, run[k].data, at);
                const bool whole = run[k].dtype == DT_ARRAY_I64;
                DT__TRY(dt__merging_put(ctx, m, &v, whole ? (float)v.integer : (float)v.value));
                if (m->found || m->full) return DT_OK;
            }
        }
    }
    return DT_OK;
}

static dt_status check_column(dt_ctx *ctx, const dt__number_run *run, int64_t runs,
                              const int64_t shape[3], const dt__value_range *range)
{
    char where[DT__MESSAGE_SIZE / 2];
    dt__merging m = { .range = *range };
    dt_status s = compare_column(ctx, run, runs, shape, &m);
    if (shape[1] == 1) snprintf(where, sizeof where, "%s", run->name);
    else
        snprintf(where, sizeof where, "%s: %s %lld (counted from 0)", run->name,
                 shape[2] == 1 ? "column" : "channel", (long long)shape[0]);
    if (s == DT_OK) s = dt__merging_check(ctx, &m, where);
    dt__merging_free(ctx, &m);
    return s;
}

dt_status dt__refuse_merged(dt_ctx *ctx, const dt__number_run *run, int64_t runs, int64_t columns,
                            int64_t inner)
{
    int64_t wide = 0;
    for (int64_t k = 0; k < runs; k++) wide += may_merge(run[k].dtype) && run[k].n > 0;
    if (wide == 0) return DT_OK;
    dt__value_range *range = dt__alloc_array(ctx, columns, sizeof *range);
    if (range == NULL) return DT_ERR_NOMEM;
    for (int64_t c = 0; c < columns; c++) {
        range[c] = (dt__value_range){ .low = INFINITY, .high = -INFINITY };
    }
    for (int64_t k = 0; k < runs; k++) {
        if (may_merge(run[k].dtype)) find_ranges(&run[k], columns, inner, range);
    }
    dt_status s = DT_OK;
    for (int64_t c = 0; c < columns && s == DT_OK; c++) {
        const int64_t shape[] = { c, columns, inner };
        if (range_is_strict(&range[c])) s = check_column(ctx, run, runs, shape, &range[c]);
    }
    dt__release(ctx, range);
    return s;
}

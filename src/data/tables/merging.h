/* Numbers that f32 merges: different numbers of a column, such as seconds since 1970, that are one
 * number once they are rounded to f32. A model cannot tell them apart, so they are an error:
 *     of a column of integers      any two
 *     of a column with fractions   if its range has fewer than 4096 numbers of f32
 * Otherwise fractions that merge are what rounding does to any number. Doubles that differ by less
 * than 2^-48 of themselves count as one number. */
#ifndef DT__DATA_MERGING_H
#define DT__DATA_MERGING_H

#include "core/core.h"

/* A number before it is rounded to f32. */
typedef struct dt__exact {
    double value;
    int64_t integer; /* where is_integer; 0 beyond 64 bits, where `value` tells them apart */
    bool is_integer;
} dt__exact;

static inline dt__exact dt__exact_integer(int64_t i) { return (dt__exact){ (double)i, i, true }; }
dt__exact dt__exact_real(double value);

/* What the values of a column have in common. */
typedef struct dt__value_range {
    double low, high;
    bool any, inexact; /* of f32 */
    bool real;         /* one of them has a fraction */
} dt__value_range;

typedef struct dt__merge_slot {
    double value;
    int64_t integer;
    float rounded;
    uint8_t used, is_integer;
} dt__merge_slot;

/* The different values of a column. {0} is empty. */
typedef struct dt__merging {
    dt__value_range range;
    dt__merge_slot *slot; /* a hash table by the number in f32 */
    int64_t n, slots;     /* slots: a power of 2 */
    bool found, full;
    bool wide; /* fractions over a range that makes merging harmless */
    dt__exact pair[2];
    float both;
} dt__merging;

void dt__merging_free(dt_ctx *ctx, dt__merging *m);

/* Adds a value of a text as it is read, and what it is in f32; most columns keep nothing. *missing
 * is true if integers that were left out before matter now: the caller adds them by
 * dt__merging_put. NOMEM. */
dt_status dt__merging_add(dt_ctx *ctx, dt__merging *m, const dt__exact *v, float rounded,
                          bool *missing);
/* Adds a value to the table alone. NOMEM. */
dt_status dt__merging_put(dt_ctx *ctx, dt__merging *m, const dt__exact *v, float rounded);

/* FORMAT if two of the values are merged, which the message shows; `where` begins it. */
dt_status dt__merging_check(dt_ctx *ctx, const dt__merging *m, const char *where);

/* n numbers of an array in one piece. */
typedef struct dt__number_run {
    const char *name; /* of its file, for messages */
    int dtype;        /* dt_array_dtype */
    const uint8_t *data;
    int64_t n;
} dt__number_run;

/* The same for arrays: number i of a run is of column i / inner % columns. Reads numbers of other
 * types than f64, i32 and i64 not at all, others once, those of columns that may merge again. */
dt_status dt__refuse_merged(dt_ctx *ctx, const dt__number_run *run, int64_t runs, int64_t columns,
                            int64_t inner);

#endif

/* Merged numbers: different numbers of a column, such as seconds since 1970, that are equal when
 * rounded to f32. A model cannot distinguish them, so they are an error:
 *     of a column of integers      any two
 *     of a column with fractions   if its range has fewer than 4096 numbers of f32
 * Other merged fractions are normal rounding. Doubles with a relative difference below 2^-48 count
 * as the same number. */
#ifndef DT__DATA_MERGING_H
#define DT__DATA_MERGING_H

#include "core/core.h"

/* A number before it is rounded to f32. */
typedef struct dt__exact {
    double value;
    int64_t integer; /* if is_integer; 0 beyond 64 bits, where `value` is compared */
    bool is_integer;
} dt__exact;

static inline dt__exact dt__exact_integer(int64_t i) { return (dt__exact){ (double)i, i, true }; }
dt__exact dt__exact_real(double value);

/* Properties of a column's values. */
typedef struct dt__value_range {
    double low, high;
    bool any, inexact; /* inexact: some value is not exact in f32 */
    bool real;         /* some value has a fraction */
} dt__value_range;

typedef struct dt__merge_slot {
    double value;
    int64_t integer;
    float rounded;
    uint8_t used, is_integer;
} dt__merge_slot;

/* The set of different values of a column. {0} is empty. */
typedef struct dt__merging {
    dt__value_range range;
    dt__merge_slot *slot; /* a hash table, keyed by the number in f32 */
    int64_t n, slots;     /* slots: a power of 2 */
    bool found, full;
    bool wide; /* has fractions over a range so wide that merging is harmless */
    dt__exact pair[2];
    float both;
} dt__merging;

void dt__merging_free(dt_ctx *ctx, dt__merging *m);

/* Adds a value parsed from text, and its f32; for most columns nothing is stored. *missing:
 * integers that were not stored before now matter, so the caller must add them by dt__merging_put.
 * NOMEM. */
dt_status dt__merging_add(dt_ctx *ctx, dt__merging *m, const dt__exact *v, float rounded,
                          bool *missing);
/* Adds a value to the table only. NOMEM. */
dt_status dt__merging_put(dt_ctx *ctx, dt__merging *m, const dt__exact *v, float rounded);

/* FORMAT if two values are merged; the message begins with `where` and shows them. */
dt_status dt__merging_check(dt_ctx *ctx, const dt__merging *m, const char *where);

/* n contiguous numbers of an array. */
typedef struct dt__number_run {
    const char *name; /* name of its file, for messages */
    int dtype;        /* dt_array_dtype */
    const uint8_t *data;
    int64_t n;
} dt__number_run;

/* FORMAT if values of an array's column are merged: number i of a run is in column i / inner %
 * columns. Only f64, i32 and i64 are read, once; columns that may have merged numbers are read
 * again. */
dt_status dt__refuse_merged(dt_ctx *ctx, const dt__number_run *run, int64_t runs, int64_t columns,
                            int64_t inner);

#endif

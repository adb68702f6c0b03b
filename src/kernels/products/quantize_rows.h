/* Integer codes of fp32 rows: range, code, dequantized value, straight-through gradient (numerics
 * §1, §3).
 *
 * Codes and zero points are int8: a code of b bits is in -2^(b-1) ... 2^(b-1)-1. Unsigned schemes
 * subtract 2^(b-1) from codes and zero points, so that the same formulas hold. The kernels are
 * entries of the table for f32. */
#ifndef DT__KERNELS_QUANTIZE_ROWS_H
#define DT__KERNELS_QUANTIZE_ROWS_H

#include "core/text/small_float.h"

#include <stdbool.h>
#include <stdint.h>

/* Ranges lo <= 0 <= hi of blocks of values, and what a scheme computes from them. */
typedef struct dt__blocks {
    int64_t n;
    const float *lo, *hi;
    float *scale;
    float *inverse; /* multiplies values: 1 / scale, or as the scheme says */
    int8_t *zero;   /* NULL: the scheme has none */
    float global;   /* the tensor's scale, by which scales of blocks are rounded; 0: none */
} dt__blocks;

struct dt_quant_spec;

#define DT__MAX_LEVELS 64

/* The codes, ascending, of a scheme that does not use every integer. A value v = x * inverse, or
 * with `divides` v = x / scale, gets the code of the highest edge below it; a v up to edge[0] or
 * above edge[n] is clipped. */
typedef struct dt__levels {
    int n;
    int8_t code[DT__MAX_LEVELS];
    float edge[DT__MAX_LEVELS + 1];
    bool divides;
    /* Codes are the values of this float format times `unit`, a power of two; NULL: codes follow
     * from the edges. */
    const dt__small_float *grid;
    float unit;
    /* Codes are bytes of this float format, and v is the byte's value; the fields above are unused.
     * NULL: codes are integers. */
    const dt__small_float *real;
} dt__levels;

/* Whether codes are values of a small float format, or its bytes. */
static inline bool dt__is_small(const dt__levels *l) { return l->real != NULL || l->grid != NULL; }

/* The parts of a scheme that kernels use. */
typedef struct dt__coding {
    /* Computes scale, inverse and zero point of each block; false if a scale or dequantized value
     * is not finite. */
    bool (*choose)(const struct dt_quant_spec *q, const dt__blocks *b);
    const struct dt_quant_spec *spec; /* passed to `choose`; kernels do not read it */
    float global;                     /* the scale of the blocks' scales; 0: none */
    int qmin, qmax;
    bool half_up;  /* round as in dt__code_row */
    bool extremum; /* the range is the element of largest magnitude, the first of equals */
    bool mean;     /* the range is the mean of magnitudes, on both sides of 0 */
    const dt__levels *levels; /* as in dt__code_row */
} dt__coding;

/* A row of n elements in groups of `group` (the last may be shorter), each with its own scale. */
typedef struct dt__code_row {
    int64_t n, group;
    const float *scale; /* per group; 0 gives codes equal to the zero point */
    const int8_t *zero; /* per group; NULL: all 0 */
    int qmin, qmax;
    /* added to every code in memory: 0, or 128 for activations stored as u8 */
    int bias;
    const float *inverse; /* per group; NULL: 1 / scale */
    bool half_up; /* q = trunc(v + (0.5 - qmin)) + qmin in place of rne(v); without a zero point */
    const dt__levels *levels;    /* the codes, without a zero point; NULL: all of qmin ... qmax */
    const dt__small_float *real; /* for reading: codes are bytes of this format; NULL: integers */
} dt__code_row;

/* Turns the least and greatest value of each group into the range that the coding requires.
 * `extremum`: if both have the same magnitude, the one that occurs later in x becomes 0. `mean`: as
 * described there. */
void dt__refine_range(const dt__coding *coding, int64_t n, int64_t group, const float *x, float *lo,
                      float *hi);

/* How many edges lie below v: 0 or n + 1 if v is clipped, else 1 + the index of its code. */
static inline int dt__edges_below(const dt__levels *l, float v)
{
    int below = 0;
    for (int i = 0; i <= l->n; i++) below += v > l->edge[i];
    return below;
}

/* The code nearest to v. */
static inline int dt__level_of(const dt__levels *l, float v)
{
    const int below = dt__edges_below(l, v);
    return l->code[below == 0 ? 0 : below > l->n ? l->n - 1 : below - 1];
}

#endif

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
    float global;   /* of the tensor, by which scales of blocks are rounded; 0: there is none */
} dt__blocks;

struct dt_quant_spec;

#define DT__MAX_LEVELS 64

/* The codes of a scheme that does not use every integer, ascending. A value v = x * inverse, or
 * with `divides` v = x / scale, has the code of the last edge that it is above; at most edge[0], or
 * above edge[n], it is clipped. */
typedef struct dt__levels {
    int n;
    int8_t code[DT__MAX_LEVELS];
    float edge[DT__MAX_LEVELS + 1];
    bool divides;
    /* Codes are the values of this float times `unit`, a power of two; NULL: as the edges say. */
    const dt__small_float *grid;
    float unit;
    /* The codes are bytes of such a float in place of all above, and v is its value; NULL: they
     * are integers. */
    const dt__small_float *real;
} dt__levels;

/* Whether codes are values of a small float, or bytes of it. */
static inline bool dt__is_small(const dt__levels *l) { return l->real != NULL || l->grid != NULL; }

/* The parts of a scheme that kernels use. */
typedef struct dt__coding {
    /* Computes scale, inverse and zero point of each block; false if a scale or dequantized value
     * is not finite. */
    bool (*choose)(const struct dt_quant_spec *q, const dt__blocks *b);
    const struct dt_quant_spec *spec; /* the scheme's; kernels do not look into it */
    float global;                     /* of the blocks; 0: none */
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
    int bias;             /* added to every code in memory: 0, or 128 for activations held as u8 */
    const float *inverse; /* per group; NULL: 1 / scale */
    bool half_up; /* q = trunc(v + (0.5 - qmin)) + qmin in place of rne(v); without a zero point */
    const dt__levels *levels;    /* the codes, without a zero point; NULL: all of qmin ... qmax */
    const dt__small_float *real; /* when they are read: what codes are; NULL: integers */
} dt__code_row;

/* Makes the least and greatest value of each group its range, as the coding says: of `extremum`, if
 * both have the same magnitude, the one that comes later in x becomes 0; of `mean`, see there. */
void dt__refine_range(const dt__coding *coding, int64_t n, int64_t group, const float *x, float *lo,
                      float *hi);

/* How many edges lie below v: 0 or n + 1 where it is clipped, else 1 + the place of its code. */
static inline int dt__edges_below(const dt__levels *l, float v)
{
    int below = 0;
    for (int i = 0; i <= l->n; i++) below += v > l->edge[i];
    return below;
}

/* The code that is nearest to v. */
static inline int dt__level_of(const dt__levels *l, float v)
{
    const int below = dt__edges_below(l, v);
    return l->code[below == 0 ? 0 : below > l->n ? l->n - 1 : below - 1];
}

#endif

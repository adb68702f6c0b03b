/* Integer codes of fp32 rows: range, code, dequantized value, straight-through gradient (numerics
 * §1, §3).
 *
 * Codes and zero points are int8: a code of b bits is in -2^(b-1) ... 2^(b-1)-1. Unsigned schemes
 * subtract 2^(b-1) from codes and zero points, so that the same formulas hold. The kernels are
 * entries of the table for f32. */
#ifndef DT__KERNELS_QUANTIZE_ROWS_H
#define DT__KERNELS_QUANTIZE_ROWS_H

#include <stdbool.h>
#include <stdint.h>

/* Ranges lo <= 0 <= hi of blocks of values, and what a scheme computes from them. */
typedef struct dt__blocks {
    int64_t n;
    const float *lo, *hi;
    float *scale;
    float *inverse; /* multiplies values: 1 / scale, or as the scheme says */
    int8_t *zero;   /* NULL: the scheme has none */
} dt__blocks;

/* The parts of a scheme that kernels use. */
typedef struct dt__coding {
    /* Computes scale, inverse and zero point of each block; false if a scale or dequantized value
     * is not finite. */
    bool (*choose)(const void *settings, const dt__blocks *b);
    const void *settings;
    int qmin, qmax;
    bool half_up;  /* round as in dt__code_row */
    bool extremum; /* the range is the element of largest magnitude, the first of equals */
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
} dt__code_row;

/* For schemes with `extremum`: if lo and hi of a group have the same magnitude, sets the one that
 * comes later in x to 0. */
void dt__keep_extremum(int64_t n, int64_t group, const float *x, float *lo, float *hi);

#endif

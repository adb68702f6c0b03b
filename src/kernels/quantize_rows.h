/* Integer codes of fp32 rows: range, code, image, straight-through gradient (numerics §1, §3).
 *
 * Codes and zero points are held in stored signed form, int8: a code of b bits lies in
 * -2^(b-1) ... 2^(b-1)-1, and an unsigned scheme's code and zero point have 2^(b-1) subtracted,
 * which makes its formulas those of the signed one. The kernels are entries of the table for f32.
 */
#ifndef DT__KERNELS_QUANTIZE_ROWS_H
#define DT__KERNELS_QUANTIZE_ROWS_H

#include <stdbool.h>
#include <stdint.h>

/* Blocks of values with lo <= 0 <= hi, and what a rule makes of them. */
typedef struct dt__blocks {
    int64_t n;
    const float *lo, *hi;
    float *scale;
    float *inverse; /* what values are multiplied by: 1 / scale, or as the rule has it */
    int8_t *zero;   /* NULL: not wanted, the rule has none */
} dt__blocks;

/* A rule as kernels meet it. */
typedef struct dt__coding {
    /* Scale, inverse and zero point of each block; false where some scale or image is not
     * finite. */
    bool (*choose)(const void *settings, const dt__blocks *b);
    const void *settings;
    int qmin, qmax;
    bool half_up;  /* codes are rounded as dt__code_row says */
    bool extremum; /* only the element of largest magnitude counts, the first of equals */
} dt__coding;

/* A row of n elements in groups of `group` (the last may be shorter), each with its own scale. */
typedef struct dt__code_row {
    int64_t n, group;
    const float *scale; /* per group; 0 gives codes equal to the zero point */
    const int8_t *zero; /* per group; NULL: all 0 */
    int qmin, qmax;
    int bias;             /* added to every code in memory: 0, or 128 for activations held as u8 */
    const float *inverse; /* per group, in place of 1 / scale; NULL: that */
    bool half_up; /* q = trunc(v + (0.5 - qmin)) + qmin in place of rne(v); without a zero point */
} dt__code_row;

/* For rules of the extremum: where lo and hi of a group are equally far from 0, the one that does
 * not come first becomes 0. */
void dt__keep_extremum(int64_t n, int64_t group, const float *x, float *lo, float *hi);

#endif

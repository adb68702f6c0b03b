/* Integer codes of fp32 rows: range, code, image, straight-through gradient (numerics §1, §3).
 *
 * Codes and zero points are held in stored signed form, int8: a code of b bits lies in
 * -2^(b-1) ... 2^(b-1)-1, and an unsigned scheme's code and zero point have 2^(b-1) subtracted,
 * which makes its formulas those of the signed one. The kernels are entries of the table for f32.
 */
#ifndef DT__KERNELS_CODES_H
#define DT__KERNELS_CODES_H

#include <stdint.h>

/* A row of n elements in groups of `group` (the last may be shorter), each with its own scale. */
typedef struct dt__code_row {
    int64_t n, group;
    const float *scale; /* per group; 0 gives codes equal to the zero point */
    const int8_t *zero; /* per group; NULL: all 0 */
    int qmin, qmax;
    int bias; /* added to every code in memory: 0, or 128 for activations held as u8 */
} dt__code_row;

#endif

/* mxfp6_e3m2: weights and activations of 6 bits, FP6 E3M2, with a power of two for each block of
 * 32.
 *
 *     scale = 2^E        E = floor(log2 a) - 4        a = max |x| of the block
 *
 * Codes are bytes: the sign in the highest bit, exponent and mantissa in the lowest 5. v = x /
 * scale is rounded to the nearest value, ties to an even mantissa, and cut to +-28.   [OCP
 * Microscaling Formats (MX) Specification 1.0] */
#include "qat/schemes/mx.h"

static const dt__levels levels = { .real = &dt__e3m2 };

static const dt__scheme_case cases[] = {
    { "values of E3M2", 6, 5, { 28, 1, -0.0625f, 0.03125f, -9 }, 1, 0, { 31, 12, -127, 0, -104 } },
    { "cut", 6, 3, { 31.5f, -29, 2 }, 1, 0, { 31, -97, 16 } },
    { "zeros", 6, 2, { 0, 0 }, 0x1p-126f, 0, { 0, 0 } },
    { 0 },
};

const dt__scheme dt__scheme_mxfp6_e3m2 = {
    .name = "mxfp6_e3m2",
    .text = "MXFP6: FP6 (E3M2) in blocks of 32 whose scale is a power of two, rounded down",
    .bits = 6,
    .group = 32,
    .levels = &levels,
    .rule = { 1, DT__MX_DOWN, 4 },
    .round_scales = dt__mx_round,
    .cases = cases,
};

/* mxfp4: weights and activations of 4 bits, FP4 E2M1, with a power of two for each block of 32.
 *
 *     scale = 2^E / 2        E = floor(log2 a) - 2        a = max |x| of the block
 *
 * Codes are the values of E2M1 times 2. v = x / scale is rounded to the nearest value, ties to an
 * even mantissa, and cut to +-6.   [OCP Microscaling Formats (MX) Specification 1.0] */
#include "qat/schemes/mx.h"

static const dt__scheme_case cases[] = {
    { "values of E2M1",
      4,
      8,
      { 4, 6, -3, 1.5f, 0.5f, -0.25f, 1.25f, 2.5f },
      0.5f,
      0,
      { 8, 12, -6, 3, 1, 0, 2, 4 } },
    { "cut", 4, 4, { 7.9f, -7.9f, 1, 0 }, 0.5f, 0, { 12, -12, 2, 0 } },
    { "zeros", 4, 2, { 0, 0 }, 0x1p-126f, 0, { 0, 0 } },
    { 0 },
};

const dt__scheme dt__scheme_mxfp4 = {
    .name = "mxfp4",
    .text = "MXFP4: FP4 (E2M1) in blocks of 32 whose scale is a power of two, rounded down",
    .bits = 4,
    .group = 32,
    .levels = &dt__mx_fp4,
    .rule = { 1, DT__MX_DOWN, 3 },
    .round_scales = dt__mx_round,
    .cases = cases,
};

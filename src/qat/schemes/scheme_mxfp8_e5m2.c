/* mxfp8_e5m2: weights and activations of 8 bits, FP8 E5M2, with a power of two for each block of
 * 32.
 *
 *     scale = 2^E        E = floor(log2 a) - 15        a = max |x| of the block
 *
 * Codes are bytes of E5M2. v = x / scale is rounded to the nearest value, ties to an even mantissa,
 * and cut to +-57344.   [OCP Microscaling Formats (MX) Specification 1.0] */
#include "qat/schemes/mx.h"

static const dt__levels levels = { .real = &dt__e5m2 };

static const dt__scheme_case cases[] = {
    { "values of E5M2",
      8,
      6,
      { 57344, 1, -2, 0.5f, 9, 0x1p-16f },
      1,
      0,
      { 123, 60, -64, 56, 72, 1 } },
    { "cut", 8, 3, { 65535, -60000, 2 }, 1, 0, { 123, -5, 64 } },
    { "zeros", 8, 2, { 0, 0 }, 0x1p-126f, 0, { 0, 0 } },
    { 0 },
};

const dt__scheme dt__scheme_mxfp8_e5m2 = {
    .name = "mxfp8_e5m2",
    .text = "MXFP8: FP8 (E5M2) in blocks of 32 whose scale is a power of two, rounded down",
    .bits = 8,
    .group = 32,
    .levels = &levels,
    .rule = { 1, DT__MX_DOWN, 15 },
    .round_scales = dt__mx_round,
    .cases = cases,
};

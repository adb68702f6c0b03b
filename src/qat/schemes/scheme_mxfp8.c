/* mxfp8: weights and activations of 8 bits, FP8 E4M3, with a power of two for each block of 32.
 *
 *     scale = 2^E        E = floor(log2 a) - 8        a = max |x| of the block
 *
 * Codes are bytes of E4M3. v = x / scale is rounded to the nearest value, ties to an even mantissa,
 * and cut to +-448.   [OCP Microscaling Formats (MX) Specification 1.0] */
#include "qat/schemes/mx.h"

static const dt__levels levels = { .real = &dt__e4m3 };

static const dt__scheme_case cases[] = {
    { "values of E4M3",
      8,
      8,
      { 448, -448, 1, 0.5f, 17, 19, 0x1p-9f, -0x1p-10f },
      1,
      0,
      { 126, -2, 56, 48, 88, 90, 1, 0 } },
    { "cut", 8, 3, { 511, -500, 2 }, 1, 0, { 126, -2, 64 } },
    { "zeros", 8, 2, { 0, 0 }, 0x1p-126f, 0, { 0, 0 } },
    { 0 },
};

const dt__scheme dt__scheme_mxfp8 = {
    .name = "mxfp8",
    .text = "MXFP8: FP8 (E4M3) in blocks of 32 whose scale is a power of two, rounded down",
    .bits = 8,
    .group = 32,
    .levels = &levels,
    .rule = { 1, DT__MX_DOWN, 8 },
    .round_scales = dt__mx_round,
    .cases = cases,
};

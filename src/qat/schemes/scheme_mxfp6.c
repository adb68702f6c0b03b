/* mxfp6: weights and activations of 6 bits, FP6 E2M3, with a power of two for each block of 32.
 *
 *     scale = 2^E / 8        E = floor(log2 a) - 2        a = max |x| of the block
 *
 * Codes are the values of E2M3 times 8. v = x / scale is rounded to the nearest value, ties to an
 * even mantissa, and cut to +-7.5.   [OCP Microscaling Formats (MX) Specification 1.0] */
#include "qat/schemes/mx.h"

static const dt__levels levels = {
    .grid = &dt__e2m3,
    .unit = 8,
    .n = 63,
    .code = { -60, -56, -52, -48, -44, -40, -36, -32, -30, -28, -26, -24, -22, -20, -18, -16,
              -15, -14, -13, -12, -11, -10, -9,  -8,  -7,  -6,  -5,  -4,  -3,  -2,  -1,  0,
              1,   2,   3,   4,   5,   6,   7,   8,   9,   10,  11,  12,  13,  14,  15,  16,
              18,  20,  22,  24,  26,  28,  30,  32,  36,  40,  44,  48,  52,  56,  60 },
    .edge = { -62,       -0x1.d00002p5f,  -54,       -0x1.900002p5f, -46,       -0x1.500002p5f,
              -38,       -0x1.100002p5f,  -31,       -0x1.d00002p4f, -27,       -0x1.900002p4f,
              -23,       -0x1.500002p4f,  -19,       -0x1.100002p4f, -0x1.fp3f, -0x1.d00002p3f,
              -0x1.bp3f, -0x1.900002p3f,  -0x1.7p3f, -0x1.500002p3f, -0x1.3p3f, -0x1.100002p3f,
              -0x1.ep2f, -0x1.a00002p2f,  -0x1.6p2f, -0x1.200002p2f, -0x1.cp1f, -0x1.400002p1f,
              -0x1.8p0f, -0x1.000002p-1f, 0x1p-1f,   0x1.7ffffep0f,  0x1.4p1f,  0x1.bffffep1f,
              0x1.2p2f,  0x1.5ffffep2f,   0x1.ap2f,  0x1.dffffep2f,  0x1.1p3f,  0x1.2ffffep3f,
              0x1.5p3f,  0x1.6ffffep3f,   0x1.9p3f,  0x1.affffep3f,  0x1.dp3f,  0x1.effffep3f,
              17,        0x1.2ffffep4f,   21,        0x1.6ffffep4f,  25,        0x1.affffep4f,
              29,        0x1.effffep4f,   34,        0x1.2ffffep5f,  42,        0x1.6ffffep5f,
              50,        0x1.affffep5f,   58,        0x1.effffep5f }
};

static const dt__scheme_case cases[] = {
    { "values of E2M3",
      6,
      6,
      { 4, 7.5f, -3.75f, 0.125f, 0.0625f, 4.25f },
      0.125f,
      0,
      { 32, 60, -30, 1, 0, 32 } },
    { "cut", 6, 3, { 7.9f, -7.9f, 1 }, 0.125f, 0, { 60, -60, 8 } },
    { "zeros", 6, 2, { 0, 0 }, 0x1p-126f, 0, { 0, 0 } },
    { 0 },
};

const dt__scheme dt__scheme_mxfp6 = {
    .name = "mxfp6",
    .text = "MXFP6: FP6 (E2M3) in blocks of 32 whose scale is a power of two, rounded down",
    .bits = 6,
    .group = 32,
    .levels = &levels,
    .rule = { 1, DT__MX_DOWN, 5 },
    .round_scales = dt__mx_round,
    .cases = cases,
};

/* mxfp8_near: as mxfp8, but the scale is rounded up where the largest value is at least 448 scales.
 *
 *     scale = 2^E        E = floor(log2 a) - 8, plus 1 if a >= 1.75 * 2^floor(log2 a)
 *
 * [E as the package compressed-tensors rounds it] */
#include "qat/schemes/mx.h"

static const dt__levels levels = { .real = &dt__e4m3 };

static const dt__scheme_case cases[] = {
    { "below 448", 8, 4, { 447, -2, 1, 17 }, 1, 0, { 126, -64, 56, 88 } },
    { "from 448 on", 8, 4, { 448, -2, 1, 17 }, 2, 0, { 118, -72, 48, 80 } },
    { "zeros", 8, 2, { 0, 0 }, 0x1p-126f, 0, { 0, 0 } },
    { 0 },
};

const dt__scheme dt__scheme_mxfp8_near = {
    .name = "mxfp8_near",
    .text = "MXFP8 (E4M3) whose scale is rounded up where the largest value reaches 448 of it",
    .bits = 8,
    .group = 32,
    .levels = &levels,
    .rule = { 1, DT__MX_NEAR, 8 },
    .round_scales = dt__mx_round,
    .cases = cases,
};

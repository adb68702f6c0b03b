/* mxfp4_near: as mxfp4, but the scale is rounded up where the largest value would be cut by more
 * than half of a step.
 *
 *     scale = 2^E / 2        E = floor(log2 a) - 2, plus 1 if a >= 1.75 * 2^floor(log2 a)
 *
 * [E as the package compressed-tensors and torchao's mode EVEN round it] */
#include "qat/schemes/mx.h"

static const dt__scheme_case cases[] = {
    { "below 1.75", 4, 4, { 6.9f, -3, 1.5f, 0.25f }, 0.5f, 0, { 12, -6, 3, 0 } },
    { "from 1.75 on", 4, 4, { 7, -7, 1, 0 }, 1, 0, { 8, -8, 1, 0 } },
    { "zeros", 4, 2, { 0, 0 }, 0x1p-126f, 0, { 0, 0 } },
    { 0 },
};

const dt__scheme dt__scheme_mxfp4_near = {
    .name = "mxfp4_near",
    .text = "MXFP4 whose scale is rounded up where the largest value would be cut by half a step",
    .bits = 4,
    .group = 32,
    .levels = &dt__mx_fp4,
    .rule = { 1, DT__MX_NEAR, 3 },
    .round_scales = dt__mx_round,
    .cases = cases,
};

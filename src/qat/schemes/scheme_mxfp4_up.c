/* mxfp4_up: as mxfp4, but no value is cut.
 *
 *     scale = 2^E / 2        E = ceil(log2(a / 6))
 *
 * [E as torchao and NVIDIA round it] */
#include "qat/schemes/mx.h"

static const dt__scheme_case cases[] = {
    { "a power of two stays", 4, 4, { 6, -3, 1.5f, 0.25f }, 0.5f, 0, { 12, -6, 3, 0 } },
    { "rounded up", 4, 4, { 7.9f, -7.9f, 1, 0 }, 1, 0, { 8, -8, 1, 0 } },
    { "zeros", 4, 2, { 0, 0 }, 0x1p-126f, 0, { 0, 0 } },
    { 0 },
};

const dt__scheme dt__scheme_mxfp4_up = {
    .name = "mxfp4_up",
    .text = "MXFP4 whose scale is rounded up, so that no value is cut",
    .bits = 4,
    .group = 32,
    .levels = &dt__mx_fp4,
    .rule = { 6, DT__MX_UP, 1 },
    .round_scales = dt__mx_round,
    .cases = cases,
};

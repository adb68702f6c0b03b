/* mxfp8_up: as mxfp8, but no value is cut.
 *
 *     scale = 2^E        E = ceil(log2(a / 448))
 *
 * [E as torchao and NVIDIA round it] */
#include "qat/schemes/mx.h"

static const dt__levels levels = { .real = &dt__e4m3 };

static const dt__scheme_case cases[] = {
    { "a power of two stays", 8, 3, { 448, -224, 1 }, 1, 0, { 126, -10, 56 } },
    { "rounded up", 8, 3, { 449, -448, 2 }, 2, 0, { 118, -10, 56 } },
    { "zeros", 8, 2, { 0, 0 }, 0x1p-126f, 0, { 0, 0 } },
    { 0 },
};

const dt__scheme dt__scheme_mxfp8_up = {
    .name = "mxfp8_up",
    .text = "MXFP8 (E4M3) whose scale is rounded up, so that no value is cut",
    .bits = 8,
    .group = 32,
    .levels = &levels,
    .rule = { 448, DT__MX_UP, 0 },
    .round_scales = dt__mx_round,
    .cases = cases,
};

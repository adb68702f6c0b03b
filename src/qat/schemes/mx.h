/* What the schemes of OCP Microscaling formats share, blocks of 32 with a power of two, and NVFP4
 * with them. */
#ifndef DT__QAT_MX_H
#define DT__QAT_MX_H

#include "qat/schemes/scheme.h"

/* The values of FP4 E2M1 times 2, and the edges between them. */
#define DT__FP4_LEVELS                                                                             \
    .grid = &dt__e2m1, .unit = 2, .n = 15,                                                         \
    .code = { -12, -8, -6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6, 8, 12 },                              \
    .edge = { -14,       -0x1.400002p3f,  -7,      -0x1.400002p2f, -0x1.cp1f, -0x1.400002p1f,      \
              -0x1.8p0f, -0x1.000002p-1f, 0x1p-1f, 0x1.7ffffep0f,  0x1.4p1f,  0x1.bffffep1f,       \
              5,         0x1.bffffep2f,   10,      0x1.bffffep3f }
extern const dt__levels dt__mx_fp4;
/* A scale of the tensor, `global`, with which n scales of nvfp4 are (E4M3 / global) / 2, to the
 * bit; 0: there is none. */
float dt__nvfp4_global(int64_t n, const float *scale);
/* scale = 2^(E - bits), v = a / most; 0 where that would be below the normal numbers. */
void dt__mx_scales(const dt__blocks *b, const dt__mx_rule *rule);
/* A scale stays a power of two: least is the least normal number. */
void dt__mx_round(const dt__scale_limits *limits, const dt__blocks *b);

#endif

/* What the schemes of OCP Microscaling formats (blocks of 32 whose scale is a power of two) and
 * NVFP4 share. */
#ifndef DT__QAT_MX_H
#define DT__QAT_MX_H

#include "qat/schemes/scheme.h"

/* The values of FP4 E2M1 times 2, and the thresholds between them. */
#define DT__FP4_LEVELS                                                                             \
    .grid = &dt__e2m1, .unit = 2, .n = 15,                                                         \
    .code = { -12, -8, -6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6, 8, 12 },                              \
    .edge = { -14,       -0x1.400002p3f,  -7,      -0x1.400002p2f, -0x1.cp1f, -0x1.400002p1f,      \
              -0x1.8p0f, -0x1.000002p-1f, 0x1p-1f, 0x1.7ffffep0f,  0x1.4p1f,  0x1.bffffep1f,       \
              5,         0x1.bffffep2f,   10,      0x1.bffffep3f }
extern const dt__levels dt__mx_fp4;
/* A tensor scale `global` with which the n scales are bit for bit (E4M3 / global) / 2, as nvfp4
 * stores them; 0: there is none. */
float dt__nvfp4_global(int64_t n, const float *scale);
/* scale = 2^(E - bits) of v = a / most (dt__mx_rule); 0 where it would be below the normal
 * numbers. */
void dt__mx_scales(const dt__blocks *b, const dt__mx_rule *rule);
/* round_scales of powers of two: too small a scale becomes the least normal number. */
void dt__mx_round(const dt__scale_limits *limits, const dt__blocks *b);

#endif

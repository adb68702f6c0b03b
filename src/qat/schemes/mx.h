/* What the schemes of OCP Microscaling formats share: blocks of 32 with a power of two. */
#ifndef DT__QAT_MX_H
#define DT__QAT_MX_H

#include "qat/schemes/scheme.h"

/* The values of FP4 E2M1 times 2. */
extern const dt__levels dt__mx_fp4;
/* scale = 2^(floor(log2 a) - bits), a = max |x| of the block; 0 where that is 0. */
void dt__mx_scales(const dt__blocks *b, int bits);
/* A scale stays a power of two: least is the least normal number. */
void dt__mx_round(const dt__scale_limits *limits, const dt__blocks *b);

#endif

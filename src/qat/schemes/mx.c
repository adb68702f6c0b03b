/* Scales of OCP Microscaling formats, and the levels of FP4. */
#include "qat/schemes/mx.h"

#include <math.h>

void dt__mx_scales(const dt__blocks *b, int bits)
{
    for (int64_t i = 0; i < b->n; i++) {
        const float a = -b->lo[i] > b->hi[i] ? -b->lo[i] : b->hi[i];
        int exponent;
        (void)frexpf(a, &exponent); /* a = m 2^exponent, 1/2 <= m < 1 */
        b->scale[i] = a > 0 ? ldexpf(1, exponent - 1 - bits) : 0;
    }
}

void dt__mx_scales_up(const dt__blocks *b, float most, int bits)
{
    for (int64_t i = 0; i < b->n; i++) {
        const float a = -b->lo[i] > b->hi[i] ? -b->lo[i] : b->hi[i];
        int exponent;
        const float part = frexpf(a / most, &exponent);
        exponent -= part == 0.5f ? 1 : 0; /* a power of two is not rounded up */
        b->scale[i] = a > 0 ? ldexpf(1, exponent - bits) : 0;
    }
}

void dt__mx_round(const dt__scale_limits *limits, const dt__blocks *b)
{
    for (int64_t i = 0; i < b->n; i++) {
        if (!(b->scale[i] >= limits->least)) b->scale[i] = limits->least;
        while (b->scale[i] > limits->most) b->scale[i] /= 2;
        b->inverse[i] = 1 / b->scale[i];
    }
}

const dt__levels dt__mx_fp4 = { DT__FP4_LEVELS };

/* Scales of OCP Microscaling formats, and the levels of FP4. */
#include "qat/schemes/mx.h"

/* Adding `carry` below the exponent of an f32 carries into the exponent where the fraction is large
 * enough. That needs no logarithm, and compilers vectorize the loops. */
void dt__mx_scales(const dt__blocks *b, const dt__mx_rule *rule)
{
    const dt__mx_rule of = *rule;
    for (int64_t i = 0; i < b->n; i++) {
        const float a = -b->lo[i] > b->hi[i] ? -b->lo[i] : b->hi[i];
        const uint32_t bits = dt__bits_of_f32(a / of.most) + of.carry;
        const int32_t exponent = (int32_t)(bits >> 23) - of.bits;
        b->scale[i] = dt__f32_of_bits((uint32_t)(exponent > 0 ? exponent : 0) << 23);
    }
}

void dt__mx_round(const dt__scale_limits *limits, const dt__blocks *b)
{
    const float least = limits->least, most = limits->dtype == DT_SCALE_F16 ? 0x1p15f : 0x1p127f;
    for (int64_t i = 0; i < b->n; i++) {
        const float above = b->scale[i] < least ? least : b->scale[i];
        b->scale[i] = above > most ? most : above;
        b->inverse[i] = 1 / b->scale[i];
    }
}

const dt__levels dt__mx_fp4 = { DT__FP4_LEVELS };

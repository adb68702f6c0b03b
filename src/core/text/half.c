/* Half precision, computed with integers, so that neither the rounding mode nor flush-to-zero
 * matters.
 *
 *     f32    1 sign   8 exponent (bias 127)   23 mantissa
 *     f16    1 sign   5 exponent (bias  15)   10 mantissa
 *     bf16   the upper half of an f32
 *
 * Rounding shifts exponent and mantissa right as one integer: a carry out of the mantissa
 * increments the exponent, and beyond the largest finite value gives infinity, as IEEE 754
 * requires. */
#include "core/text/half.h"

#define F32_INFINITY 0x7f800000u
#define F16_INFINITY 0x7c00u
#define F16_QUIET 0x0200u
#define BF16_QUIET 0x0040u

/* value / 2^shift, rounded to nearest even; shift >= 1. */
static uint32_t shift_rne(uint32_t value, int shift)
{
    const uint32_t below_half = (1u << (shift - 1)) - 1;
    const uint32_t odd = (value >> shift) & 1;
    return (value + below_half + odd) >> shift;
}

/* A magnitude below 2^-14, the least normal f16, becomes an f16 subnormal: a multiple of 2^-24. */
static uint32_t f16_subnormal(uint32_t magnitude)
{
    const int exponent = (int)(magnitude >> 23);
    if (exponent < 102) return 0; /* below 2^-25 */
    return shift_rne((magnitude & 0x7fffffu) | 0x800000u, 126 - exponent);
}

uint16_t dt__f32_to_f16(float x)
{
    const uint32_t sign = (dt__bits_of_f32(x) >> 16) & 0x8000u;
    const uint32_t magnitude = dt__bits_of_f32(x) & 0x7fffffffu;
    uint32_t half;
    if (magnitude > F32_INFINITY) {
        half = F16_INFINITY | F16_QUIET | ((magnitude >> 13) & 0x3ffu);
    } else if (magnitude >= 0x47800000u) { /* 2^16 */
        half = F16_INFINITY;
    } else if (magnitude >= 0x38800000u) { /* 2^-14 */
        half = shift_rne(magnitude - ((127u - 15u) << 23), 13);
    } else {
        half = f16_subnormal(magnitude);
    }
    return (uint16_t)(sign | half);
}

float dt__f16_to_f32(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    const uint32_t magnitude = half & 0x7fffu;
    uint32_t bits;
    if (magnitude >= F16_INFINITY) {
        bits = F32_INFINITY | (magnitude & 0x3ffu) << 13;
    } else if (magnitude >= 0x0400u) {
        bits = (magnitude << 13) + ((127u - 15u) << 23);
    } else {
        bits = dt__bits_of_f32((float)magnitude * 0x1p-24f);
    }
    return dt__f32_of_bits(sign | bits);
}

uint16_t dt__f32_to_bf16(float x)
{
    const uint32_t bits = dt__bits_of_f32(x);
    if ((bits & 0x7fffffffu) > F32_INFINITY) return (uint16_t)((bits >> 16) | BF16_QUIET);
    return (uint16_t)shift_rne(bits, 16);
}

float dt__round_f16(float x) { return dt__f16_to_f32(dt__f32_to_f16(x)); }
float dt__round_bf16(float x) { return dt__bf16_to_f32(dt__f32_to_bf16(x)); }

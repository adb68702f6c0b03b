/* Floats of at most 8 bits (small_float.h). Rounding adds and takes off the power of two whose last
 * bit is that of the value, so the sum itself is rounded half to even. */
#include "core/text/small_float.h"

#include <math.h>
#include <string.h>

const dt__small_float dt__e2m1 = { 4, 1, 1, 6 }, dt__e2m3 = { 6, 3, 1, 7.5f },
                      dt__e3m2 = { 6, 2, 3, 28 }, dt__e4m3 = { 8, 3, 7, 448 },
                      dt__e5m2 = { 8, 2, 15, 57344 };

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

float dt__small_round(const dt__small_float *f, float x)
{
    const float size = fabsf(x) < f->most ? fabsf(x) : f->most;
    const uint32_t least = (uint32_t)(128 - f->bias) << 23; /* the least normal number */
    uint32_t exponent = bits_of(size) & 0x7f800000;
    if (exponent < least) exponent = least;
    const float unit = float_of(exponent + ((uint32_t)(23 - f->mantissa) << 23));
    return copysignf((size + unit) - unit, x);
}

uint8_t dt__small_code(const dt__small_float *f, float value)
{
    const float size = fabsf(value);
    const unsigned sign = signbit(value) ? 1U << (f->bits - 1) : 0;
    if (size < ldexpf(1, 1 - f->bias)) {
        return (uint8_t)(sign | (unsigned)ldexpf(size, f->bias - 1 + f->mantissa));
    }
    const unsigned code = bits_of(size) >> (23 - f->mantissa);
    return (uint8_t)(sign | (code - ((unsigned)(127 - f->bias) << f->mantissa)));
}

float dt__small_value(const dt__small_float *f, uint8_t code)
{
    const int sign = code >> (f->bits - 1) & 1, rest = code & ((1 << (f->bits - 1)) - 1);
    const int e = rest >> f->mantissa, m = rest & ((1 << f->mantissa) - 1);
    const int whole = e > 0 ? m + (1 << f->mantissa) : m;
    const float size = ldexpf((float)whole, (e > 0 ? e : 1) - f->bias - f->mantissa);
    if (size > f->most) return NAN;
    return sign != 0 ? -size : size;
}

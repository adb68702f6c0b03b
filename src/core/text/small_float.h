/* Floats of at most 8 bits: a sign, an exponent and a mantissa [OCP 8-bit Floating Point; OCP
 * Microscaling Formats].
 *
 *     value = (-1)^sign 2^(e - bias) (1 + m / 2^mantissa)      e > 0
 *             (-1)^sign 2^(1 - bias) m / 2^mantissa            e = 0 */
#ifndef DT__CORE_SMALL_FLOAT_H
#define DT__CORE_SMALL_FLOAT_H

#include "core/text/half.h"

#include <math.h>
#include <stdbool.h>

typedef struct dt__small_float {
    int bits, mantissa, bias;
    /* the largest value (codes of larger ones are invalid); magnitudes below `edge` round to at
     * most this value */
    float most, edge;
} dt__small_float;

/* The sign of E3M2 is the highest bit of a byte, followed by two zero bits. */
extern const dt__small_float dt__e2m1, dt__e2m3, dt__e3m2, dt__e4m3, dt__e5m2;

/* 2^n, -126 <= n <= 127. */
static inline float dt__f32_power(int n) { return dt__f32_of_bits((uint32_t)(127 + n) << 23); }

/* The nearest value, ties to even mantissas; the largest value, with the sign, for magnitudes
 * beyond it. x must not be NaN. The power of two that is added and subtracted has the value's last
 * bit as its own last bit, so the addition rounds half to even. */
static inline float dt__small_round(const dt__small_float *f, float x)
{
    const float size = fabsf(x) < f->most ? fabsf(x) : f->most;
    const uint32_t least = (uint32_t)(128 - f->bias) << 23; /* the least normal number */
    uint32_t exponent = dt__bits_of_f32(size) & 0x7f800000;
    exponent = exponent < least ? least : exponent;
    const float unit = dt__f32_of_bits(exponent + ((uint32_t)(23 - f->mantissa) << 23));
    return copysignf((size + unit) - unit, x);
}

/* The code of a value: sign, exponent and mantissa, from the highest of `bits` bits on. Multiplied
 * by 2^(bias - 127) the value has them as the leading bits of an f32. */
static inline uint8_t dt__small_code(const dt__small_float *f, float value)
{
    const uint32_t size = dt__bits_of_f32(fabsf(value) * dt__f32_power(f->bias - 127));
    const uint32_t sign = dt__bits_of_f32(value) >> 31 << (f->bits - 1);
    return (uint8_t)(sign | size >> (23 - f->mantissa));
}

/* The value of a code; for an invalid code a number beyond `most`. */
static inline float dt__small_value(const dt__small_float *f, uint8_t byte)
{
    const uint32_t code = byte, sign = code >> (f->bits - 1);
    const uint32_t size = code & ((1u << (f->bits - 1)) - 1);
    const float value = dt__f32_of_bits(size << (23 - f->mantissa)) * dt__f32_power(127 - f->bias);
    return dt__f32_of_bits(dt__bits_of_f32(value) | sign << 31);
}

/* Whether a code is valid. */
static inline bool dt__small_has(const dt__small_float *f, uint8_t code)
{
    return fabsf(dt__small_value(f, code)) <= f->most;
}

#endif

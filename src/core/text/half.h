/* Half precision: IEEE 754 binary16 ("f16") and bfloat16 ("bf16"), stored as uint16_t. */
#ifndef DT__CORE_HALF_H
#define DT__CORE_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t dt__bits_of_f32(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float dt__f32_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Rounds to nearest, ties to even; overflow gives infinity, underflow a subnormal or a zero of the
 * same sign. A NaN becomes a quiet NaN with the leading bits of its payload. */
uint16_t dt__f32_to_f16(float x);
uint16_t dt__f32_to_bf16(float x);

/* Exact: every half is a float. */
float dt__f16_to_f32(uint16_t half);
static inline float dt__bf16_to_f32(uint16_t half) { return dt__f32_of_bits((uint32_t)half << 16); }

/* The float rounded to the nearest half, as a float. */
float dt__round_f16(float x);
float dt__round_bf16(float x);

#endif

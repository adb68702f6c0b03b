/* Half precision: IEEE 754 binary16 ("f16") and bfloat16 ("bf16"), stored as uint16_t. */
#ifndef DT__CORE_HALF_H
#define DT__CORE_HALF_H

#include <stdint.h>

/* Nearest, ties to even; what is too large becomes infinity, what is too small a subnormal or a
 * zero of the same sign. A NaN stays one, quiet, with the leading bits of its payload. */
uint16_t dt__f32_to_f16(float x);
uint16_t dt__f32_to_bf16(float x);

/* Exact: every half is a float. */
float dt__f16_to_f32(uint16_t half);
float dt__bf16_to_f32(uint16_t half);

/* There and back: the nearest half, as a float. */
float dt__round_f16(float x);
float dt__round_bf16(float x);

#endif

/* Floats of at most 8 bits: a sign, an exponent and a mantissa [OCP 8-bit Floating Point; OCP
 * Microscaling Formats].
 *
 *     value = (-1)^sign 2^(e - bias) (1 + m / 2^mantissa)      e > 0
 *             (-1)^sign 2^(1 - bias) m / 2^mantissa            e = 0 */
#ifndef DT__CORE_SMALL_FLOAT_H
#define DT__CORE_SMALL_FLOAT_H

#include <stdint.h>

typedef struct dt__small_float {
    int bits, mantissa, bias;
    float most; /* the largest value; codes above its own are infinity or NaN */
} dt__small_float;

extern const dt__small_float dt__e2m1, dt__e2m3, dt__e3m2, dt__e4m3, dt__e5m2;

/* The nearest value, ties to even mantissas; beyond `most` that, with the sign. Not of NaN. */
float dt__small_round(const dt__small_float *f, float x);
/* The code of a value: sign, exponent and mantissa from the highest of `bits` bits. */
uint8_t dt__small_code(const dt__small_float *f, float value);
/* The value of a code; NaN of codes above that of `most`. */
float dt__small_value(const dt__small_float *f, uint8_t code);

#endif

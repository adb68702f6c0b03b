/* From int32 sums to codes as CMSIS-NN and TensorFlow Lite Micro do it (numerics §8): a real factor
 * is a 32-bit multiplier and a shift, and a product with it is rounded twice. */
#ifndef DT__KERNELS_REQUANTIZE_H
#define DT__KERNELS_REQUANTIZE_H

#include "core/core.h"

/* The factor m 2^(shift - 31), m in [2^30, 2^31), or 0. */
typedef struct dt__multiplier {
    int32_t m;
    int shift; /* -31 ... 31 */
} dt__multiplier;

/* The multiplier of a real factor, at least 0 and below 2^31. */
dt__multiplier dt__multiplier_of(double real);

/* (a b + 2^30) >> 31, at most 2^31 - 1. */
static inline int32_t dt__high_mult(int32_t a, int32_t b)
{
    const int64_t p = ((int64_t)a * b + (1 << 30)) >> 31;
    return p > INT32_MAX ? INT32_MAX : (int32_t)p;
}

/* b / 2^e, 0 <= e <= 31, halves away from zero. */
static inline int32_t dt__div_pow2(int32_t b, int e)
{
    const int32_t mask = (int32_t)(((int64_t)1 << e) - 1);
    return (b >> e) + ((b & mask) > (mask >> 1) + (b < 0));
}

/* v times the factor; v 2^max(shift, 0) fits int32. */
static inline int32_t dt__requantize(int32_t v, dt__multiplier by)
{
    const int32_t a = (int32_t)((uint32_t)v << (by.shift > 0 ? by.shift : 0));
    return dt__div_pow2(dt__high_mult(a, by.m), by.shift < 0 ? -by.shift : 0);
}

/* Requantizes a row of sums with one factor: y = requantize(sum + offset) + zero, in `least` ...
 * `most`. */
typedef struct dt__requantizing {
    int64_t n;
    const int32_t *sum;
    int32_t offset;
    dt__multiplier by;
    int zero, least, most;
    uint8_t *u; /* the codes, plus 128 */
    /* for backward, or NULL: DT__BELOW or DT__ABOVE if y was clamped, else rne(254 r), at most 126
     * in magnitude, where r is the code minus its real value */
    int8_t *residual;
} dt__requantizing;

#endif

/* Random numbers for one synthetic example, and arithmetic that gives the same bits on every
 * machine: only + - * / and floor. */
#ifndef DT__DATA_DICE_H
#define DT__DATA_DICE_H

#include "core/core.h"

#include <math.h>

typedef struct dt__dice {
    uint64_t key, next;
    uint32_t word[4];
    int left;
} dt__dice;

/* Example i uses the Philox key in block i of the seed's random stream. */
static inline dt__dice dt__dice_of(uint64_t key, uint64_t i)
{
    uint32_t word[4];
    dt__philox(key, i, word);
    return (dt__dice){ .key = (uint64_t)word[0] << 32 | word[1] };
}

static inline uint32_t dt__roll(dt__dice *d)
{
    if (d->left == 0) {
        dt__philox(d->key, d->next++, d->word);
        d->left = 4;
    }
    return d->word[--d->left];
}

/* Uniform in [low, high). */
static inline float dt__roll_between(dt__dice *d, float low, float high)
{
    return low + (high - low) * dt__unit_f32(dt__roll(d));
}

/* Uniform in 0 ... n-1. */
static inline int dt__roll_below(dt__dice *d, int n)
{
    return (int)(((uint64_t)dt__roll(d) * (uint64_t)n) >> 32);
}

/* Sine of `turns` full turns, by a Taylor polynomial in a quarter turn; error below 1e-9. */
static inline double dt__sine(double turns)
{
    double r = turns - floor(turns + 0.5);
    if (r > 0.25) r = 0.5 - r;
    if (r < -0.25) r = -0.5 - r;
    const double x = 6.283185307179586 * r, z = x * x;
    return x * (1 + z * (-1 / 6.0 +
                         z * (1 / 120.0 + z * (-1 / 5040.0 + z * (1 / 362880.0 +
                                                                  z * (-1 / 39916800.0 +
                                                                       z * (1 / 6227020800.0)))))));
}

static inline double dt__cosine(double turns) { return dt__sine(turns + 0.25); }

#endif

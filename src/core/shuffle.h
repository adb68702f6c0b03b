/* Random orders. */
#ifndef DT__CORE_SHUFFLE_H
#define DT__CORE_SHUFFLE_H

#include "core/core.h"

/* Whether w % n is without bias: w is below the largest multiple of n. */
static inline bool dt__is_fair(uint64_t w, uint64_t n)
{
    return w <= UINT64_MAX - n || w < UINT64_MAX - UINT64_MAX % n;
}

/* A Fisher-Yates shuffle of n numbers: for i = n - 1 ... 1 number i is exchanged with number
 * dt__random_below(s, i + 1). */
void dt__shuffle(dt__stream *s, int64_t n, int64_t *v);

#endif

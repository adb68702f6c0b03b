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

/* An order of 0 ... n - 1 for data that exceeds memory: first shuffles runs of `run` consecutive
 * numbers, then the numbers within each `window` places. A window, a multiple of run, is read as a
 * whole, from window / run places. `runs` has room for ceil(n / run). If the window holds all n,
 * the result is dt__shuffle of 0 ... n - 1, and `runs` is not used. */
void dt__shuffle_runs(dt__stream *s, int64_t n, int64_t run, int64_t window, int64_t *runs,
                      int64_t *v);

#endif

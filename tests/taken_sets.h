#ifndef TEST_TAKEN_SETS_H
#define TEST_TAKEN_SETS_H

#include "testing.h"

#include "kernels/sets.h"

/* Whether a loop over sets of kernels takes this one: the processor runs it. Emulated, it takes
 * those that the processor lacks, since the same suite runs the others without SIMDe; with --all,
 * each. */
static inline bool test_takes_set(const dt__kernel_set *set)
{
#if defined DETENT_EMULATE
    const bool lacking = (set->needs & ~(dt__cpu_has() | DT_CPU_PLAIN)) != 0;
    if (!lacking && !test_all()) return false;
#endif
    return dt__kernel_set_runs(set);
}

#endif

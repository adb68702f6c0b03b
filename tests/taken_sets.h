#ifndef TEST_TAKEN_SETS_H
#define TEST_TAKEN_SETS_H

#include "testing.h"

#include "kernels/sets.h"

/* Whether a loop over sets of kernels includes this one: the processor supports it. When emulated,
 * it includes only those that the processor lacks, since the suite without SIMDe runs the others;
 * with --all, all. */
static inline bool test_takes_set(const dt__kernel_set *set)
{
#if defined DETENT_EMULATE
    const bool lacking = (set->needs & ~(dt__cpu_has() | DT_CPU_PLAIN)) != 0;
    if (!lacking && !test_all()) return false;
#endif
    return dt__kernel_set_runs(set);
}

#endif

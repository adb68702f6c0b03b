/* Kernels that do nothing, to measure what a step costs without them. */
#ifndef DT__BENCH_NOTHING_H
#define DT__BENCH_NOTHING_H

#include "kernels/kernels.h"

extern const dt__kernels dt__kernels_nothing;

#endif

/* Requantization compiled for AVX2. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/sets.h"

#include <math.h>

#define KERNEL(name) dt__##name##__avx2
#include "kernels/products/requantize_row.inc"
#endif

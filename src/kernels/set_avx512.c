/* The kernels of AVX-512 with VNNI: the plain bodies compiled for it, and what is written for it. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/sets.h"

#define SET avx512
#include "kernels/set.inc"

const dt__kernels dt__kernels_avx512 = {
#include "kernels/set_plain.inc"
#include "kernels/avx2.inc"
#include "kernels/avx512.inc"
};
#endif

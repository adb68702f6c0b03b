/* The kernels of AVX2 with 256-bit VNNI: those of AVX2 but for the integer products. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/sets.h"

#define SET avx_vnni
#include "kernels/set.inc"

const dt__kernels dt__kernels_avx_vnni = {
#include "kernels/plain/set_plain.inc"
#include "kernels/x86/avx2.inc"
#include "kernels/x86/avx_vnni.inc"
};
#endif

/* The kernels of AVX2 and FMA: the plain bodies compiled for it, and kernels written for it. Also
 * those of AVX2 with 256-bit VNNI, which differ in integer products only. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/sets.h"

#define SET avx2
#include "kernels/set.inc"

const dt__kernels dt__kernels_avx2 = {
#include "kernels/plain/set_plain.inc"
#include "kernels/x86/avx2.inc"
};

const dt__kernels dt__kernels_avx_vnni = {
#include "kernels/plain/set_plain.inc"
#include "kernels/x86/avx2.inc"
#include "kernels/x86/avx_vnni.inc"
};
#endif

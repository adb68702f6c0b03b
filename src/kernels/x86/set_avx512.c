/* The kernels of AVX-512 with VNNI: the plain bodies compiled for it, and kernels written for it.
 * Also those of AVX-512 BF16 and of AMX-INT8, which differ in products only. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/sets.h"

#define SET avx512
#include "kernels/set.inc"

const dt__kernels dt__kernels_avx512 = {
#include "kernels/plain/set_plain.inc"
#include "kernels/x86/avx2.inc"
#include "kernels/x86/avx512.inc"
};

const dt__kernels dt__kernels_avx512_bf16 = {
#include "kernels/plain/set_plain.inc"
#include "kernels/x86/avx2.inc"
#include "kernels/x86/avx512.inc"
#include "kernels/x86/avx512_bf16.inc"
};

const dt__kernels dt__kernels_amx = {
#include "kernels/plain/set_plain.inc"
#include "kernels/x86/avx2.inc"
#include "kernels/x86/avx512.inc"
#include "kernels/x86/avx512_bf16.inc"
#include "kernels/x86/amx.inc"
};
#endif

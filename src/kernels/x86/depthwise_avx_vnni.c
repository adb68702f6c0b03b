/* A line of a depthwise convolution with AVX-VNNI. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/x86/intrinsics.h"
#include "kernels/sets.h"

#include <string.h>

DT__INLINE_NATIVE __m256i add_words(__m256i sum, __m256i u, __m256i codes)
{
#if defined DETENT_EMULATE
    return _mm256_dpbusd_epi32(sum, u, codes);
#elif defined __clang__
    return _mm256_dpbusd_avx_epi32(sum, u, codes);
#else
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(u), "xm"(codes));
    return sum;
#endif
}

#include "kernels/x86/depthwise_words.inc"

void dt__qd8_depthwise__avx_vnni(const dt__qdepthwise *d) { depthwise_line(d); }
#endif

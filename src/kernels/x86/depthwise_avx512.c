/* A line of a depthwise convolution with AVX-512 VNNI, by vectors of 256 bits. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/x86/intrinsics.h"
#include "kernels/sets.h"

#include <string.h>

DT__INLINE_NATIVE __m256i add_words(__m256i sum, __m256i u, __m256i codes)
{
#if defined DETENT_EMULATE || defined __clang__
    return _mm256_dpbusd_epi32(sum, u, codes);
#else
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(u), "vm"(codes));
    return sum;
#endif
}

#include "kernels/x86/depthwise_words.inc"

void dt__qd8_depthwise__avx512(const dt__qdepthwise *d) { depthwise_line(d); }
#endif

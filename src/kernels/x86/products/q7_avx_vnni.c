/* Products of gradients with AVX-VNNI. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/x86/intrinsics.h"
#include "kernels/sets.h"

#define MOST_ROWS 6
#define COLUMNS(rows) 2
#define EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6)
#include "kernels/x86/products/q7_ymm.inc"

DT__INLINE_NATIVE ints add_words(ints sum, ints u, ints a)
{
#if defined DETENT_EMULATE
    return _mm256_dpbusd_epi32(sum, u, a);
#elif defined __clang__
    return _mm256_dpbusd_avx_epi32(sum, u, a);
#else
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(u), "xm"(a));
    return sum;
#endif
}

#include "kernels/x86/products/q7_tile.inc"
#include "kernels/x86/products/q7_taps_tile.inc"

void dt__q7_gemm__avx_vnni(const dt__q7_product *p) { multiply(p); }
void dt__q7_taps__avx_vnni(const dt__q7_taps *t) { multiply_taps(t); }
#endif

/* Products of gradients with AVX2. vpmaddubsw adds two products of u8 and 7-bit codes, which fit
 * int16 (2 * 63 * 255 = 32130); vpmaddwd by 1 widens the sums. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/x86/intrinsics.h"
#include "kernels/sets.h"

#define Q7_NAME(name) dt__##name##__avx2
#include "kernels/gradients/q7_loops.inc"

#define MOST_ROWS 4
#define COLUMNS(rows) 2
#define EACH_ROWS(X) X(1) X(2) X(3) X(4)
#include "kernels/x86/products/q7_ymm.inc"

DT__INLINE_NATIVE ints add_words(ints sum, ints u, ints a)
{
    const ints pairs = _mm256_maddubs_epi16(u, a);
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

#include "kernels/x86/products/q7_tile.inc"
#include "kernels/x86/products/q7_taps_tile.inc"

void dt__q7_gemm__avx2(const dt__q7_product *p) { multiply(p); }
void dt__q7_taps__avx2(const dt__q7_taps *t) { multiply_taps(t); }
#endif

/* A few rows of floats times packed codes with AVX2. Shifts to the top of the lane and back
 * sign-extend codes. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/x86/intrinsics.h"
#include "core/threads.h"
#include "kernels/sets.h"

#include <string.h>

#include "kernels/x86/floats_avx2.inc"
DT__INLINE floats added(floats a, floats b) { return _mm256_add_ps(a, b); }

/* Column `at` of a step, 0 ... 7, as floats. */
DT__INLINE floats codes_at(int bits, const uint8_t *step, int v, int at)
{
    const int half = at / 4, i = at % 4;
    const uint8_t *from =
        bits == 4 ? step + 32 * v : step + 128 * (v / 2) + 64 * half + 32 * (v % 2);
    const __m256i packed = _mm256_load_si256((const __m256i *)(const void *)from);
    const int above = bits == 4 ? 28 - 8 * i - 4 * half : 24 - 8 * i;
    const __m256i top = above == 0 ? packed : _mm256_slli_epi32(packed, above);
    return _mm256_cvtepi32_ps(_mm256_srai_epi32(top, 32 - bits));
}

DT__INLINE floats load_scales(int dtype, const uint8_t *from, int v)
{
    if (dtype == DT__SCALE_F32) return _mm256_load_ps((const float *)(const void *)from + 8 * v);
    const __m128i half = _mm_load_si128((const __m128i *)(const void *)from + v);
    if (dtype == DT__SCALE_F16) return _mm256_cvtph_ps(half);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

#define KERNEL(name) dt__##name##__avx2
#define COLUMNS(rows) ((rows) == 1 ? 4 : (rows) == 2 ? 2 : 1)
#include "kernels/products/fgemm_tile.inc"
#endif

/* Attention with AVX2 and FMA: the plain bodies with products of eight floats per vector. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/exp.h"
#include "kernels/x86/intrinsics.h"
#include "kernels/sets.h"

#define REAL float
#define KERNEL(name) dt__##name##__avx2
#define LIBM(name) name##f
#define EXP dt__exp_f32

#include "kernels/plain/plain_attention.inc"
#include "kernels/plain/plain_attention_short.inc"
#include "kernels/plain/plain_attention_back.inc"

#include "kernels/x86/floats_avx2.inc"

DT__INLINE floats load_some(int64_t n, const float *x)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const int lanes = n >= VECTOR ? VECTOR : n <= 0 ? 0 : (int)n;
    return _mm256_maskload_ps(x, _mm256_cmpgt_epi32(_mm256_set1_epi32(lanes), lane));
}

DT__INLINE floats load_codes(const int8_t *x)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)x)));
}

#include "kernels/x86/products/tile_vectors.inc"
#endif

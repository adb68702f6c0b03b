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

DT__INLINE __m256i load_bytes(const int8_t *x)
{
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)x));
}

DT__INLINE floats load_codes(const int8_t *x) { return _mm256_cvtepi32_ps(load_bytes(x)); }

DT__INLINE floats load_lower(const int8_t *x)
{
    return _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(load_bytes(x), 28), 28));
}

DT__INLINE floats load_upper(const int8_t *x)
{
    return _mm256_cvtepi32_ps(_mm256_srai_epi32(load_bytes(x), 4));
}

DT__INLINE floats butterfly(floats x, int half)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), bit = _mm256_set1_epi32(half);
    const floats other = _mm256_permutevar8x32_ps(x, _mm256_xor_si256(lane, bit));
    const __m256i upper = _mm256_cmpeq_epi32(_mm256_and_si256(lane, bit), bit);
    return _mm256_blendv_ps(_mm256_add_ps(x, other), _mm256_sub_ps(other, x),
                            _mm256_castsi256_ps(upper));
}

#include "kernels/x86/products/tile_vectors.inc"
#endif

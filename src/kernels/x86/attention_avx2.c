/* Attention with AVX2 and FMA: the plain bodies with products of eight floats per vector. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/exp.h"
#include "kernels/x86/intrinsics.h"
#include "kernels/sets.h"

#define REAL float
#define KERNEL(name) dt__##name##__avx2
#define LIBM(name) name##f
#define EXP dt__exp_f32

#include "kernels/plain_attention.inc"
#include "kernels/plain_attention_short.inc"
#include "kernels/plain_attention_back.inc"

#define VECTOR 8
typedef __m256 floats;
DT__INLINE floats load(const float *x) { return _mm256_loadu_ps(x); }
DT__INLINE void store(float *y, floats x) { _mm256_storeu_ps(y, x); }
DT__INLINE floats set_all(float x) { return _mm256_set1_ps(x); }
DT__INLINE floats fused(floats a, floats b, floats c) { return _mm256_fmadd_ps(a, b, c); }
DT__INLINE floats zero(void) { return _mm256_setzero_ps(); }
DT__INLINE float fold(const floats *sum)
{
    const __m256 eight = _mm256_add_ps(sum[0], sum[1]);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

#include "kernels/x86/tile_vectors.inc"
#endif

/* Attention with AVX-512: the plain bodies with products of sixteen floats per vector. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/exp.h"
#include "kernels/x86/intrinsics.h"
#include "kernels/sets.h"

#define REAL float
#define KERNEL(name) dt__##name##__avx512
#define LIBM(name) name##f
#define EXP dt__exp_f32

#include "kernels/plain/plain_attention.inc"
#include "kernels/plain/plain_attention_short.inc"
#include "kernels/plain/plain_attention_back.inc"

#include "kernels/x86/floats_avx512.inc"

DT__INLINE floats load_some(int64_t n, const float *x)
{
    const unsigned lanes = n >= VECTOR ? 0xffff : n <= 0 ? 0 : (1U << n) - 1;
    return _mm512_maskz_loadu_ps((__mmask16)lanes, x);
}

DT__INLINE floats load_codes(const int8_t *x)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)x)));
}

#include "kernels/x86/products/tile_vectors.inc"
#endif

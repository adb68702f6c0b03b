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

DT__INLINE __m512i load_bytes(const int8_t *x)
{
    return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)x));
}

DT__INLINE floats load_codes(const int8_t *x) { return _mm512_cvtepi32_ps(load_bytes(x)); }

/* Expands sixteen 4-bit codes. The permutation ignores all but the low four bits of an index. */
DT__INLINE floats code_of_bits(__m512i bits)
{
    const floats codes = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1);
    return _mm512_permutexvar_ps(bits, codes);
}

DT__INLINE floats load_lower(const int8_t *x) { return code_of_bits(load_bytes(x)); }

DT__INLINE floats load_upper(const int8_t *x)
{
    return code_of_bits(_mm512_srli_epi32(load_bytes(x), 4));
}

DT__INLINE floats butterfly(floats x, int half)
{
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i bit = _mm512_set1_epi32(half);
    const floats other = _mm512_permutexvar_ps(_mm512_xor_si512(lane, bit), x);
    const __mmask16 upper = _mm512_test_epi32_mask(lane, bit);
    return _mm512_mask_sub_ps(_mm512_add_ps(x, other), upper, other, x);
}

#include "kernels/x86/products/tile_vectors.inc"
#endif

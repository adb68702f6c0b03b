/* Attention with AVX-512: the plain bodies with products of sixteen floats per vector. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/exp.h"
#include "kernels/x86/intrinsics.h"
#include "kernels/sets.h"

#define REAL float
#define KERNEL(name) dt__##name##__avx512
#define LIBM(name) name##f
#define EXP dt__exp_f32

#include "kernels/plain_attention.inc"
#include "kernels/plain_attention_short.inc"
#include "kernels/plain_attention_back.inc"

#define VECTOR 16
typedef __m512 floats;
DT__INLINE floats load(const float *x) { return _mm512_loadu_ps(x); }
DT__INLINE void store(float *y, floats x) { _mm512_storeu_ps(y, x); }
DT__INLINE floats set_all(float x) { return _mm512_set1_ps(x); }
DT__INLINE floats fused(floats a, floats b, floats c) { return _mm512_fmadd_ps(a, b, c); }
DT__INLINE floats zero(void) { return _mm512_setzero_ps(); }
DT__INLINE floats load_some(int64_t n, const float *x)
{
    const unsigned lanes = n >= VECTOR ? 0xffff : n <= 0 ? 0 : (1U << n) - 1;
    return _mm512_maskz_loadu_ps((__mmask16)lanes, x);
}

#include "kernels/x86/tile_vectors.inc"
#endif

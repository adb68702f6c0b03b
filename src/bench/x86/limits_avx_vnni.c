/* The limits of AVX-VNNI: products of bytes summed in 32 bits by vpdpbusd on ymm registers. */
#if defined DETENT_SIMD && defined __x86_64__ && !defined DETENT_EMULATE
#include "bench/limits.h"
#include "kernels/x86/intrinsics.h"

#include <detent/detent.h>

#define VECTOR __m256i
#define VECTOR_F32 __m256
#define VECTOR_F64 __m256d
#define CONSTRAINT "x"
#define ZERO() _mm256_setzero_si256()
#define SPLAT8(i) _mm256_set1_epi8(i)
#define SPLAT_F32(f) _mm256_set1_ps(f)
#define SPLAT_F64(f) _mm256_set1_pd((double)(f))
#define MULTIPLY(acc, u, w)                                                                        \
    __asm__ volatile("%{vex%} vpdpbusd %2, %1, %0" : "+x"(acc) : "x"(u), "x"(w))
#include "bench/x86/limits_vectors.inc"

const dt__limits dt__limits_avx_vnni = { "avx-vnni", DT_CPU_AVX2 | DT_CPU_AVX_VNNI,
                                         INT8_ROUND, F32_ROUND,
                                         F64_ROUND,  int8,
                                         f32,        f64,
                                         read,       copy };
#endif

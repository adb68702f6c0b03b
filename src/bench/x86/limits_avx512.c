/* The limits of AVX-512: products of bytes summed in 32 bits by vpdpbusd on zmm registers. */
#if defined DETENT_SIMD && defined __x86_64__ && !defined DETENT_EMULATE
#include "bench/limits.h"
#include "kernels/x86/intrinsics.h"

#include <detent/detent.h>

#define VECTOR __m512i
#define VECTOR_F32 __m512
#define VECTOR_F64 __m512d
#define CONSTRAINT "v"
#define ZERO() _mm512_setzero_si512()
#define SPLAT8(i) _mm512_set1_epi8(i)
#define SPLAT_F32(f) _mm512_set1_ps(f)
#define SPLAT_F64(f) _mm512_set1_pd((double)(f))
#define MULTIPLY(acc, u, w) __asm__ volatile("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(u), "v"(w))
#include "bench/x86/limits_vectors.inc"

const dt__limits dt__limits_avx512 = { "avx512-vnni", DT_CPU_AVX2 | DT_CPU_AVX512_VNNI,
                                       INT8_ROUND,    F32_ROUND,
                                       F64_ROUND,     int8,
                                       f32,           f64,
                                       read,          copy };

/* Tiles are used for products of bytes; the other limits are those of AVX-512. */
const dt__limits dt__limits_amx = { "amx-int8",
                                    DT_CPU_AVX2 | DT_CPU_AVX512_VNNI | DT_CPU_AMX_INT8,
                                    DT__LIMITS_TILES_ROUND,
                                    F32_ROUND,
                                    F64_ROUND,
                                    dt__limits_tiles,
                                    f32,
                                    f64,
                                    read,
                                    copy };
#endif

/* The intrinsics of an emulating build: SIMDe's, and plain C for those that kernels use and
 * Debian's SIMDe 0.7.4 lacks. A kernel that needs another one adds a line here. Source of the
 * semantics: Intel's Intrinsics Guide. */
#ifndef DT__KERNELS_X86_EMULATED_H
#define DT__KERNELS_X86_EMULATED_H

#include "core/text/half.h"
#include "kernels/products/bf16.h"

#include <math.h>
#include <string.h>

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx2.h>
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>
#include <simde/x86/fma.h>

#define _MM_FROUND_NO_EXC SIMDE_MM_FROUND_NO_EXC

#define _mm256_dpbusd_avx_epi32 _mm256_dpbusd_epi32

/* SIMDe's versions round twice. */
#define DT__FUSED(name, vector)                                                                    \
    static inline vector dt__emulated_##name(vector a, vector b, vector c)                         \
    {                                                                                              \
        float x[sizeof a / 4], y[sizeof a / 4], z[sizeof a / 4];                                   \
        memcpy(x, &a, sizeof a);                                                                   \
        memcpy(y, &b, sizeof a);                                                                   \
        memcpy(z, &c, sizeof a);                                                                   \
        for (size_t i = 0; i < sizeof a / 4; i++) z[i] = fmaf(x[i], y[i], z[i]);                   \
        memcpy(&c, z, sizeof a);                                                                   \
        return c;                                                                                  \
    }

DT__FUSED(fmadd8, __m256)
DT__FUSED(fmadd16, __m512)
#undef _mm256_fmadd_ps
#undef _mm512_fmadd_ps
#define _mm256_fmadd_ps dt__emulated_fmadd8
#define _mm512_fmadd_ps dt__emulated_fmadd16

/* SIMDe's versions neither flush denormal numbers nor fuse. */
#define __m512bh __m512
#define __m256bh __m256i
#undef _mm512_dpbf16_ps
#undef _mm512_cvtneps_pbh
static inline __m512 _mm512_dpbf16_ps(__m512 c, __m512 a, __m512 b)
{
    uint16_t x[32], y[32];
    float z[16];
    memcpy(x, &a, sizeof a);
    memcpy(y, &b, sizeof b);
    memcpy(z, &c, sizeof c);
    for (int i = 0; i < 16; i++) {
        z[i] = dt__bf16_flushed(z[i]);
        for (int k = 2 * i + 1; k >= 2 * i; k--) {
            z[i] = dt__bf16_fused(dt__bf16_flushed(dt__bf16_to_f32(x[k])),
                                  dt__bf16_flushed(dt__bf16_to_f32(y[k])), z[i]);
        }
    }
    memcpy(&c, z, sizeof c);
    return c;
}

static inline __m256i _mm512_cvtneps_pbh(__m512 a)
{
    float x[16];
    uint16_t half[16];
    __m256i y;
    memcpy(x, &a, sizeof a);
    for (int i = 0; i < 16; i++) half[i] = dt__f32_to_bf16(dt__bf16_flushed(x[i]));
    memcpy(&y, half, sizeof y);
    return y;
}

/* SIMDe's versions read elements that the mask excludes. */
#define DT__MASKLOAD(name, vector, type)                                                           \
    static inline vector dt__emulated_##name(const void *from, __m256i mask)                       \
    {                                                                                              \
        int32_t wanted[8];                                                                         \
        type to[8] = { 0 };                                                                        \
        vector y;                                                                                  \
        memcpy(wanted, &mask, sizeof wanted);                                                      \
        for (int i = 0; i < 8; i++) {                                                              \
            if (wanted[i] < 0) memcpy(to + i, (const char *)from + 4 * i, 4);                      \
        }                                                                                          \
        memcpy(&y, to, sizeof y);                                                                  \
        return y;                                                                                  \
    }

#ifndef __mmask16
#define __mmask16 simde__mmask16
#endif

/* Reads the elements whose mask bit is set; the others are 0. */
static inline __m512 dt__emulated_maskz_loadu_ps(__mmask16 mask, const void *from)
{
    float to[16] = { 0 };
    __m512 y;
    for (int i = 0; i < 16; i++) {
        if ((mask >> i & 1) != 0) memcpy(to + i, (const char *)from + 4 * i, 4);
    }
    memcpy(&y, to, sizeof y);
    return y;
}

/* Writes the elements whose mask bit is set. */
static inline void _mm512_mask_storeu_ps(void *to, __mmask16 mask, __m512 x)
{
    float from[16];
    memcpy(from, &x, sizeof from);
    for (int i = 0; i < 16; i++) {
        if ((mask >> i & 1) != 0) memcpy((char *)to + 4 * i, &from[i], 4);
    }
}

/* The same for 16-bit elements. */
static inline void dt__emulated_mask_storeu_epi16(void *to, __mmask16 mask, __m256i x)
{
    uint16_t from[16];
    memcpy(from, &x, sizeof from);
    for (int i = 0; i < 16; i++) {
        if ((mask >> i & 1) != 0) memcpy((char *)to + 2 * i, &from[i], 2);
    }
}
#undef _mm256_mask_storeu_epi16
#define _mm256_mask_storeu_epi16 dt__emulated_mask_storeu_epi16

static inline __m256i dt__emulated_maskz_loadu_epi16(__mmask16 mask, const void *from)
{
    uint16_t to[16] = { 0 };
    __m256i y;
    for (int i = 0; i < 16; i++) {
        if ((mask >> i & 1) != 0) memcpy(to + i, (const char *)from + 2 * i, 2);
    }
    memcpy(&y, to, sizeof y);
    return y;
}
#undef _mm256_maskz_loadu_epi16
#define _mm256_maskz_loadu_epi16 dt__emulated_maskz_loadu_epi16

/* Selects elements of two vectors by index, 0 ... 31. */
static inline __m512 dt__emulated_permutex2var_ps(__m512 a, __m512i places, __m512 b)
{
    float from[32], to[16];
    int32_t place[16];
    memcpy(from, &a, sizeof a);
    memcpy(from + 16, &b, sizeof b);
    memcpy(place, &places, sizeof places);
    for (int i = 0; i < 16; i++) to[i] = from[place[i] & 31];
    memcpy(&a, to, sizeof to);
    return a;
}
#undef _mm512_permutex2var_ps
#define _mm512_permutex2var_ps dt__emulated_permutex2var_ps

#undef _mm512_maskz_loadu_ps
#define _mm512_maskz_loadu_ps dt__emulated_maskz_loadu_ps

DT__MASKLOAD(maskload_ps, __m256, float)
DT__MASKLOAD(maskload_epi32, __m256i, int32_t)
#undef _mm256_maskload_ps
#undef _mm256_maskload_epi32
#define _mm256_maskload_ps dt__emulated_maskload_ps
#define _mm256_maskload_epi32 dt__emulated_maskload_epi32

/* SIMDe's version returns 1 if any lane, rather than every lane, has no common bit. */
static inline int dt__emulated_testz(__m256i a, __m256i b)
{
    uint64_t x[4], y[4], common = 0;
    memcpy(x, &a, sizeof x);
    memcpy(y, &b, sizeof y);
    for (int i = 0; i < 4; i++) common |= x[i] & y[i];
    return common == 0;
}
#undef _mm256_testz_si256
#define _mm256_testz_si256 dt__emulated_testz

/* Defines an intrinsic lane by lane: `value` as a function of v, the lane of x. */
#define DT__LANEWISE(name, result, to_type, argument, from_type, lanes, value)                     \
    static inline result name(argument x)                                                          \
    {                                                                                              \
        from_type from[lanes];                                                                     \
        to_type to[lanes];                                                                         \
        memcpy(from, &x, sizeof from);                                                             \
        for (int i = 0; i < (lanes); i++) {                                                        \
            const from_type v = from[i];                                                           \
            to[i] = (to_type)(value);                                                              \
        }                                                                                          \
        result y;                                                                                  \
        memcpy(&y, to, sizeof y);                                                                  \
        return y;                                                                                  \
    }

DT__LANEWISE(_mm512_cvtepi32_ps, __m512, float, __m512i, int32_t, 16, v)
DT__LANEWISE(_mm512_cvtepi8_epi32, __m512i, int32_t, __m128i, int8_t, 16, v)
DT__LANEWISE(_mm512_cvtps_pd, __m512d, double, __m256, float, 8, v)
DT__LANEWISE(_mm512_cvtepu16_epi32, __m512i, int32_t, __m256i, uint16_t, 16, v)
DT__LANEWISE(_mm512_cvtph_ps, __m512, float, __m256i, uint16_t, 16, dt__f16_to_f32(v))

static inline __m512i _mm512_srai_epi32(__m512i x, unsigned bits)
{
    int32_t lane[16];
    memcpy(lane, &x, sizeof lane);
    for (int i = 0; i < 16; i++) lane[i] = lane[i] >> (bits < 31 ? bits : 31);
    memcpy(&x, lane, sizeof x);
    return x;
}

#endif

/* What SIMDe 0.7.4 lacks, by halves, and fused operations that it rounds twice. For intrinsics.h
 * alone. */
#ifndef DT__KERNELS_EMULATED_H
#define DT__KERNELS_EMULATED_H

#include <math.h>
#include <string.h>

static inline __m512i dt__joined(const __m256i half[2])
{
    __m512i whole;
    memcpy(&whole, half, sizeof whole);
    return whole;
}

static inline __m512 dt__cvtepi32_ps(__m512i x)
{
    __m256i half[2];
    memcpy(half, &x, sizeof half);
    const __m256 y[2] = { _mm256_cvtepi32_ps(half[0]), _mm256_cvtepi32_ps(half[1]) };
    __m512 whole;
    memcpy(&whole, y, sizeof whole);
    return whole;
}

static inline __m512 dt__cvtph_ps(__m256i x)
{
    __m128i half[2];
    memcpy(half, &x, sizeof half);
    const __m256 y[2] = { _mm256_cvtph_ps(half[0]), _mm256_cvtph_ps(half[1]) };
    __m512 whole;
    memcpy(&whole, y, sizeof whole);
    return whole;
}

static inline __m512i dt__cvtepu16_epi32(__m256i x)
{
    __m128i half[2];
    memcpy(half, &x, sizeof half);
    return dt__joined(
        (const __m256i[2]){ _mm256_cvtepu16_epi32(half[0]), _mm256_cvtepu16_epi32(half[1]) });
}

static inline __m512i dt__srai_epi32(__m512i x, unsigned by)
{
    __m256i half[2];
    memcpy(half, &x, sizeof half);
    for (int i = 0; i < 2; i++) half[i] = _mm256_sra_epi32(half[i], _mm_cvtsi32_si128((int)by));
    return dt__joined(half);
}

#define DT__FUSED(name, vector, sign)                                                              \
    static inline vector name(vector a, vector b, vector c)                                        \
    {                                                                                              \
        float x[sizeof a / 4], y[sizeof a / 4], z[sizeof a / 4];                                   \
        memcpy(x, &a, sizeof a);                                                                   \
        memcpy(y, &b, sizeof a);                                                                   \
        memcpy(z, &c, sizeof a);                                                                   \
        for (size_t i = 0; i < sizeof a / 4; i++) z[i] = fmaf(sign x[i], y[i], z[i]);              \
        memcpy(&c, z, sizeof a);                                                                   \
        return c;                                                                                  \
    }
DT__FUSED(dt__fmadd8, __m256, +)
DT__FUSED(dt__fnmadd8, __m256, -)
DT__FUSED(dt__fmadd16, __m512, +)
DT__FUSED(dt__fnmadd16, __m512, -)
#undef DT__FUSED

#undef _mm256_fmadd_ps
#undef _mm256_fnmadd_ps
#undef _mm512_fmadd_ps
#undef _mm512_fnmadd_ps
#define _mm256_fmadd_ps dt__fmadd8
#define _mm256_fnmadd_ps dt__fnmadd8
#define _mm512_fmadd_ps dt__fmadd16
#define _mm512_fnmadd_ps dt__fnmadd16
#define _MM_FROUND_NO_EXC SIMDE_MM_FROUND_NO_EXC
#define _mm512_cvtepi32_ps dt__cvtepi32_ps
#define _mm512_cvtph_ps dt__cvtph_ps
#define _mm512_cvtepu16_epi32 dt__cvtepu16_epi32
#define _mm512_srai_epi32 dt__srai_epi32

#endif

/* Which instructions the inner loops of integer products use, as the compiler's flags allow; all
 * give the same sums. PLAIN_LOOPS chooses C without them. */
#if defined(PLAIN_LOOPS)
#elif defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>
#define LOOPS_MVE
#elif defined(__ARM_NEON) && defined(__ARM_FEATURE_DOTPROD) && !defined(__ARM_BIG_ENDIAN)
#include <arm_neon.h>
#define LOOPS_NEON
static inline int32_t sum_of_lanes(int32x4_t v)
{
    return vgetq_lane_s32(v, 0) + vgetq_lane_s32(v, 1) + vgetq_lane_s32(v, 2) +
           vgetq_lane_s32(v, 3);
}
#elif defined(__ARM_FEATURE_SIMD32) && defined(__ARM_FEATURE_UNALIGNED) &&                         \
    !defined(__ARM_BIG_ENDIAN)
#include <arm_acle.h>
#define LOOPS_DSP
/* Bytes 1 and 3 as two numbers of 16 bits, in one instruction. */
static inline uint32_t odd_bytes(uint32_t four)
{
    uint32_t two;
    __asm__("uxtb16 %0, %1, ror #8" : "=r"(two) : "r"(four));
    return two;
}
static inline int32_t odd_signed_bytes(uint32_t four)
{
    int32_t two;
    __asm__("sxtb16 %0, %1, ror #8" : "=r"(two) : "r"(four));
    return two;
}
#elif defined(__AVX2__)
#include <immintrin.h>
#define LOOPS_AVX2
static inline int32_t sum_of_lanes(__m256i v)
{
    __m128i half = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0x4e));
    half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0xb1));
    return _mm_cvtsi128_si32(half);
}
#endif

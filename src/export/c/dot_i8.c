/* sum of u[k] * q[k], k = 0 ... n - 1, of signed codes q of 8 bits. NEON multiplies u - 128, which
 * has a sign, too, and adds 128 times the sum of q. */
#if defined(LOOPS_DSP)
static int32_t odd_signed_bytes(uint32_t four)
{
    int32_t two;
    __asm__("sxtb16 %0, %1, ror #8" : "=r"(two) : "r"(four));
    return two;
}
#endif

static int32_t dot_i8(const uint8_t *u, const int8_t *q, int32_t n)
{
    int32_t k = 0, sum = 0;
#if defined(LOOPS_MVE)
    for (; k + 7 < n; k += 8) {
        const int16x8_t x = vreinterpretq_s16_u16(vldrbq_u16(u + k));
        sum = vmladavaq_s16(sum, x, vldrbq_s16(q + k));
    }
#elif defined(LOOPS_NEON)
    int32x4_t sums = vdupq_n_s32(0);
    for (; k + 15 < n; k += 16) {
        const int8x16_t codes = vld1q_s8(q + k);
        const uint8x16_t x = veorq_u8(vld1q_u8(u + k), vdupq_n_u8(128));
        sums = vdotq_s32(sums, vreinterpretq_s8_u8(x), codes);
        sums = vdotq_s32(sums, vdupq_n_s8(64), codes);
        sums = vdotq_s32(sums, vdupq_n_s8(64), codes);
    }
    sum = vgetq_lane_s32(sums, 0) + vgetq_lane_s32(sums, 1) + vgetq_lane_s32(sums, 2) +
          vgetq_lane_s32(sums, 3);
#elif defined(LOOPS_DSP)
    for (; k + 3 < n; k += 4) {
        uint32_t four, codes;
        memcpy(&four, u + k, sizeof four);
        memcpy(&codes, q + k, sizeof codes);
        sum = __smlad((int32_t)__uxtb16(four), __sxtb16((int32_t)codes), sum);
        sum = __smlad((int32_t)odd_bytes(four), odd_signed_bytes(codes), sum);
    }
#elif defined(LOOPS_AVX2)
    __m256i sums = _mm256_setzero_si256();
    for (; k + 15 < n; k += 16) {
        const __m256i x =
            _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(u + k)));
        const __m256i codes =
            _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(q + k)));
        sums = _mm256_add_epi32(sums, _mm256_madd_epi16(x, codes));
    }
    sum = sum_of_lanes(sums);
#endif
    for (; k < n; k++) sum += u[k] * q[k];
    return sum;
}

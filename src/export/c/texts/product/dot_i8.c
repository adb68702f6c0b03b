/* sum of u[k] * q[k], k = 0 ... n - 1, of signed codes q of 8 bits. NEON multiplies u - 128, which
 * has a sign, too, and adds 128 times the sum of q. */
static int32_t dot_i8(const uint8_t *u, const int8_t *q, int32_t n)
{
    int32_t sum = 0;
#if defined(LOOPS_MVE)
    for (; n > 7; n -= 8, u += 8, q += 8) {
        sum = vmladavaq_s16(sum, vreinterpretq_s16_u16(vldrbq_u16(u)), vldrbq_s16(q));
    }
#elif defined(LOOPS_NEON)
    int32x4_t wide = vdupq_n_s32(0);
    for (; n > 15; n -= 16, u += 16, q += 16) {
        const int8x16_t codes = vld1q_s8(q);
        const uint8x16_t x = veorq_u8(vld1q_u8(u), vdupq_n_u8(128));
        wide = vdotq_s32(wide, vreinterpretq_s8_u8(x), codes);
        wide = vdotq_s32(wide, vdupq_n_s8(64), codes);
        wide = vdotq_s32(wide, vdupq_n_s8(64), codes);
    }
    sum = sum_of_lanes(wide);
#elif defined(LOOPS_DSP)
    for (; n > 3; n -= 4, u += 4, q += 4) {
        uint32_t four, codes;
        memcpy(&four, u, sizeof four);
        memcpy(&codes, q, sizeof codes);
        sum = __smlad((int32_t)__uxtb16(four), __sxtb16((int32_t)codes), sum);
        sum = __smlad((int32_t)odd_bytes(four), odd_signed_bytes(codes), sum);
    }
#elif defined(LOOPS_AVX2)
    __m256i wide = _mm256_setzero_si256();
    for (; n > 15; n -= 16, u += 16, q += 16) {
        const __m256i x = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)u));
        const __m256i codes =
            _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)q));
        wide = _mm256_add_epi32(wide, _mm256_madd_epi16(x, codes));
    }
    sum = sum_of_lanes(wide);
#endif
    for (; n > 0; n--, u++, q++) sum += u[0] * q[0];
    return sum;
}

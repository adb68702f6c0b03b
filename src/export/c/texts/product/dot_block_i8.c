/* sum of x[k] * q[k], k = 0 ... n - 1, of codes of 8 bits with a sign. */
static int32_t dot_block_i8(const int8_t *x, const int8_t *q, int32_t n)
{
    int32_t sum = 0;
#if defined(LOOPS_MVE)
    for (; n > 15; n -= 16, x += 16, q += 16) {
        sum = vmladavaq_s8(sum, vld1q_s8(x), vld1q_s8(q));
    }
#elif defined(LOOPS_NEON)
    int32x4_t wide = vdupq_n_s32(0);
    for (; n > 15; n -= 16, x += 16, q += 16) wide = vdotq_s32(wide, vld1q_s8(x), vld1q_s8(q));
    sum = sum_of_lanes(wide);
#elif defined(LOOPS_DSP)
    for (; n > 3; n -= 4, x += 4, q += 4) {
        uint32_t four, codes;
        memcpy(&four, x, sizeof four);
        memcpy(&codes, q, sizeof codes);
        sum = __smlad(__sxtb16((int32_t)four), __sxtb16((int32_t)codes), sum);
        sum = __smlad(odd_signed_bytes(four), odd_signed_bytes(codes), sum);
    }
#elif defined(LOOPS_AVX2)
    __m256i wide = _mm256_setzero_si256();
    for (; n > 15; n -= 16, x += 16, q += 16) {
        const __m256i a = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)x));
        const __m256i b = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)q));
        wide = _mm256_add_epi32(wide, _mm256_madd_epi16(a, b));
    }
    sum = sum_of_lanes(wide);
#endif
    for (; n > 0; n--, x++, q++) sum += x[0] * q[0];
    return sum;
}

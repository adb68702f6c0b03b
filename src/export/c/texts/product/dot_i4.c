/* sum of u[k] * q[k], k = 0 ... n - 1, of codes q of 4 bits kept plus 8, two in a byte. Wide loops
 * spread 16 bits as (v | v << 4) & 0x0f0f, so that each byte holds a code; those of Cortex-M
 * multiply pairs: u[k], u[k + 2] by their codes, and u[k + 1], u[k + 3] by 16 times theirs. */
static int32_t dot_i4(const uint8_t *u, const uint8_t *q, int32_t n)
{
#if defined(LOOPS_MVE)
    uint32_t wide = 0;
    for (; n > 15; n -= 16, u += 16, q += 8) {
        const uint16x8_t v = vldrbq_u16(q);
        const uint16x8_t codes = vandq_u16(vorrq_u16(v, vshlq_n_u16(v, 4)), vdupq_n_u16(0x0f0f));
        wide = vmladavaq_u8(wide, vld1q_u8(u), vreinterpretq_u8_u16(codes));
    }
    int32_t sum = (int32_t)wide;
#elif defined(LOOPS_NEON)
    uint32x4_t wide = vdupq_n_u32(0);
    for (; n > 15; n -= 16, u += 16, q += 8) {
        const uint16x8_t v = vmovl_u8(vld1_u8(q));
        const uint16x8_t codes = vandq_u16(vorrq_u16(v, vshlq_n_u16(v, 4)), vdupq_n_u16(0x0f0f));
        wide = vdotq_u32(wide, vld1q_u8(u), vreinterpretq_u8_u16(codes));
    }
    int32_t sum = sum_of_lanes(vreinterpretq_s32_u32(wide));
#elif defined(LOOPS_DSP)
    int32_t even = 0, odd = 0; /* odd: 16 times the sum */
    for (; n > 7; n -= 8, u += 8, q += 4) {
        uint32_t low, high, spread;
        uint16_t codes, next;
        memcpy(&low, u, sizeof low);
        memcpy(&high, u + 4, sizeof high);
        memcpy(&codes, q, sizeof codes);
        memcpy(&next, q + 2, sizeof next);
        spread = codes | (uint32_t)codes << 8;
        even = __smlad((int32_t)__uxtb16(low), (int32_t)(spread & 0x000f000fu), even);
        odd = __smlad((int32_t)odd_bytes(low), (int32_t)(spread & 0x00f000f0u), odd);
        spread = next | (uint32_t)next << 8;
        even = __smlad((int32_t)__uxtb16(high), (int32_t)(spread & 0x000f000fu), even);
        odd = __smlad((int32_t)odd_bytes(high), (int32_t)(spread & 0x00f000f0u), odd);
    }
    int32_t sum = even + (odd >> 4);
#elif defined(LOOPS_AVX2)
    __m256i wide = _mm256_setzero_si256();
    for (; n > 31; n -= 32, u += 32, q += 16) {
        const __m256i v = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)q));
        const __m256i codes = _mm256_and_si256(_mm256_or_si256(v, _mm256_slli_epi16(v, 4)),
                                               _mm256_set1_epi16(0x0f0f));
        const __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)u);
        wide = _mm256_add_epi32(
            wide, _mm256_madd_epi16(_mm256_maddubs_epi16(x, codes), _mm256_set1_epi16(1)));
    }
    int32_t sum = sum_of_lanes(wide);
#else
    int32_t sum = 0;
#endif
    for (; n > 1; n -= 2, u += 2, q++) {
        const int32_t pair = *q;
        sum += u[0] * (pair & 15) + u[1] * (pair >> 4);
    }
    return n > 0 ? sum + u[0] * (*q & 15) : sum;
}

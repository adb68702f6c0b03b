/* sum of x[k] * q[k], k = 0 ... n - 1, of codes x with a sign and codes q of 4 bits kept plus 8,
 * two in a byte. As dot_i4, and 8 is taken from each code, or 8 times the sum of x from the sum. */
static int32_t dot_block_i4(const int8_t *x, const uint8_t *q, int32_t n)
{
#if defined(LOOPS_MVE)
    int32_t sum = 0;
    for (; n > 15; n -= 16, x += 16, q += 8) {
        const uint16x8_t v = vldrbq_u16(q);
        const uint16x8_t codes = vandq_u16(vorrq_u16(v, vshlq_n_u16(v, 4)), vdupq_n_u16(0x0f0f));
        sum = vmladavaq_s8(sum, vld1q_s8(x), vsubq_n_s8(vreinterpretq_s8_u16(codes), 8));
    }
#elif defined(LOOPS_NEON)
    int32x4_t wide = vdupq_n_s32(0);
    for (; n > 15; n -= 16, x += 16, q += 8) {
        const uint16x8_t v = vmovl_u8(vld1_u8(q));
        const uint16x8_t codes = vandq_u16(vorrq_u16(v, vshlq_n_u16(v, 4)), vdupq_n_u16(0x0f0f));
        wide = vdotq_s32(wide, vld1q_s8(x), vsubq_s8(vreinterpretq_s8_u16(codes), vdupq_n_s8(8)));
    }
    int32_t sum = sum_of_lanes(wide);
#elif defined(LOOPS_DSP)
    int32_t even = 0, odd = 0; /* odd: 16 times the sum */
    for (; n > 7; n -= 8, x += 8, q += 4) {
        uint32_t low, high, spread;
        uint16_t codes, next;
        memcpy(&low, x, sizeof low);
        memcpy(&high, x + 4, sizeof high);
        memcpy(&codes, q, sizeof codes);
        memcpy(&next, q + 2, sizeof next);
        spread = codes | (uint32_t)codes << 8;
        even = __smlad(__sxtb16((int32_t)low), __ssub16(spread & 0x000f000f, 0x00080008), even);
        odd = __smlad(odd_signed_bytes(low), __ssub16(spread & 0x00f000f0, 0x00800080), odd);
        spread = next | (uint32_t)next << 8;
        even = __smlad(__sxtb16((int32_t)high), __ssub16(spread & 0x000f000f, 0x00080008), even);
        odd = __smlad(odd_signed_bytes(high), __ssub16(spread & 0x00f000f0, 0x00800080), odd);
    }
    int32_t sum = even + (odd >> 4);
#elif defined(LOOPS_AVX2)
    __m256i wide = _mm256_setzero_si256();
    for (; n > 31; n -= 32, x += 32, q += 16) {
        const __m256i v = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)q));
        const __m256i codes = _mm256_and_si256(_mm256_or_si256(v, _mm256_slli_epi16(v, 4)),
                                               _mm256_set1_epi16(0x0f0f));
        const __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)x);
        const __m256i more = _mm256_maddubs_epi16(_mm256_set1_epi8(8), a);
        const __m256i pairs = _mm256_sub_epi16(_mm256_maddubs_epi16(codes, a), more);
        wide = _mm256_add_epi32(wide, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    }
    int32_t sum = sum_of_lanes(wide);
#else
    int32_t sum = 0;
#endif
    for (; n > 1; n -= 2, x += 2, q++) {
        const int32_t pair = *q;
        sum += x[0] * ((pair & 15) - 8) + x[1] * ((pair >> 4) - 8);
    }
    return n > 0 ? sum + x[0] * ((*q & 15) - 8) : sum;
}

/* sum of u[k] * q[k], k = 0 ... n - 1, of codes q of 4 bits kept plus 8, two in a byte. Wide loops
 * spread 16 bits as (v | v << 4) & 0x0f0f, so that each byte holds a code; those of Cortex-M
 * multiply pairs: u[k], u[k + 2] by their codes, and u[k + 1], u[k + 3] by 16 times theirs. */
static int32_t dot_i4(const uint8_t *u, const uint8_t *q, int32_t n)
{
    int32_t k = 0;
#if defined(LOOPS_MVE)
    uint32_t sum = 0;
    for (; k + 15 < n; k += 16) {
        const uint16x8_t v = vldrbq_u16(q + k / 2);
        const uint16x8_t codes = vandq_u16(vorrq_u16(v, vshlq_n_u16(v, 4)), vdupq_n_u16(0x0f0f));
        sum = vmladavaq_u8(sum, vld1q_u8(u + k), vreinterpretq_u8_u16(codes));
    }
#elif defined(LOOPS_NEON)
    uint32x4_t sums = vdupq_n_u32(0);
    for (; k + 15 < n; k += 16) {
        const uint16x8_t v = vmovl_u8(vld1_u8(q + k / 2));
        const uint16x8_t codes = vandq_u16(vorrq_u16(v, vshlq_n_u16(v, 4)), vdupq_n_u16(0x0f0f));
        sums = vdotq_u32(sums, vld1q_u8(u + k), vreinterpretq_u8_u16(codes));
    }
    uint32_t sum = vgetq_lane_u32(sums, 0) + vgetq_lane_u32(sums, 1) + vgetq_lane_u32(sums, 2) +
                   vgetq_lane_u32(sums, 3);
#elif defined(LOOPS_DSP)
    int32_t even = 0, odd = 0; /* odd: 16 times the sum */
    for (; k + 3 < n; k += 4) {
        uint32_t four, spread;
        uint16_t codes;
        memcpy(&four, u + k, sizeof four);
        memcpy(&codes, q + k / 2, sizeof codes);
        spread = codes | (uint32_t)codes << 8;
        even = __smlad((int32_t)__uxtb16(four), (int32_t)(spread & 0x000f000fu), even);
        odd = __smlad((int32_t)odd_bytes(four), (int32_t)(spread & 0x00f000f0u), odd);
    }
    int32_t sum = even + (odd >> 4);
#elif defined(LOOPS_AVX2)
    __m256i sums = _mm256_setzero_si256();
    for (; k + 31 < n; k += 32) {
        const __m256i v =
            _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(q + k / 2)));
        const __m256i codes = _mm256_and_si256(_mm256_or_si256(v, _mm256_slli_epi16(v, 4)),
                                               _mm256_set1_epi16(0x0f0f));
        const __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)(u + k));
        sums = _mm256_add_epi32(
            sums, _mm256_madd_epi16(_mm256_maddubs_epi16(x, codes), _mm256_set1_epi16(1)));
    }
    int32_t sum = sum_of_lanes(sums);
#else
    int32_t sum = 0;
#endif
    int32_t rest = (int32_t)sum;
    for (q += k / 2; k + 1 < n; k += 2, q++) {
        const int32_t pair = *q;
        rest += u[k] * (pair & 15) + u[k + 1] * (pair >> 4);
    }
    return k < n ? rest + u[k] * (*q & 15) : rest;
}

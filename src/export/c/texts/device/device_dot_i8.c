/* sum of p[k] * q[k], k = 0 ... n - 1, of codes q of 8 bits. */
static int32_t device_dot_i8(const int16_t *p, const int8_t *q, int32_t n)
{
    int32_t sum = 0;
#if defined(LOOPS_MVE)
    for (; n > 7; n -= 8, p += 8, q += 8) {
        sum = vmladavaq_s16(sum, vldrhq_s16(p), vldrbq_s16(q));
    }
#elif defined(LOOPS_DSP)
    for (; n > 3; n -= 4, p += 4, q += 4) {
        uint32_t codes, first, second;
        memcpy(&codes, q, sizeof codes);
        memcpy(&first, p, sizeof first);
        memcpy(&second, p + 2, sizeof second);
        const uint32_t even = (uint32_t)__sxtb16((int32_t)codes);
        const uint32_t odd = (uint32_t)odd_signed_bytes(codes);
        sum = __smlad((int32_t)((even & 0xffffu) | odd << 16), (int32_t)first, sum);
        sum = __smlad((int32_t)(even >> 16 | (odd & 0xffff0000u)), (int32_t)second, sum);
    }
#endif
    for (; n > 0; n--, p++, q++) sum += p[0] * q[0];
    return sum;
}

/* sum of p[k] * q[first + k], k = 0 ... n - 1, of codes q of 4 bits. */
static int32_t device_dot_i4(const int16_t *p, const int8_t *q, int32_t first, int32_t n)
{
    int32_t sum = 0, k = 0;
    if ((first & 1) != 0 && n > 0) sum = p[k++] * code_i4(q, first);
    for (q += (first + 1) >> 1; k + 1 < n; k += 2, q++) {
        sum += p[k] * (((q[0] & 15) ^ 8) - 8) + p[k + 1] * (q[0] >> 4);
    }
    return k < n ? sum + p[k] * code_i4(q, 0) : sum;
}

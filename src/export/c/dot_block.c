/* sum of x[k] * q[k], k = 0 ... n - 1, of codes q of `bits` (2, 4 or 8) bits that begin at a
 * byte. */
static int32_t dot_block(const int8_t *x, const uint8_t *q, int32_t bits, int32_t n)
{
    int32_t sum = 0, k;
    if (bits == 8) {
        for (k = 0; k < n; k++) sum += x[k] * ((const int8_t *)q)[k];
    } else if (bits == 4) {
        for (k = 0; k + 1 < n; k += 2, q++) {
            sum += x[k] * ((*q & 15) - 8) + x[k + 1] * ((*q >> 4) - 8);
        }
        if (k < n) sum += x[k] * ((*q & 15) - 8);
    } else {
        for (k = 0; k < n; k++) sum += x[k] * ((q[k / 4] >> k % 4 * 2 & 3) - 2);
    }
    return sum;
}

/* sum of x[k] * q[k], k = 0 ... n - 1, of codes with a sign on both sides, q of `bits` (2, 4 or 8)
 * bits of a row of w that begin at a byte. */
static int32_t dot_block(const weight_matrix *w, const int8_t *x, const uint8_t *q, int32_t bits,
                         int32_t n)
{
    int32_t sum = 0, k;
    if (bits == 8) return dot_block_i8(x, (const int8_t *)q, n);
    if (bits == 4) return dot_block_i4(x, q, n);
    for (k = 0; k < n; k++) sum += x[k] * ((q[k / 4] >> k % 4 * 2 & 3) * w->step + w->least);
    return sum;
}

/* Softmax of rows of n codes; the result has scale 1/256 and zero point -128. Codes that are
 * `least` or more below the largest count as 0. */
static void device_softmax(const int8_t *x, int32_t rows, int32_t n, int32_t multiplier,
                           int32_t shift, int32_t least, int8_t *y)
{
    for (; rows > 0; rows--, x += n, y += n) {
        int32_t largest = -128, sum = 0, zeros = 0, k;
        for (k = 0; k < n; k++) largest = x[k] > largest ? x[k] : largest;
        for (k = 0; k < n; k++) {
            const int32_t d = x[k] - largest;
            if (d >= least) sum += divided(device_exp(high_mult(d * (1 << shift), multiplier)), 12);
        }
        while (((uint32_t)sum << zeros & 0x80000000u) == 0) zeros++;
        const int32_t share = device_reciprocal((int32_t)(((uint32_t)sum << zeros) - 0x80000000u));
        for (k = 0; k < n; k++) {
            const int32_t d = x[k] - largest;
            const int32_t e = d >= least ? device_exp(high_mult(d * (1 << shift), multiplier)) : 0;
            const int32_t code = divided(high_mult(share, e), 35 - zeros) - 128;
            y[k] = d >= least ? clamped(code, -128, 127) : -128;
        }
    }
}

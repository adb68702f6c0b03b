/* The Fourier transform of n complex numbers at their places, n a power of two; turns [n][2] are
 * exp(-2 pi j i / n). Cooley and Tukey 1965, in fours. */
static void fourier_transform(float *z, int32_t n, const float *turns)
{
    int32_t m = n, i, k;
    while (m % 4 == 0) m /= 4;
    for (i = 0; m == 2 && i < n; i += 2) {
        const fourier_number a = fourier_at(z, i), b = fourier_at(z, i + 1);
        fourier_set(z, i, a.r + b.r, a.i + b.i);
        fourier_set(z, i + 1, a.r - b.r, a.i - b.i);
    }
    for (; m < n; m *= 4) {
        for (i = 0; i < n; i += 4 * m) {
            for (k = 0; k < m; k++) fourier_four(z + 2 * (i + k), m, turns, k * (n / (4 * m)));
        }
    }
}

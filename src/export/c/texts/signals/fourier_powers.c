/* From the transform of z[k] = x[2k] + j x[2k+1], n of them, the powers |X[i]|^2 of the transform
 * of x: at z[2i] for i < n, at z[1] for i = n. joins [n/2][2] are -j exp(-pi j (i + 1) / n). */
static void fourier_powers(float *z, int32_t n, const float *joins)
{
    int32_t i;
    fourier_set(z, 0, fourier_power(z[0] + z[1], 0), fourier_power(z[0] - z[1], 0));
    for (i = 1; i <= n / 2; i++) {
        const fourier_number a = fourier_at(z, i), b = fourier_at(z, n - i);
        const float sum_r = a.r + b.r, sum_i = a.i - b.i;
        fourier_number t;
        t.r = a.r - b.r;
        t.i = a.i + b.i;
        t = fourier_product(t, fourier_at(joins, i - 1));
        z[2 * i] = fourier_power((sum_r + t.r) * 0.5f, (sum_i + t.i) * 0.5f);
        z[2 * (n - i)] = fourier_power((sum_r - t.r) * 0.5f, (t.i - sum_i) * 0.5f);
    }
}

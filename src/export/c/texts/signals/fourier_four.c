/* Transforms of m numbers at 0, m, 2m and 3m become one of 4m, at its number k: `turn` of `turns`
 * is exp(-2 pi j k / (4m)). */
static void fourier_four(float *z, int32_t m, const float *turns, int32_t turn)
{
    const fourier_number a = fourier_at(z, 0);
    const fourier_number b = fourier_product(fourier_at(z, m), fourier_at(turns, turn));
    const fourier_number c = fourier_product(fourier_at(z, 2 * m), fourier_at(turns, 2 * turn));
    const fourier_number d = fourier_product(fourier_at(z, 3 * m), fourier_at(turns, 3 * turn));
    const float even_r = a.r + c.r, even_i = a.i + c.i, odd_r = a.r - c.r, odd_i = a.i - c.i;
    const float sum_r = b.r + d.r, sum_i = b.i + d.i, rest_r = b.r - d.r, rest_i = b.i - d.i;
    fourier_set(z, 0, even_r + sum_r, even_i + sum_i);
    fourier_set(z, m, odd_r + rest_i, odd_i - rest_r);
    fourier_set(z, 2 * m, even_r - sum_r, even_i - sum_i);
    fourier_set(z, 3 * m, odd_r - rest_i, odd_i + rest_r);
}

/* The sums of d and of d^2, d = x - shift, of n values: sixteen partial sums each, in double, which
 * are added in halves. */
static void sum_moments(const float *x, int32_t n, double shift, double *sum)
{
    double first[16], second[16];
    int32_t i, half;
    for (i = 0; i < 16; i++) first[i] = second[i] = 0;
    for (i = 0; i < n; i++) {
        const double d = (double)x[i] - shift;
        first[i % 16] += d;
        second[i % 16] += rounded_double(d * d);
    }
    for (half = 8; half > 0; half /= 2) {
        for (i = 0; i < half; i++) {
            first[i] += first[i + half];
            second[i] += second[i + half];
        }
    }
    sum[0] = first[0];
    sum[1] = second[0];
}

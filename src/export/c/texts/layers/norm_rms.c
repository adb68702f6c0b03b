/* Root mean square norm of each of `rows` rows of n values:
 *     y = x / sqrt(mean of x^2 + eps) * weight
 * The sum is double. weight may be 0. */
static void norm_rms(const float *x, int32_t rows, int32_t n, const float *weight, double eps,
                     float *y)
{
    int32_t row, i;
    for (row = 0; row < rows; row++, x += n, y += n) {
        double lane[8] = { 0, 0, 0, 0, 0, 0, 0, 0 };
        float r;
        for (i = 0; i < n; i++) lane[i % 8] += (double)x[i] * (double)x[i]; /* exact products */
        r = (float)(1.0 / math_sqrt(sum_of_8(lane) / (double)n + eps));
        for (i = 0; i < n; i++) y[i] = rounded(weight ? x[i] * r * weight[i] : x[i] * r);
    }
}

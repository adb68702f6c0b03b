/* Layer norm of each of `rows` rows of n values:
 *     y = (x - mean) / sqrt(variance + eps) * weight + bias
 * Sums are double; the mean is subtracted in two parts. weight and bias may be 0. */
static void norm_layer(const float *x, int32_t rows, int32_t n, const float *weight,
                       const float *bias, double eps, float *y)
{
    int32_t row, i;
    for (row = 0; row < rows; row++, x += n, y += n) {
        const double mean = sum_lanes(x, n) / (double)n;
        const float middle = (float)mean, rest = (float)((double)middle - mean);
        double lane[8] = { 0, 0, 0, 0, 0, 0, 0, 0 };
        float r;
        for (i = 0; i < n; i++) {
            const double d = (double)x[i] - mean;
            lane[i % 8] += rounded_double(d * d);
        }
        r = (float)(1.0 / math_sqrt(sum_of_8(lane) / (double)n + eps));
        for (i = 0; i < n; i++) {
            float v = ((x[i] - middle) + rest) * r;
            if (weight) v *= weight[i];
            v = rounded(v);
            y[i] = bias ? v + bias[i] : v;
        }
    }
}

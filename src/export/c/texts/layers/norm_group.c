/* Group norm: each of `groups` groups of channels, `channels` of n values each, has a mean and a
 * variance.      y = (x - mean) / sqrt(variance + eps) * weight + bias
 * Coefficients are double; weight and bias, of a channel each, may be 0. */
static void norm_group(const float *x, int32_t groups, int32_t channels, int32_t n,
                       const float *weight, const float *bias, double eps, float *y)
{
    const int32_t size = channels * n;
    int32_t group, c;
    for (group = 0; group < groups; group++, x += size, y += size) {
        const double shift = (double)x[0];
        double sum[2], d, variance, mean, rstd, middle;
        sum_moments(x, size, shift, sum);
        d = sum[0] / (double)size;
        variance = sum[1] / (double)size - rounded_double(d * d);
        mean = shift + d;
        middle = (double)(float)mean;
        rstd = 1.0 / math_sqrt((variance < 0 ? 0 : variance) + eps);
        for (c = 0; c < channels; c++) {
            const int32_t at = group * channels + c;
            const double slope = (weight ? (double)weight[at] : 1.0) * rstd;
            const double shifted = rounded_double((middle - mean) * slope);
            const double offset = (bias ? (double)bias[at] : 0.0) + shifted;
            map_line(x + c * n, n, (float)middle, (float)slope, (float)offset, y + c * n);
        }
    }
}

/* The sum of e^(x - base) of n values that are `step` apart, in double: of each 512 in the order of
 * values, or, of more than 32, as eight partial sums. The powers are written to y, unless it is
 * 0. */
static double softmax_powers(const float *x, int32_t n, int32_t step, float base, float *y)
{
    double total = 0;
    int32_t at, i;
    for (at = 0; at < n; at += 512) {
        const int32_t width = n - at < 512 ? n - at : 512;
        double lane[8] = { 0, 0, 0, 0, 0, 0, 0, 0 };
        for (i = 0; i < width; i++) {
            const float power = math_exp(x[(at + i) * step] - base);
            lane[width > 32 ? i % 8 : 0] += (double)power;
            if (y) y[(at + i) * step] = power;
        }
        total += sum_of_8(lane);
    }
    return total;
}

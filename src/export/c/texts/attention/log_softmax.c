/* y = x - log(sum of e^x) along lines of n values: x and y are [outer][n][inner]. */
static void log_softmax(const float *x, int32_t outer, int32_t n, int32_t inner, float *y)
{
    int32_t line, i;
    for (line = 0; line < outer * inner; line++) {
        const int32_t at = line / inner * n * inner + line % inner;
        const float base = softmax_base(x + at, n, inner);
        const double total = softmax_powers(x + at, n, inner, base, 0);
        const float shift = total == 0 ? 0 : (float)math_log(total);
        for (i = 0; i < n; i++) y[at + i * inner] = (x[at + i * inner] - base) - shift;
    }
}

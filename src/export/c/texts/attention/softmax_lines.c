/* y = e^x / (sum of e^x) along lines of n values: x and y are [outer][n][inner]. */
static void softmax(const float *x, int32_t outer, int32_t n, int32_t inner, float *y)
{
    int32_t line, i;
    for (line = 0; line < outer * inner; line++) {
        const int32_t at = line / inner * n * inner + line % inner;
        const float base = softmax_base(x + at, n, inner);
        const double total = softmax_powers(x + at, n, inner, base, y + at);
        const float factor = total == 0 ? 0 : (float)(1.0 / total);
        for (i = 0; i < n; i++) {
            y[at + i * inner] = rounded(y[at + i * inner] * factor);
        }
    }
}

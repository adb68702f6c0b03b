/* y = x (1 + erf(x / sqrt 2)) / 2 of n values. */
static void map_gelu_erf(const float *x, int32_t n, float *y)
{
    int32_t i;
    for (i = 0; i < n; i++) {
        y[i] = rounded(x[i] * math_erfc(-x[i] * 0.70710678118654752440f) / 2.0f);
    }
}

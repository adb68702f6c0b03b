/* y = x / (1 + e^-x) of n values. */
static void map_silu(const float *x, int32_t n, float *y)
{
    int32_t i;
    for (i = 0; i < n; i++) y[i] = rounded(x[i] * math_sigmoid(x[i]));
}

/* y = sum over i of weights[i] parts[i], of top_k parts of n values. */
static void moe_combine(const float *parts, const float *weights, int32_t top_k, int32_t n,
                        float *y)
{
    int32_t i, j;
    for (j = 0; j < n; j++) {
        float sum = rounded(weights[0] * parts[j]);
        for (i = 1; i < top_k; i++) sum += rounded(weights[i] * parts[i * n + j]);
        y[j] = sum;
    }
}

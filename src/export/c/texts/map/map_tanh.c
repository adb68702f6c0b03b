/* y = tanh x of n values. */
static void map_tanh(const float *x, int32_t n, float *y)
{
    int32_t i;
    for (i = 0; i < n; i++) y[i] = math_tanh(x[i]);
}

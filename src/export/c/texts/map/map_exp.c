/* y = e^x of n values. */
static void map_exp(const float *x, int32_t n, float *y)
{
    int32_t i;
    for (i = 0; i < n; i++) y[i] = math_exp(x[i]);
}

/* y = 1 / (1 + e^-x) of n values. */
static void map_sigmoid(const float *x, int32_t n, float *y)
{
    int32_t i;
    for (i = 0; i < n; i++) y[i] = math_sigmoid(x[i]);
}

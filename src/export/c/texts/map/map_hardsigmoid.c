/* y = min(max(x + 3, 0), 6) / 6 */
static void map_hardsigmoid(const float *x, int32_t n, float *y)
{
    int32_t i;
    for (i = 0; i < n; i++) y[i] = relu6_of(x[i] + 3) / 6;
}

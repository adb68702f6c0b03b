/* y = max(x, 0) */
static void map_relu(const float *x, int32_t n, float *y)
{
    int32_t i;
    for (i = 0; i < n; i++) y[i] = x[i] <= 0 ? 0 : x[i];
}

/* y = x where x > 0, else slope * x */
static void map_leaky_relu(const float *x, int32_t n, float slope, float *y)
{
    int32_t i;
    for (i = 0; i < n; i++) y[i] = x[i] > 0 ? x[i] : rounded(slope * x[i]);
}

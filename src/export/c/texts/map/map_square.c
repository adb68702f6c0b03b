/* y = x^2 */
static void map_square(const float *x, int32_t n, float *y)
{
    int32_t i;
    for (i = 0; i < n; i++) y[i] = rounded(x[i] * x[i]);
}

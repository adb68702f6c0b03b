/* y = -x */
static void map_neg(const float *x, int32_t n, float *y)
{
    int32_t i;
    for (i = 0; i < n; i++) y[i] = -x[i];
}

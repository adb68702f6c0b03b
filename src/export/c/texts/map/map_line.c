/* y = (x - middle) * slope + offset: a batch norm in one channel. */
static void map_line(const float *x, int32_t n, float middle, float slope, float offset, float *y)
{
    int32_t i;
    for (i = 0; i < n; i++) y[i] = rounded((x[i] - middle) * slope) + offset;
}

/* y[i] = x[i * step] */
static void copy_steps(const float *x, int32_t step, int32_t n, float *y)
{
    int32_t i;
    for (i = 0; i < n; i++) y[i] = x[i * step];
}

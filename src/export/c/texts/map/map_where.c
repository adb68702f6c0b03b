/* y = x > 0 ? a : b of n values; a and b advance by their steps, 0 or 1. */
static void map_where(const float *x, int32_t n, const float *a, int32_t a_step, const float *b,
                      int32_t b_step, float *y)
{
    int32_t i;
    for (i = 0; i < n; i++) y[i] = x[i] > 0 ? a[i * a_step] : b[i * b_step];
}

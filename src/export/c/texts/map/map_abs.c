/* y = |x| of n values; -0 gives 0. */
static void map_abs(const float *x, int32_t n, float *y)
{
    int32_t i;
    for (i = 0; i < n; i++) y[i] = float_of(bits_of(x[i]) & 0x7fffffffu);
}

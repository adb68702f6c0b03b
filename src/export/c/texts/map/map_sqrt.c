/* y = the square root of x, of n values: the one of double, rounded, is the nearest float. */
static void map_sqrt(const float *x, int32_t n, float *y)
{
    int32_t i;
    for (i = 0; i < n; i++) y[i] = (float)math_sqrt((double)x[i]);
}

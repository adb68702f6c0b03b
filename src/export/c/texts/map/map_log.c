/* y = log x of n values. */
static void map_log(const float *x, int32_t n, float *y)
{
    int32_t i;
    for (i = 0; i < n; i++) {
        const float v = x[i], whole = (float)math_log(v > 0 ? (double)v : 1.0);
        y[i] = v > 0 ? whole : v == 0 ? -1.0f / (v * v) : (v - v) / (v - v);
    }
}

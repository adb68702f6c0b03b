/* y = x where x > 0, else slope * x, for x of [outer][n][inner] and n slopes. */
static void map_prelu(const float *x, int32_t outer, int32_t n, int32_t inner, const float *slope,
                      float *y)
{
    int32_t i, k;
    for (i = 0; i < outer * n; i++, x += inner, y += inner) {
        for (k = 0; k < inner; k++) y[k] = x[k] > 0 ? x[k] : rounded(slope[i % n] * x[k]);
    }
}

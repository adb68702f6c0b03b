/* y = x where x > 0, else alpha * (e^x - 1) */
static void map_elu(const float *x, int32_t n, float alpha, float *y)
{
    int32_t i;
    for (i = 0; i < n; i++) y[i] = x[i] > 0 ? x[i] : rounded(alpha * math_expm1(x[i]));
}

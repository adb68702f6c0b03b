/* y = erf(x) of n values; near 0, where 1 - erfc cancels, by the power series. */
static void map_erf(const float *x, int32_t n, float *y)
{
    int32_t i;
    for (i = 0; i < n; i++) {
        const double v = (double)x[i], s = rounded_double(v * v), far = 1.0 - math_erfc_tail(v);
        const double third = rounded_double(s * 0.11283791670955126);
        const double all = rounded_double(s * (0.37612638903183752 - third));
        const double near = v * (1.12837916709551257390 - all);
        y[i] = (float)(s < 1e-3 ? near : v < 0 ? -far : far);
    }
}

/* erf(x); near 0, where 1 - erfc cancels, by the power series. */
static float math_erf(float x)
{
    const double v = (double)x, s = rounded_double(v * v), far = 1.0 - math_erfc_tail(v);
    const double third = rounded_double(s * 0.11283791670955126);
    const double all = rounded_double(s * (0.37612638903183752 - third));
    const double near = v * (1.12837916709551257390 - all);
    return (float)(s < 1e-3 ? near : v < 0 ? -far : far);
}

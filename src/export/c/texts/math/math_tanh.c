/* tanh x = sign(x) (1 - e) / (1 + e), e = e^(-2|x|); near 0, where that cancels, the series
 * x - x^3/3 + 2 x^5/15. */
static float math_tanh(float x)
{
    const double v = (double)x, a = v < 0 ? -v : v, square = a * a;
    const double e = math_exp_double(-2.0 * (a > 20.0 ? 20.0 : a));
    const double bend = 1.0 / 3 - rounded_double(square * (2.0 / 15));
    const double near_0 = a * (1.0 - rounded_double(square * bend));
    const double y = a < 0.02 ? near_0 : (1.0 - e) / (1.0 + e);
    return (float)(v < 0 ? -y : y);
}

/* e^x for |x| <= 700, in double. */
static double math_exp_double(double x)
{
    double r, shifted;
    const double p = math_exp_reduced(x, &r, &shifted);
    return math_scaled(rounded_double(p * r) + 1.0, shifted);
}

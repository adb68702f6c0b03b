/* e^x - 1 = 2^n (e^r - 1) + (2^n - 1), for x <= 88. */
static float math_expm1(float x)
{
    double r, shifted;
    const double p = math_exp_reduced((double)(x < -40.0f ? -40.0f : x), &r, &shifted);
    const double power = math_scaled(1.0, shifted);
    return (float)(rounded_double(power * (r * p)) + (power - 1.0));
}

/* With n = rne(x / ln 2) and r = x - n ln 2: p such that e^r - 1 = r p, by the power series, for
 * |x| <= 700. The low bits of *shifted are n. */
static double math_exp_reduced(double x, double *r, double *shifted)
{
    const double magic = 0x1.8p52;
    double rest, p = 1.0 / 40320;
    *shifted = rounded_double(x * 1.4426950408889634074) + magic;
    rest = x - rounded_double((*shifted - magic) * 0.69314718055994530942);
    p = rounded_double(p * rest) + 1.0 / 5040;
    p = rounded_double(p * rest) + 1.0 / 720;
    p = rounded_double(p * rest) + 1.0 / 120;
    p = rounded_double(p * rest) + 1.0 / 24;
    p = rounded_double(p * rest) + 1.0 / 6;
    p = rounded_double(p * rest) + 0.5;
    p = rounded_double(p * rest) + 1.0;
    *r = rest;
    return p;
}

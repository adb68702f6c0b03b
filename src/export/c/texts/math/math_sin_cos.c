/* sin x and cos x for |x| < 2^31:
 *     n = rne(x / (pi/2))      r = x - n pi/2, by parts whose products with n are exact
 * and the power series of both at |r| <= pi/4; n decides which is which, and signs. */
static void math_sin_cos(double x, double *sine, double *cosine)
{
    static const double of_sine[6] = { 1.0 / 6227020800, -1.0 / 39916800, 1.0 / 362880,
                                       -1.0 / 5040,      1.0 / 120,       -1.0 / 6 };
    static const double of_cosine[6] = { -1.0 / 87178291200, 1.0 / 479001600, -1.0 / 3628800,
                                         1.0 / 40320,        -1.0 / 720,      1.0 / 24 };
    const double magic = 0x1.8p52;
    const double shifted = rounded_double(x * 0.63661977236758134308) + magic, n = shifted - magic;
    double r = x - rounded_double(n * 0x1.921fb0p0), q, s, c, turn;
    uint64_t quarter;
    int32_t i;
    r -= rounded_double(n * 0x1.5110b0p-22);
    r -= rounded_double(n * 0x1.184690p-44);
    r -= rounded_double(n * 0x1.13198a2e03707p-65);
    q = rounded_double(r * r);
    s = -1.0 / 1307674368000;
    c = 1.0 / 20922789888000;
    for (i = 0; i < 6; i++) {
        s = rounded_double(s * q) + of_sine[i];
        c = rounded_double(c * q) + of_cosine[i];
    }
    s = r + rounded_double(r * (q * s));
    c = 1.0 - (rounded_double(0.5 * q) - rounded_double(q * q * c));
    memcpy(&quarter, &shifted, sizeof quarter);
    if (quarter & 1) {
        turn = s;
        s = c;
        c = turn;
    }
    *sine = quarter & 2 ? -s : s;
    *cosine = (quarter + 1) & 2 ? -c : c;
}

/* 1 - erf |v|, also where that is tiny: for a = |v|
 *     e^(-a^2) p((a - 3) / (a + 3)), p a polynomial. */
static double math_erfc_tail(double v)
{
    static const double factors[13] = {
        -9.984228359755892e-06, -1.1023093082304223e-05, 6.638302371623089e-05,
        4.521968986364729e-05,  -0.0005978930583781629,  0.0007075980175355635,
        0.00426927009303601,    -0.024392467629521544,   0.07166582722202919,
        -0.15011593868546752,   0.24560380200334497,     -0.32623356000439707,
        0.17900115117986248,
    };
    const double size = v < 0 ? -v : v, a = size > 11.0 ? 11.0 : size;
    const double t = (a - 3.0) / (a + 3.0);
    double p = -1.272057613340478e-06;
    int32_t i;
    for (i = 0; i < 13; i++) p = rounded_double(p * t) + factors[i];
    return rounded_double(math_exp_double(-(a * a)) * p);
}

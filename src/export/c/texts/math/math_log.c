/* The logarithm of a normal double x > 0. With x = 2^e m, m in 0.7 ... 1.42, s = (m - 1) / (m + 1):
 *     log x = e ln 2 + 2 s (1 + s^2 / 3 + s^4 / 5 + ...) */
static double math_log(double x)
{
    uint64_t bits, places, above, e;
    double m, power, s, q, p, part;
    int32_t i;
    memcpy(&bits, &x, sizeof bits);
    above = bits - 0x3fe6a09e667f3bcdu;
    e = above & 0xfff0000000000000u;
    bits -= e;
    places = ((above >> 52) ^ 0x800) | 0x4330000000000000u; /* 2^52 + e + 2048, as a double */
    memcpy(&m, &bits, sizeof m);
    memcpy(&power, &places, sizeof power);
    power -= 0x1p52 + 2048.0;
    s = (m - 1.0) / (m + 1.0);
    q = rounded_double(s * s);
    p = 1.0 / 21;
    for (i = 19; i > 1; i -= 2) p = rounded_double(p * q) + 1.0 / i;
    part = rounded_double(2.0 * s * (q * p)) + rounded_double(power * 0x1.ef35793c76730p-45);
    part = 2.0 * s + part;
    return x - x == 0 ? rounded_double(power * 0x1.62e42fefa3800p-1) + part : x;
}

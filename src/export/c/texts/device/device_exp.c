/* e^(a 2^-26), a <= 0, times 2^31: a Taylor series at -1/8 for the part within (-1/4, 0], then a
 * product for each bit of the rest. */
static int32_t device_exp(int32_t a)
{
    static const int32_t power[] = { 1672461947, 1302514674, 790015084, 290630308,
                                     39332535,   720401,     242 };
    const int32_t t = (a & 0xffffff) - 0x1000000, rest = t - a;
    const int32_t x = t * 32 + 0x10000000;
    const int32_t x2 = high_mult(x, x), x3 = high_mult(x2, x), x4 = divided(high_mult(x2, x2), 2);
    const int32_t tail = divided(high_mult(x4 + x3, 715827883) + x2, 1);
    int32_t y = 1895147668 + high_mult(1895147668, x + tail), i;
    if (a == 0) return INT32_MAX;
    for (i = 0; i < 7; i++) {
        if ((rest >> (24 + i) & 1) != 0) y = high_mult(y, power[i]);
    }
    return y;
}

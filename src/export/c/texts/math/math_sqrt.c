/* The square root of x >= 0, rounded to nearest: a root of 54 bits, two bits of x a step, of which
 * the last one rounds. (No root of 54 bits has a square of 54 bits, so there are no halves.) */
static double math_sqrt(double x)
{
    uint64_t bits, digits, root = 0, rest = 0;
    int32_t power, i;
    memcpy(&bits, &x, sizeof bits);
    if (!(x > 0) || bits == 0x7ff0000000000000u) return x == 0 || x > 0 ? x : (x - x) / (x - x);
    power = (int32_t)(bits >> 52) - 1023;
    digits = (bits & 0xfffffffffffffu) | 0x10000000000000u;
    if (power == -1023) { /* a denormal number */
        digits &= 0xfffffffffffffu;
        for (power = -1022; (digits >> 52) == 0; power--) digits <<= 1;
    }
    if (power & 1) digits <<= 1; /* the rest of the power is even */
    for (i = 0; i < 54; i++) {
        rest = rest << 2 | (digits >> 52 & 3);
        digits <<= 2;
        root <<= 1;
        if (rest > root << 1) {
            rest -= root << 1 | 1;
            root++;
        }
    }
    power = (power - (power & 1)) / 2;
    bits = ((root + 1) >> 1) + ((uint64_t)(power + 1022) << 52);
    memcpy(&x, &bits, sizeof x);
    return x;
}

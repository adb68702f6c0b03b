/* x 2^n, where n is in the low bits of `shifted`. */
static double math_scaled(double x, double shifted)
{
    uint64_t n, bits;
    double y;
    memcpy(&n, &shifted, sizeof n);
    memcpy(&bits, &x, sizeof bits);
    bits += n << 52;
    memcpy(&y, &bits, sizeof y);
    return y;
}

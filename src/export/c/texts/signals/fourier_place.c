/* Where number k of n complex ones is put before fourier_transform: the digits of k in base 4, the
 * last in base 2 where n is no power of 4, in reverse. */
static int32_t fourier_place(int32_t n, int32_t k)
{
    int32_t place = 0, m = n;
    while (m > 1) {
        const int32_t base = m % 4 == 0 ? 4 : 2;
        m /= base;
        place += k % base * m;
        k /= base;
    }
    return place;
}

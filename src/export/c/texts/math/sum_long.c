/* The sum of n > 16384 numbers: of at most 256 parts, whose sums are added in pairs. */
static double sum_long(const float *x, int32_t n)
{
    const int32_t even = n / 256 + (n % 256 != 0), size = even > 16384 ? even : 16384;
    double part[256];
    int32_t parts = 0, at, i;
    for (at = 0; n - at > size; at += size) part[parts++] = sum_lanes(x + at, size);
    part[parts++] = sum_lanes(x + at, n - at);
    for (; parts > 1; parts = (parts + 1) / 2) {
        for (i = 0; i < parts / 2; i++) part[i] = part[2 * i] + part[2 * i + 1];
        if (parts % 2 != 0) part[parts / 2] = part[parts - 1];
    }
    return part[0];
}

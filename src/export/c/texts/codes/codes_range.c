/* lo = min(0, least x) and hi = max(0, largest x) of n values. Returns 1 where one of them is not a
 * finite number, else 0. */
static int code_range(const float *x, int32_t n, float *lo, float *hi)
{
    float least = 0, most = 0;
    int bad = 0;
    int32_t i;
    for (i = 0; i < n; i++) {
        const float v = x[i];
        bad |= !(v - v == 0);
        if (v < least) least = v;
        if (v > most) most = v;
    }
    *lo = bad ? 0 : least;
    *hi = bad ? 0 : most;
    return bad;
}

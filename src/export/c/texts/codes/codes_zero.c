/* The zero point of a range: qmin - rne(lo / scale), at most qmax. */
static int32_t zero_of(float lo, float scale, int32_t qmin, int32_t qmax)
{
    const float steps = lo / scale, low = (float)qmin, high = (float)qmax;
    const float zero = low - nearest(steps < -512 ? -512 : steps);
    return (int32_t)(zero > high ? high : zero);
}

/* scale = max(lo / qmin, hi / qmax): no value is clipped. */
static float symmetric_no_clip(float lo, float hi, int32_t qmin, int32_t qmax)
{
    const float below = lo / (float)qmin, above = hi / (float)qmax;
    return below > above ? below : above;
}

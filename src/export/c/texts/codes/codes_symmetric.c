/* scale = max(-lo, hi) / ((qmax - qmin) / 2): the larger half of the range fills half of the
 * codes. */
static float symmetric(float lo, float hi, int32_t qmin, int32_t qmax)
{
    const float half = (float)(qmax - qmin) / 2;
    return (-lo > hi ? -lo : hi) / half;
}

/* scale = (hi - lo) / (qmax - qmin): codes span the whole range. */
static float asymmetric(float lo, float hi, int32_t qmin, int32_t qmax)
{
    return (hi - lo) / (float)(qmax - qmin);
}

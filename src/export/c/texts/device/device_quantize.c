/* clamp(round(x / scale) + zero, -128, 127), halves away from zero; NaN has the code of 0. */
static int8_t device_quantize(float x, float scale, int32_t zero)
{
    const float v = x / scale;
    const float cut = v < -1048576.0f ? -1048576.0f : v > 1048576.0f ? 1048576.0f : v == v ? v : 0;
    const int32_t code = (int32_t)((double)cut + (cut < 0 ? -0.5 : 0.5)) + zero;
    return (int8_t)(code < -128 ? -128 : code > 127 ? 127 : code);
}

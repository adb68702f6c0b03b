/* The nearest value of a float with so many bits of mantissa, this bias and this largest value,
 * ties to even mantissas. */
static float small_rounded(float v, int32_t mantissa, int32_t bias, float most)
{
    const float size = v < 0 ? -v : v, cut = size < most ? size : most;
    const uint32_t least = (uint32_t)(128 - bias) << 23, own = bits_of(cut) & 0x7f800000u;
    const float unit = float_of((own < least ? least : own) + ((uint32_t)(23 - mantissa) << 23));
    const float sum = rounded(cut + unit), whole = sum - unit;
    return v < 0 ? -whole : whole;
}

/* A scale as a number of 16 bits, 5 of them for the exponent: clamped to its normal numbers, and
 * rounded half to even. */
static float scale_f16(float scale)
{
    uint32_t bits;
    if (scale < 0x1p-14f) return 0x1p-14f;
    if (scale > 65504.0f) return 65504.0f;
    bits = bits_of(scale);
    bits += 0xfffu + (bits >> 13 & 1);
    return float_of(bits & ~0x1fffu);
}

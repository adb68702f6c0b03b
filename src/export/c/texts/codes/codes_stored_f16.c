/* A block's scale as a number of 16 bits, 5 of them for the exponent, rounded half to even; above
 * the largest, infinity. */
static float stored_f16(float scale)
{
    uint32_t bits;
    if (scale < 0x1p-14f) return nearest(scale * 0x1p24f) * 0x1p-24f;
    if (scale >= 65520.0f) return float_of(0x7f800000u);
    bits = bits_of(scale);
    bits += 0xfffu + (bits >> 13 & 1);
    return float_of(bits & ~0x1fffu);
}

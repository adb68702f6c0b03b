/* A scale as the upper 16 bits of a float, rounded half to even. */
static float scale_bf16(float scale)
{
    uint32_t bits = bits_of(scale < 0x1p-23f ? 0x1p-23f : scale);
    bits += 0x7fffu + (bits >> 16 & 1);
    return float_of(bits & ~0xffffu);
}

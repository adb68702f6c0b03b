/* A block's scale as the upper 16 bits of a float, rounded half to even. */
static float stored_bf16(float scale)
{
    uint32_t bits = bits_of(scale);
    bits += 0x7fffu + (bits >> 16 & 1);
    return float_of(bits & ~0xffffu);
}

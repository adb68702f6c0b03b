/* v / 2^e, halves away from zero; e = 0 ... 31. */
static int32_t divided(int32_t v, int32_t e)
{
    const int32_t mask = (int32_t)(((uint32_t)1 << e) - 1u);
    return (v >> e) + ((v & mask) > (mask >> 1) + (v < 0));
}

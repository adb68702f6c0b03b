/* Number k of the random numbers of a seed, 0 <= u < 1: those of detent sample. Philox4x32-10
 * (Salmon et al. 2011) with a key mixed from the seed. */
static uint64_t text_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double text_draw(uint64_t seed, uint64_t k)
{
    const uint64_t golden = 0x9e3779b97f4a7c15u;
    const uint64_t key = text_mix(text_mix(seed + golden) + golden * 8);
    uint32_t a = (uint32_t)k, b = (uint32_t)(k >> 32), c = 0, d = 0;
    uint32_t low = (uint32_t)key, high = (uint32_t)(key >> 32);
    int32_t round;
    for (round = 0; round < 10; round++) {
        const uint64_t p = (uint64_t)a * 0xd2511f53u, q = (uint64_t)c * 0xcd9e8d57u;
        a = (uint32_t)(q >> 32) ^ b ^ low;
        c = (uint32_t)(p >> 32) ^ d ^ high;
        b = (uint32_t)q;
        d = (uint32_t)p;
        low += 0x9e3779b9u;
        high += 0xbb67ae85u;
    }
    return (double)(((uint64_t)a << 32 | b) >> 11) * 0x1p-53;
}

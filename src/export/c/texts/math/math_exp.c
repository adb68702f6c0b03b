/* e^x: with n = rne(x / ln 2) and r = x - n ln 2,
 *     e^x = 2^n (1 + (r + r^2 p(r)))
 * n ln 2 is subtracted in two parts, the first of them exact; 2^n is two factors, since it may be
 * no normal float. */
static float math_exp(float x)
{
    const float magic = 0x1.8p23f; /* leaves n in the low bits of a sum */
    const float v = x > 104.0f ? 104.0f : x < -104.0f ? -104.0f : x;
    const float shifted = rounded(v * 1.44269504f) + magic, n = shifted - magic;
    const float r = (v - rounded(n * 0x1.62e4p-1f)) - rounded(n * 0x1.7f7d1cp-20f);
    const int32_t k = (int32_t)bits_of(shifted) - 0x4b400000, half = (k - (k & 1)) / 2;
    float p = 0.0013926184f;
    p = rounded(p * r) + 0.0083631791f;
    p = rounded(p * r) + 0.041666555f;
    p = rounded(p * r) + 0.16666577f;
    p = rounded(p * r) + 0.5f;
    p = (rounded(p * (r * r)) + r) + 1.0f;
    p *= float_of((uint32_t)(half + 127) << 23);
    return rounded(p * float_of((uint32_t)(k - half + 127) << 23));
}

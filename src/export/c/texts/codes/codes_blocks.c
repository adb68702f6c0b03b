/* Codes of n values in blocks of `group`, the last of which may be shorter, by each block's largest
 * magnitude a:  q = rne(x * (most / a))  and the scale  a / most, rounded by stored(). Returns 1
 * where a value, or what a code stands for, is not finite, else 0. */
static int quantize_blocks(const float *x, int32_t n, int32_t group, int32_t most,
                           float (*stored)(float), int8_t *q, float *scales)
{
    int bad = 0;
    int32_t i = 0;
    while (i < n) {
        const int32_t end = n - i > group ? i + group : n;
        float lo, hi, a, scale, inverse;
        bad |= code_range(x + i, end - i, &lo, &hi);
        a = -lo > hi ? -lo : hi;
        scale = stored(a / (float)most);
        inverse = (float)most / a;
        if (scale == 0 || !(inverse <= 0x1.fffffep127f)) scale = inverse = 0;
        bad |= !((float)(most + 1) * scale <= 0x1.fffffep127f);
        for (; i < end && !bad; i++) {
            const float whole = nearest(rounded(x[i] * inverse));
            q[i] = (int8_t)whole;
        }
        i = end;
        *scales++ = scale;
    }
    return bad;
}

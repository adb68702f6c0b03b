/* Codes of n values in blocks of `group`, the last of which may be shorter, and the blocks' scales.
 * Returns 1 where a value, or what a code stands for, is not finite, else 0. */
static int quantize_small(const float *x, int32_t n, int32_t group, const small_format *f,
                          int8_t *q, float *scales)
{
    const float inverse = 1.0f / f->unit;
    int bad = 0;
    int32_t i = 0;
    while (i < n) {
        const int32_t end = n - i > group ? i + group : n;
        float lo, hi, scale;
        bad |= code_range(x + i, end - i, &lo, &hi);
        scale = small_scale(f, -lo > hi ? -lo : hi);
        bad |= !(rounded(f->most * f->unit * scale) <= 0x1.fffffep127f);
        for (; i < end && !bad; i++) {
            const float v = rounded(rounded(x[i] / scale) * inverse);
            q[i] = (int8_t)(small_rounded(v, f->mantissa, f->bias, f->most) * f->unit);
        }
        i = end;
        *scales++ = scale;
    }
    return bad;
}

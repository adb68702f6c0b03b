/* What the codes of n values in blocks of `group` stand for; -0 becomes 0. Returns 1 where a value,
 * or what a code stands for, is not finite, else 0. */
static int round_small(const float *x, int32_t n, int32_t group, const small_format *f, float *y)
{
    int bad = 0;
    int32_t i = 0;
    while (i < n) {
        const int32_t end = n - i > group ? i + group : n;
        float lo, hi, scale;
        bad |= code_range(x + i, end - i, &lo, &hi);
        scale = small_scale(f, -lo > hi ? -lo : hi);
        bad |= !(rounded(f->most * scale) <= 0x1.fffffep127f);
        for (; i < end && !bad; i++) {
            const float v = small_rounded(rounded(x[i] / scale), f->mantissa, f->bias, f->most);
            y[i] = v == 0 ? 0 : rounded(v * scale);
        }
        i = end;
    }
    return bad;
}

/* y = a where a >= 0, else a * slope. */
static void device_prelu(const device_pair *s, const int8_t *a, const int8_t *slope, int32_t n,
                         int8_t *y)
{
    int32_t i;
    for (i = 0; i < n; i++) {
        const int32_t v = a[i] - s->zero_a;
        const int32_t q = v < 0 ? scaled(v * (slope[i] - s->zero_b), s->b, s->shift_b)
                                : scaled(v, s->a, s->shift_a);
        y[i] = clamped(q + s->zero_y, s->least, s->most);
    }
}

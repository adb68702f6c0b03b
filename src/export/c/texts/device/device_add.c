/* y = a + b: both with 20 more bits on one scale, then on that of y. */
static void device_add(const device_pair *s, const int8_t *a, const int8_t *b, int32_t n, int8_t *y)
{
    int32_t i;
    for (i = 0; i < n; i++) {
        const int32_t sum = scaled((a[i] - s->zero_a) * (1 << 20), s->a, s->shift_a) +
                            scaled((b[i] - s->zero_b) * (1 << 20), s->b, s->shift_b);
        y[i] = clamped(scaled(sum, s->y, s->shift_y) + s->zero_y, s->least, s->most);
    }
}

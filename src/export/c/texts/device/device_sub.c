/* y = a - b, as device_add. */
static void device_sub(const device_pair *s, const int8_t *a, const int8_t *b, int32_t n, int8_t *y)
{
    int32_t i;
    for (i = 0; i < n; i++) {
        const int32_t rest = scaled((a[i] - s->zero_a) * (1 << 20), s->a, s->shift_a) -
                             scaled((b[i] - s->zero_b) * (1 << 20), s->b, s->shift_b);
        y[i] = clamped(scaled(rest, s->y, s->shift_y) + s->zero_y, s->least, s->most);
    }
}

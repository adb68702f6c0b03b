/* y = a * b. */
static void device_mul(const device_pair *s, const int8_t *a, const int8_t *b, int32_t n, int8_t *y)
{
    int32_t i;
    for (i = 0; i < n; i++) {
        const int32_t product = (a[i] - s->zero_a) * (b[i] - s->zero_b);
        y[i] = clamped(scaled(product, s->y, s->shift_y) + s->zero_y, s->least, s->most);
    }
}

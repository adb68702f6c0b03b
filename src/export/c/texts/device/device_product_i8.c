/* Outputs `first` ... `first + n - 1` of a weight of 8 bits: y[r] of the codes x - zero in p. */
static void device_product_i8(const device_matrix *w, const int16_t *p, int32_t first, int32_t n,
                              int8_t *y)
{
    int32_t r;
    for (r = first; r < first + n; r++) {
        const int32_t sum = device_dot_i8(p, w->codes + r * w->columns, w->columns) + w->bias[r];
        *y++ = clamped(scaled(sum, w->multiplier[r], w->shift[r]) + w->zero, w->least, w->most);
    }
}

/* The mean of the codes of each window, of padding too, whose codes are `zero`; halves away from
 * zero. */
static void device_average_padded(const device_pool *s, int32_t zero, const int8_t *x, int8_t *y)
{
    int32_t i, j, c, k, l;
    for (i = 0; i < s->out_h; i++) {
        int32_t bottom, right, last, end;
        const int32_t at = i * s->stride_h - s->padding_h;
        const int32_t top = device_window(at, s->kernel_h, s->in_h, &bottom);
        (void)device_window(at, s->kernel_h, s->in_h + s->padding_h, &last);
        for (j = 0; j < s->out_w; j++) {
            const int32_t from = j * s->stride_w - s->padding_w;
            const int32_t left = device_window(from, s->kernel_w, s->in_w, &right);
            (void)device_window(from, s->kernel_w, s->in_w + s->padding_w, &end);
            for (c = 0; c < s->channels; c++) {
                const int32_t n = (last - at) * (end - from);
                int32_t sum = zero * (n - (bottom - top) * (right - left));
                for (k = top; k < bottom; k++) {
                    for (l = left; l < right; l++) {
                        const int32_t code = x[(k * s->in_w + l) * s->channels + c];
                        sum += code;
                    }
                }
                *y++ = clamped((sum > 0 ? sum + n / 2 : sum - n / 2) / n, s->least, s->most);
            }
        }
    }
}

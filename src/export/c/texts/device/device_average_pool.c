/* The mean of the codes of each window that lie in the image, halves away from zero. */
static void device_average_pool(const device_pool *s, const int8_t *x, int8_t *y)
{
    int32_t i, j, c, k, l;
    for (i = 0; i < s->out_h; i++) {
        int32_t bottom, right;
        const int32_t top =
            device_window(i * s->stride_h - s->padding_h, s->kernel_h, s->in_h, &bottom);
        for (j = 0; j < s->out_w; j++) {
            const int32_t left =
                device_window(j * s->stride_w - s->padding_w, s->kernel_w, s->in_w, &right);
            for (c = 0; c < s->channels; c++) {
                const int32_t n = (bottom - top) * (right - left);
                int32_t sum = 0;
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

/* The largest code of each window, whose pixels are gap_h and gap_w apart. */
static void device_max_pool_gaps(const device_pool *s, int32_t gap_h, int32_t gap_w,
                                 const int8_t *x, int8_t *y)
{
    int32_t i, j, c, k, l;
    for (i = 0; i < s->out_h; i++) {
        for (j = 0; j < s->out_w; j++) {
            for (c = 0; c < s->channels; c++) {
                int32_t best = -128;
                for (k = 0; k < s->kernel_h; k++) {
                    const int32_t row = i * s->stride_h - s->padding_h + k * gap_h;
                    for (l = 0; l < s->kernel_w && row >= 0 && row < s->in_h; l++) {
                        const int32_t column = j * s->stride_w - s->padding_w + l * gap_w;
                        if (column >= 0 && column < s->in_w) {
                            const int32_t code = x[(row * s->in_w + column) * s->channels + c];
                            best = code > best ? code : best;
                        }
                    }
                }
                *y++ = clamped(best, s->least, s->most);
            }
        }
    }
}

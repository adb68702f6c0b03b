/* A convolution of each channel by itself; output o reads channel o / (out_c / in_c). Weights of
 * 8 bits are [kernel_h][kernel_w][out_c]. */
static void device_depthwise_i8(const device_shape *s, const device_matrix *w, const int8_t *x,
                                int8_t *y)
{
    int32_t i, j, o, k, l;
    for (i = 0; i < s->out_h; i++) {
        for (j = 0; j < s->out_w; j++) {
            for (o = 0; o < s->out_c; o++) {
                const int8_t *from = x + o / (s->out_c / s->in_c);
                int32_t sum = w->bias[o];
                for (k = 0; k < s->kernel_h; k++) {
                    const int32_t row = i * s->stride_h - s->padding_h + k * s->dilation_h;
                    if (row < 0 || row >= s->in_h) continue;
                    for (l = 0; l < s->kernel_w; l++) {
                        const int32_t at = j * s->stride_w - s->padding_w + l * s->dilation_w;
                        const int32_t tap = (k * s->kernel_w + l) * s->out_c + o;
                        if (at < 0 || at >= s->in_w) continue;
                        sum += (from[(row * s->in_w + at) * s->in_c] - s->zero) * w->codes[tap];
                    }
                }
                *y++ = clamped(scaled(sum, w->multiplier[o], w->shift[o]) + w->zero, w->least,
                               w->most);
            }
        }
    }
}

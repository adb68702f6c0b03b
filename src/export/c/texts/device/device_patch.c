/* What output (i, j) of a group reads, less the zero point: [kernel_h][kernel_w][in_c / groups]. */
static void device_patch(const device_shape *s, const int8_t *x, int32_t group, int32_t i,
                         int32_t j, int16_t *p)
{
    const int32_t channels = s->in_c / s->groups;
    int32_t k, l;
    for (k = 0; k < s->kernel_h; k++) {
        const int32_t row = i * s->stride_h - s->padding_h + k * s->dilation_h;
        for (l = 0; l < s->kernel_w; l++, p += channels) {
            const int32_t at = j * s->stride_w - s->padding_w + l * s->dilation_w;
            if (row < 0 || row >= s->in_h || at < 0 || at >= s->in_w) {
                memset(p, 0, (size_t)channels * sizeof *p);
                continue;
            }
            device_line(x + (row * s->in_w + at) * s->in_c + group * channels, channels, s->zero,
                        p);
        }
    }
}

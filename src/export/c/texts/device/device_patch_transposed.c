/* The same of a transposed convolution: input row r reaches output row r * stride - padding +
 * k * dilation. */
static void device_patch_transposed(const device_shape *s, const int8_t *x, int32_t group,
                                    int32_t i, int32_t j, int16_t *p)
{
    const int32_t channels = s->in_c / s->groups;
    int32_t k, l;
    for (k = 0; k < s->kernel_h; k++) {
        const int32_t row = i + s->padding_h - k * s->dilation_h;
        for (l = 0; l < s->kernel_w; l++, p += channels) {
            const int32_t at = j + s->padding_w - l * s->dilation_w;
            if (row < 0 || row % s->stride_h != 0 || row / s->stride_h >= s->in_h || at < 0 ||
                at % s->stride_w != 0 || at / s->stride_w >= s->in_w) {
                memset(p, 0, (size_t)channels * sizeof *p);
                continue;
            }
            device_line(x + (row / s->stride_h * s->in_w + at / s->stride_w) * s->in_c +
                            group * channels,
                        channels, s->zero, p);
        }
    }
}

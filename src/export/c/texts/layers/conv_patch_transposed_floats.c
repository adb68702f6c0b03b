/* What the kernel reads at output (i, j) of a group of channels of a transposed convolution, as a
 * row of floats: patch[channel * taps + tap]; outside the image, and between pixels, it is 0. */
static void conv_patch_transposed_floats(const conv_shape *c, const float *x, int32_t group,
                                         int32_t i, int32_t j, float *patch)
{
    const int32_t channels = c->in / c->groups, plane = c->in_h * c->in_w;
    int32_t channel, k, l;
    x += group * channels * plane;
    for (channel = 0; channel < channels; channel++, x += plane) {
        for (k = 0; k < c->kernel_h; k++) {
            const int32_t row =
                conv_place_transposed(i, k, c->stride_h, c->padding_h, c->dilation_h, c->in_h);
            for (l = 0; l < c->kernel_w; l++) {
                const int32_t at =
                    conv_place_transposed(j, l, c->stride_w, c->padding_w, c->dilation_w, c->in_w);
                *patch++ = row < 0 || at < 0 ? 0 : x[row * c->in_w + at];
            }
        }
    }
}

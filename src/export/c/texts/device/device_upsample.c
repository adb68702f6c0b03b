/* An image of in_h x in_w pixels resampled to out_h x out_w: pixel (i, j) is x's pixel (floor(i
 * in_h / out_h), floor(j in_w / out_w)). */
static void device_upsample(const int8_t *x, int32_t in_h, int32_t in_w, int32_t channels,
                            int32_t out_h, int32_t out_w, int8_t *y)
{
    int32_t i, j, c;
    for (i = 0; i < out_h; i++) {
        for (j = 0; j < out_w; j++) {
            const int8_t *from = x + (i * in_h / out_h * in_w + j * in_w / out_w) * channels;
            for (c = 0; c < channels; c++) *y++ = from[c];
        }
    }
}

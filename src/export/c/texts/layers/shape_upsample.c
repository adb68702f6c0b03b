/* Planes of in_h x in_w resampled to out_h x out_w: pixel (i, j) is x's pixel (floor(i in_h /
 * out_h), floor(j in_w / out_w)). */
static void upsample(const float *x, int32_t planes, int32_t in_h, int32_t in_w, int32_t out_h,
                     int32_t out_w, float *y)
{
    int32_t plane, i, j;
    for (plane = 0; plane < planes; plane++, x += in_h * in_w) {
        for (i = 0; i < out_h; i++) {
            const float *row = x + i * in_h / out_h * in_w;
            for (j = 0; j < out_w; j++) *y++ = row[j * in_w / out_w];
        }
    }
}

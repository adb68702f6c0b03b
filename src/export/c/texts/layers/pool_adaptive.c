/* The means of bins that divide each plane: bin i of a side has the pixels floor(i in / out) ...
 * ceil((i + 1) in / out) - 1. */
static void adaptive_pool(const float *x, int32_t planes, int32_t in_h, int32_t in_w, int32_t out_h,
                          int32_t out_w, float *y)
{
    int32_t plane, i, j, k;
    for (plane = 0; plane < planes; plane++, x += in_h * in_w) {
        for (i = 0; i < out_h; i++) {
            const int32_t top = i * in_h / out_h, below = ((i + 1) * in_h + out_h - 1) / out_h;
            for (j = 0; j < out_w; j++) {
                const int32_t left = j * in_w / out_w;
                const int32_t width = ((j + 1) * in_w + out_w - 1) / out_w - left;
                double total = 0;
                for (k = top; k < below; k++) total += sum_lanes(x + k * in_w + left, width);
                *y++ = (float)(total / (double)((below - top) * width));
            }
        }
    }
}

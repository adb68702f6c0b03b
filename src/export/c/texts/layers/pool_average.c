/* The mean of each window: its pixels are added to `begin` (a zero) in row order and divided by
 * their number. Padding counts where count_padding is 1. */
static void average_pool(const pool_shape *p, const float *x, float begin, int count_padding,
                         float *y)
{
    const int32_t margin_h = count_padding ? p->padding_h : 0;
    const int32_t margin_w = count_padding ? p->padding_w : 0;
    int32_t plane, i, j, k, l;
    for (plane = 0; plane < p->planes; plane++, x += p->in_h * p->in_w) {
        for (i = 0; i < p->out_h; i++) {
            const int32_t rows =
                pool_counted(i, p->kernel_h, p->stride_h, p->padding_h, p->in_h, margin_h);
            for (j = 0; j < p->out_w; j++) {
                const int32_t columns =
                    pool_counted(j, p->kernel_w, p->stride_w, p->padding_w, p->in_w, margin_w);
                float sum = begin;
                for (k = 0; k < p->kernel_h; k++) {
                    const int32_t row = i * p->stride_h - p->padding_h + k;
                    if (row < 0 || row >= p->in_h) continue;
                    for (l = 0; l < p->kernel_w; l++) {
                        const int32_t at = j * p->stride_w - p->padding_w + l;
                        if (at >= 0 && at < p->in_w) sum += x[row * p->in_w + at];
                    }
                }
                *y++ = sum / (float)(rows * columns);
            }
        }
    }
}

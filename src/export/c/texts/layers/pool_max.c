/* The largest pixel of each window; padding is never chosen. */
static void max_pool(const pool_shape *p, const float *x, float *y)
{
    int32_t plane, i, j, k, l;
    for (plane = 0; plane < p->planes; plane++, x += p->in_h * p->in_w) {
        for (i = 0; i < p->out_h; i++) {
            for (j = 0; j < p->out_w; j++) {
                int first = 1;
                float best = 0;
                for (k = 0; k < p->kernel_h; k++) {
                    const int32_t row = i * p->stride_h - p->padding_h + k * p->dilation_h;
                    if (row < 0 || row >= p->in_h) continue;
                    for (l = 0; l < p->kernel_w; l++) {
                        const int32_t at = j * p->stride_w - p->padding_w + l * p->dilation_w;
                        if (at < 0 || at >= p->in_w) continue;
                        const float v = x[row * p->in_w + at];
                        if (first || !(v <= best)) best = v;
                        first = 0;
                    }
                }
                *y++ = best;
            }
        }
    }
}

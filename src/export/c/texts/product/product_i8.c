/* Rows `first` ... `first + n - 1` of a weight of 8 bits times codes:
 *     acc = -(zero * sums[r]);  for each group  acc = fma(sum of u * q, scale, acc)
 *     y[i * step] = scale of u * acc + bias[r] */
static void product_i8(const weight_matrix *w, const uint8_t *u, const code_grid *g, int32_t first,
                       int32_t n, float *y, int32_t step)
{
    const int32_t groups = (w->columns + w->group - 1) / w->group;
    int32_t r;
    for (r = first; r < first + n; r++, y += step) {
        const int8_t *q = (const int8_t *)w->codes + r * w->columns;
        const float *scale = w->scales + r * groups;
        float acc = -rounded((float)g->zero * w->sums[r]);
        int32_t k = 0, at;
        for (at = 0; at < groups; at++) {
            const int32_t end = w->columns - k > w->group ? k + w->group : w->columns;
            const int32_t sum = dot_i8(u + k, q + k, end - k);
            acc = fma32((float)sum, scale[at], acc);
            k = end;
        }
        acc = rounded(g->scale * acc);
        *y = w->bias ? acc + w->bias[r] : acc;
    }
}

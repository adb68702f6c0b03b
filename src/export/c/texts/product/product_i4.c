/* Rows `first` ... `first + n - 1` of a weight of 4 bits times codes:
 *     acc = -(zero * sums[r]);  for each group  acc = fma(sum of u * q, scale, acc)
 *     y[i * step] = scale of u * acc + bias[r]
 * Codes are kept plus 8, so sum of u * q = sum of u * (q + 8) - 8 * (sum of u), and no code needs a
 * sign. u_sums are the sums of u by groups. */
static void product_i4(const weight_matrix *w, const uint8_t *u, const int32_t *u_sums,
                       const code_grid *g, int32_t first, int32_t n, float *y, int32_t step)
{
    const int32_t stride = (w->columns + 1) / 2, groups = (w->columns + w->group - 1) / w->group;
    int32_t r;
    for (r = first; r < first + n; r++, y += step) {
        const uint8_t *q = w->codes + r * stride;
        const float *scale = w->scales + r * groups;
        float acc = -rounded((float)g->zero * w->sums[r]);
        int32_t k = 0, at;
        for (at = 0; at < groups; at++) {
            const int32_t end = w->columns - k > w->group ? k + w->group : w->columns;
            const int32_t sum = dot_i4(u + k, q + k / 2, end - k) - 8 * u_sums[at];
            acc = fma32((float)sum, scale[at], acc);
            k = end;
        }
        acc = rounded(g->scale * acc);
        *y = w->bias ? acc + w->bias[r] : acc;
    }
}

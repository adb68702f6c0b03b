/* As product_i4 of a weight of 2 bits, four in a byte. */
static void product_i2(const weight_matrix *w, const uint8_t *u, const int32_t *u_sums,
                       const code_grid *g, int32_t first, int32_t n, float *y, int32_t step)
{
    const int32_t stride = (w->columns + 3) / 4, groups = (w->columns + w->group - 1) / w->group;
    int32_t r;
    for (r = first; r < first + n; r++, y += step) {
        const uint8_t *q = w->codes + r * stride;
        const float *scale = w->scales + r * groups;
        float acc = -rounded((float)g->zero * w->sums[r]);
        int32_t k = 0, at;
        for (at = 0; at < groups; at++) {
            const int32_t end = w->columns - k > w->group ? k + w->group : w->columns;
            int32_t sum = 0;
            for (; k + 3 < end; k += 4, q++) {
                const int32_t four = *q;
                sum += u[k] * (four & 3) + u[k + 1] * (four >> 2 & 3);
                sum += u[k + 2] * (four >> 4 & 3) + u[k + 3] * (four >> 6);
            }
            if (k < end) {
                int32_t rest = *q++;
                for (; k < end; k++, rest >>= 2) sum += u[k] * (rest & 3);
            }
            sum = sum * w->step + w->least * u_sums[at];
            acc = fma32((float)sum, scale[at], acc);
        }
        acc = rounded(g->scale * acc);
        *y = w->bias ? acc + w->bias[r] : acc;
    }
}

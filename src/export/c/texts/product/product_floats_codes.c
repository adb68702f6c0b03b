/* Rows `first` ... `first + n - 1` of a weight of codes times floats, a scale once a group:
 *     part[c] = fma(x, q, part[c]) with c = k / 4 % 2, k counted in its group
 *     acc = fma(part[0] + part[1], scale, acc)         y[i * step] = acc + bias[r] */
static void product_floats_codes(const weight_matrix *w, int32_t bits, const float *x,
                                 int32_t first, int32_t n, float *y, int32_t step)
{
    const int32_t groups = (w->columns + w->group - 1) / w->group;
    int32_t r;
    for (r = first; r < first + n; r++, y += step) {
        float acc = 0;
        int32_t k = 0, at;
        for (at = 0; at < groups; at++) {
            const int32_t begin = k;
            const int32_t end = w->columns - k > w->group ? k + w->group : w->columns;
            float part[2] = { 0, 0 };
            for (; k < end; k++) {
                const int32_t c = (k - begin) / 4 % 2;
                const int32_t code = code_at(w, bits, r, k);
                part[c] = fma32(x[k], (float)code, part[c]);
            }
            acc = fma32(part[0] + part[1], w->scales[r * groups + at], acc);
        }
        *y = w->bias ? acc + w->bias[r] : acc;
    }
}

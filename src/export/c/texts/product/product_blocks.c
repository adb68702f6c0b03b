/* Rows `first` ... `first + n - 1` of a weight of `bits` bits times codes in blocks, which are the
 * weight's groups:
 *     acc = 0;  for each group  acc = fma(sum of x * q, scale * (the block's scale), acc)
 *     y[i * step] = acc + bias[r] */
static void product_blocks(const weight_matrix *w, int32_t bits, const int8_t *x,
                           const float *scales, int32_t first, int32_t n, float *y, int32_t step)
{
    const int32_t groups = (w->columns + w->group - 1) / w->group, each = 8 / bits;
    const int32_t stride = (w->columns + each - 1) / each;
    int32_t r, g;
    for (r = first; r < first + n; r++, y += step) {
        const uint8_t *q = w->codes + r * stride;
        const float *scale = w->scales + r * groups;
        float acc = 0;
        for (g = 0; g < groups; g++) {
            const int32_t k = g * w->group;
            const int32_t length = w->columns - k > w->group ? w->group : w->columns - k;
            const int32_t sum = dot_block(w, x + k, q + k / each, bits, length);
            acc = fma32((float)sum, rounded(scale[g] * scales[g]), acc);
        }
        *y = w->bias ? acc + w->bias[r] : acc;
    }
}

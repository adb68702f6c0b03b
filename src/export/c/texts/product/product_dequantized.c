/* Rows `first` ... `first + n - 1` of a weight of codes times floats, by what the codes stand for:
 *     acc = fma(x[k], (q - zero) * scale, acc), k ascending      y[i * step] = acc + bias[r]
 * `zeros` has a zero point for each scale; or is 0. `places` (or 0) is the place where a column is
 * kept. */
static void product_dequantized(const weight_matrix *w, int32_t bits, const int8_t *zeros,
                                const uint16_t *places, const float *x, int32_t first, int32_t n,
                                float *y, int32_t step)
{
    const int32_t groups = (w->columns + w->group - 1) / w->group;
    int32_t r, k;
    for (r = first; r < first + n; r++, y += step) {
        float acc = 0;
        for (k = 0; k < w->columns; k++) {
            const int32_t place = places ? places[k] : k, at = r * groups + place / w->group;
            const int32_t q = code_at(w, bits, r, place) - (zeros ? zeros[at] : 0);
            acc = fma32(x[k], rounded((float)q * w->scales[at]), acc);
        }
        *y = w->bias ? acc + w->bias[r] : acc;
    }
}

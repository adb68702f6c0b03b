/* n rows of a weight of floats times floats:
 *     acc = fma(x[k], w[k], acc), k ascending from 0         y[i * step] = acc + bias[i]
 * bias may be 0. */
static void product_floats(const float *w, const float *bias, int32_t columns, const float *x,
                           int32_t n, float *y, int32_t step)
{
    int32_t r, k;
    for (r = 0; r < n; r++, w += columns, y += step) {
        float acc = 0;
        for (k = 0; k < columns; k++) acc = fma32(x[k], w[k], acc);
        *y = bias ? acc + bias[r] : acc;
    }
}

/* y [m][n] = a [m][k] times b [k][n]: acc = fma(a[i][l], b[l][j], acc), l ascending from 0. */
static void product_matrices(const float *a, const float *b, int32_t m, int32_t k, int32_t n,
                             float *y)
{
    int32_t i, j, l;
    for (i = 0; i < m; i++, a += k) {
        for (j = 0; j < n; j++) {
            float acc = 0;
            for (l = 0; l < k; l++) acc = fma32(a[l], b[l * n + j], acc);
            *y++ = acc;
        }
    }
}

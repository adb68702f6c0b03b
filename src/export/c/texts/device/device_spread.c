/* An image of rows, columns and channels `in`, each as many as in `out` or one, repeated. */
static void device_spread(const int8_t *x, const int32_t in[3], const int32_t out[3], int8_t *y)
{
    int32_t i, j, c;
    for (i = 0; i < out[0]; i++) {
        for (j = 0; j < out[1]; j++) {
            const int32_t row = in[0] > 1 ? i : 0, column = in[1] > 1 ? j : 0;
            const int8_t *from = x + (row * in[1] + column) * in[2];
            for (c = 0; c < out[2]; c++) *y++ = from[in[2] > 1 ? c : 0];
        }
    }
}

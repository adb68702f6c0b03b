/* A padded line y of `out` elements, of the n elements at x; all padding where x is 0. */
static void pad_line(const float *x, int32_t n, int32_t before, int32_t mode, float value,
                     int32_t out, float *y)
{
    int32_t i;
    for (i = 0; i < out; i++) {
        const int32_t k = x ? pad_place(i, n, before, mode) : -1;
        y[i] = k < 0 ? value : x[k];
    }
}

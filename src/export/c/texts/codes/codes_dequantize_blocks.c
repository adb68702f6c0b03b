/* y = q * scale: what n codes in blocks of `group` stand for. */
static void dequantize_blocks(const int8_t *q, int32_t n, int32_t group, const float *scales,
                              float *y)
{
    int32_t i;
    for (i = 0; i < n; i++) y[i] = rounded((float)q[i] * scales[i / group]);
}

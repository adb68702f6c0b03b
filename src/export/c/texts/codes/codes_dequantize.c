/* y = (u - zero) * scale: what n codes stand for. */
static void dequantize(const uint8_t *u, int32_t n, const code_grid *g, float *y)
{
    int32_t i;
    for (i = 0; i < n; i++) y[i] = rounded((float)(u[i] - g->zero) * g->scale);
}

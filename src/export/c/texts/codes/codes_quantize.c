/* u = rne(clamp(x * inverse, low, high)) + zero for n values. */
static void quantize(const float *x, int32_t n, const code_grid *g, uint8_t *u)
{
    const float inverse = g->inverse, low = g->low, high = g->high;
    int32_t i;
    for (i = 0; i < n; i++) {
        float v = rounded(x[i] * inverse);
        if (!(v >= low)) v = low;
        if (v > high) v = high;
        const float whole = nearest(v);
        u[i] = (uint8_t)((int32_t)whole + g->zero);
    }
}

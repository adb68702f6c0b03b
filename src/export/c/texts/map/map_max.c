/* The largest of n elements, `step` apart. */
static float largest(const float *x, int32_t n, int32_t step)
{
    float best = x[0];
    int32_t i;
    for (i = 1; i < n; i++) {
        if (!(x[i * step] <= best)) best = x[i * step];
    }
    return best;
}

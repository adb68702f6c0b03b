/* The largest of n values that are `step` apart, which is subtracted before powers are computed; 0
 * where all are -infinity. */
static float softmax_base(const float *x, int32_t n, int32_t step)
{
    const float least = float_of(0xff800000u);
    float most = least;
    int32_t i;
    for (i = 0; i < n; i++) most = x[i * step] > most ? x[i * step] : most;
    return most == least ? 0 : most;
}

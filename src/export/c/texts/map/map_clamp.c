/* y = min(max(x, least), most) */
static void map_clamp(const float *x, int32_t n, float least, float most, float *y)
{
    int32_t i;
    for (i = 0; i < n; i++) {
        const float v = x[i] < least ? least : x[i];
        y[i] = v > most ? most : v;
    }
}

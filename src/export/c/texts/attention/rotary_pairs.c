/* Rotary positions: pairs (u, v) of each of `heads` heads of `width` values become
 *     (u cos - v sin, u sin + v cos)
 * Pair i is (i, i + pairs) or, with a step of 2, (2i, 2i + 1); other values stay. y may be x. */
static void rotary(const float *x, int32_t heads, int32_t width, int32_t pairs, int32_t step,
                   const float *turn, float *y)
{
    const float *cosine = turn, *sine = turn + pairs;
    const int32_t second = step == 1 ? pairs : 1;
    int32_t h, i;
    for (h = 0; h < heads; h++, x += width, y += width) {
        for (i = 0; i < pairs; i++) {
            const float u = x[i * step], v = x[i * step + second];
            y[i * step] = rounded(u * cosine[i]) - rounded(v * sine[i]);
            y[i * step + second] = rounded(u * sine[i]) + rounded(v * cosine[i]);
        }
        for (i = 2 * pairs; i < width; i++) y[i] = x[i];
    }
}

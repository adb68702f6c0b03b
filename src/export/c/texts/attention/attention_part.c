/* Attention of one head over the keys from ... to - 1, up to each multiple of 64 at a time. With m
 * the largest score s so far and m' the largest one with the next keys,
 *     sum = sum e^(m - m') + sum of e^(s - m')       y = y e^(m - m') + sum of e^(s - m') v
 * y still is to be divided by *sum; *most becomes m. */
static void attention_part(const attention_shape *a, const float *q, const float *k, const float *v,
                           int32_t from, int32_t to, float *most, float *sum, float *y)
{
    const float least = float_of(0xff800000u); /* -infinity */
    const int32_t width = a->width;
    float score[64];
    int32_t at, n, i, j;
    *most = least;
    *sum = 0;
    for (i = 0; i < width; i++) y[i] = 0;
    for (at = from; at < to; at += n) {
        float lane[16] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
        float largest = *most, base, factor;
        n = 64 - at % 64;
        if (to - at < n) n = to - at;
        for (j = 0; j < n; j++) {
            score[j] = attention_score(q, k + (at + j) * width, width);
            if (score[j] > largest) largest = score[j];
        }
        base = largest == least ? 0 : largest;
        for (j = 0; j < n; j++) {
            score[j] = math_exp(score[j] - base);
            lane[(at + j) % 16] += score[j];
        }
        factor = math_exp(*most - base);
        *sum = rounded(*sum * factor) + attention_fold(lane);
        for (i = 0; i < width && *most != largest; i++) y[i] = rounded(y[i] * factor);
        *most = largest;
        for (j = 0; j < n; j++) {
            const float *row = v + (at + j) * width;
            for (i = 0; i < width; i++) y[i] = fma32(score[j], row[i], y[i]);
        }
    }
}

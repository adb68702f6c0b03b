/* y = softmax(scale q k^T) v of each head, over n keys and values. Query head h reads head
 * h / (heads / kv_heads) of k and v. Sums of 512 keys at a time are joined. room: 2 * width
 * values. */
static void attention(const attention_shape *a, const float *q, const float *k, const float *v,
                      int32_t n, float *room, float *y)
{
    const int32_t width = a->width, head = a->capacity * width;
    const int32_t begin = a->window > 0 && n > a->window ? n - a->window : 0;
    float *second = room + width;
    int32_t h, i, at;
    for (h = 0; h < a->heads; h++, q += width, y += width) {
        const int32_t group = h / (a->heads / a->kv_heads);
        float most = 0, sum = 0, factor;
        int seen;
        for (i = 0; i < width; i++) room[i] = q[i] * a->scale;
        for (at = begin - begin % 512; at < n; at += 512) {
            const int32_t from = at < begin ? begin : at, end = n - at < 512 ? n : at + 512;
            const float *keys = k + group * head, *values = v + group * head;
            if (from == begin) {
                attention_part(a, room, keys, values, from, end, &most, &sum, y);
            } else {
                float most_2, sum_2;
                attention_part(a, room, keys, values, from, end, &most_2, &sum_2, second);
                attention_join(&most, &sum, y, most_2, sum_2, second, width);
            }
        }
        seen = sum != 0; /* one score is above -infinity, or NaN */
        factor = 1.0f / sum;
        for (i = 0; i < width; i++) y[i] = seen ? rounded(y[i] * factor) : 0;
    }
}

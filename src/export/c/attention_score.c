/* The sum of q k over n values, as 1 or 16 partial sums. */
static float attention_score(const float *q, const float *k, int32_t n, int32_t lanes)
{
    float lane[16] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
    int32_t i;
    for (i = 0; i < n; i++) lane[i & (lanes - 1)] = fma32(q[i], k[i], lane[i & (lanes - 1)]);
    return attention_fold(lane, lanes);
}

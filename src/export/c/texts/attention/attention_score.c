/* The sum of q k over n values, in order. */
static float attention_score(const float *q, const float *k, int32_t n)
{
    float sum = 0;
    int32_t i;
    for (i = 0; i < n; i++) sum = fma32(q[i], k[i], sum);
    return sum;
}

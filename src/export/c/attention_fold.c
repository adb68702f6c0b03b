/* The sum of n values, a power of 2, in halves; the values are lost. */
static float attention_fold(float *lane, int32_t n)
{
    int32_t i;
    for (n /= 2; n > 0; n /= 2) {
        for (i = 0; i < n; i++) lane[i] += lane[i + n];
    }
    return lane[0];
}

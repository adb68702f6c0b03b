/* The sum of 16 values, in halves; the values are lost. */
static float attention_fold(float *lane)
{
    int32_t i, n;
    for (n = 8; n > 0; n /= 2) {
        for (i = 0; i < n; i++) lane[i] += lane[i + n];
    }
    return lane[0];
}

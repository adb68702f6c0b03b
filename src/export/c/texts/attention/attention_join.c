/* Adds what attention_part made of other keys, the second ones, to the first. */
static void attention_join(float *most, float *sum, float *y, float most_2, float sum_2,
                           const float *y_2, int32_t n)
{
    const float least = float_of(0xff800000u), largest = most_2 > *most ? most_2 : *most;
    const float base = largest == least ? 0 : largest;
    const float before = math_exp(*most - base), factor = math_exp(most_2 - base);
    int32_t i;
    *sum = rounded(*sum * before) + rounded(sum_2 * factor);
    for (i = 0; i < n; i++) y[i] = rounded(y[i] * before) + rounded(y_2[i] * factor);
    *most = largest;
}

/* y = a - b; a step of 0 repeats an operand. */
static void map_sub(const float *a, int32_t a_step, const float *b, int32_t b_step, int32_t n,
                    float *y)
{
    int32_t i;
    for (i = 0; i < n; i++) y[i] = a[i * a_step] - b[i * b_step];
}

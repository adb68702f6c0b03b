/* y = a >= b ? 1 : 0; a step of 0 repeats an operand. */
static void map_not_less(const float *a, int32_t a_step, const float *b, int32_t b_step, int32_t n,
                         float *y)
{
    int32_t i;
    for (i = 0; i < n; i++) {
        const float p = a[i * a_step], q = b[i * b_step];
        y[i] = p >= q ? 1.0f : 0.0f;
    }
}

/* y = b where a > 0; other elements stay. A step of 0 repeats an operand. */
static void map_where(const float *a, int32_t a_step, const float *b, int32_t b_step, int32_t n,
                      float *y)
{
    int32_t i;
    for (i = 0; i < n; i++) {
        if (a[i * a_step] > 0) y[i] = b[i * b_step];
    }
}

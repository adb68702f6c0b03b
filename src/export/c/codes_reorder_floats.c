/* to[i] = x[order[i]]: the order in which a weight's columns are kept. */
static void reorder_floats(const float *x, const uint16_t *order, int32_t n, float *to)
{
    int32_t i;
    for (i = 0; i < n; i++) to[i] = x[order[i]];
}

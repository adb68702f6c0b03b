/* to[places[i]] = x[i]: the order in which a weight's columns are kept. */
static void scatter_floats(const float *x, const uint16_t *places, int32_t n, float *to)
{
    int32_t i;
    for (i = 0; i < n; i++) to[places[i]] = x[i];
}

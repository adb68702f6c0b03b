/* to[i] = u[order[i]]: the order in which a weight's columns are kept. */
static void reorder(const uint8_t *u, const uint16_t *order, int32_t n, uint8_t *to)
{
    int32_t i;
    for (i = 0; i < n; i++) to[i] = u[order[i]];
}

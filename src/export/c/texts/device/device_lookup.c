/* A function of each code, whose results for -128 ... 127 are in a table. */
static void device_lookup(const int8_t *table, const int8_t *x, int32_t n, int8_t *y)
{
    int32_t i;
    for (i = 0; i < n; i++) y[i] = table[x[i] + 128];
}

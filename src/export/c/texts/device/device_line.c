/* p[k] = x[k] - zero. */
static void device_line(const int8_t *x, int32_t n, int32_t zero, int16_t *p)
{
    int32_t k;
    for (k = 0; k < n; k++) p[k] = (int16_t)(x[k] - zero);
}

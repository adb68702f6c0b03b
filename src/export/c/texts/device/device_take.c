/* `rows` rows of n codes from the beginnings of rows of `width`. */
static void device_take(const int8_t *x, int32_t rows, int32_t n, int32_t width, int8_t *y)
{
    for (; rows > 0; rows--, x += width, y += n) memcpy(y, x, (size_t)n);
}

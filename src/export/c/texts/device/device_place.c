/* `rows` rows of n codes into the beginnings of rows of `width`. */
static void device_place(const int8_t *x, int32_t rows, int32_t n, int32_t width, int8_t *y)
{
    for (; rows > 0; rows--, x += n, y += width) memcpy(y, x, (size_t)n);
}

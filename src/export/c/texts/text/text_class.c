/* The class of a character: 2 a letter, 4 a number, 8 white space, 16 the end of a line, 1 other.
 * `ranges` are, above ASCII, first characters of runs of one class: character * 32 + class. */
static int32_t text_class(const uint32_t *ranges, int32_t n, uint32_t c)
{
    int32_t low = 0, high = n;
    if (c < 128) {
        if ((c | 32) - 'a' < 26u) return 2;
        if (c - '0' < 10u) return 4;
        if (c == '\r' || c == '\n') return 16;
        return c == ' ' || c - '\t' < 5u ? 8 : 1;
    }
    while (high - low > 1) {
        const int32_t middle = low + (high - low) / 2;
        if (ranges[middle] / 32 <= c) low = middle;
        else high = middle;
    }
    return (int32_t)(ranges[low] % 32);
}

/* Whether a text means missing: empty, NA, NaN, NULL or ?, in any case. */
static int column_missing(const char *text)
{
    static const char *const words[] = { "", "na", "nan", "null", "?" };
    int32_t i;
    for (i = 0; i < 5; i++) {
        const char *a = words[i], *b = text;
        while (*a != 0 && *a == (*b >= 'A' && *b <= 'Z' ? *b - 'A' + 'a' : *b)) {
            a++;
            b++;
        }
        if (*a == 0 && *b == 0) return 1;
    }
    return 0;
}

/* Whether a text means missing: empty, NA, NaN, NULL or ?, in any case, and blanks at its ends. */
static int column_missing(const char *text)
{
    static const char *const words[] = { "", "na", "nan", "null", "?" };
    int32_t i;
    while (*text == ' ' || *text == '\t') text++;
    for (i = 0; i < 5; i++) {
        const char *a = words[i], *b = text;
        while (*a != 0 && *a == (*b >= 'A' && *b <= 'Z' ? *b - 'A' + 'a' : *b)) {
            a++;
            b++;
        }
        while (*b == ' ' || *b == '\t') b++;
        if (*a == 0 && *b == 0) return 1;
    }
    return 0;
}

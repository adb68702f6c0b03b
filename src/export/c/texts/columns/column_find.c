/* The number of a text, without blanks at its ends, among n words, from 1; 0: it is no word. */
static int column_find(const char *const *words, int32_t n, const char *text)
{
    int32_t i;
    while (*text == ' ' || *text == '\t') text++;
    for (i = 0; i < n; i++) {
        const char *a = words[i], *b = text;
        while (*a != 0 && *a == *b) {
            a++;
            b++;
        }
        while (*b == ' ' || *b == '\t') b++;
        if (*a == 0 && *b == 0) return i + 1;
    }
    return 0;
}

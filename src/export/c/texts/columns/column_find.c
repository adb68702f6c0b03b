/* The number of a text among n words, from 1; 0: it is none of them. */
static int column_find(const char *const *words, int32_t n, const char *text)
{
    int32_t i;
    for (i = 0; i < n; i++) {
        const char *a = words[i], *b = text;
        while (*a != 0 && *a == *b) {
            a++;
            b++;
        }
        if (*a == *b) return i + 1;
    }
    return 0;
}

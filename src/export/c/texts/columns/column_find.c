/* The number of a text among n words, from 1; 0: it is none of them; -1: it is empty. */
static int column_find(const char *const *words, int32_t n, const char *text)
{
    int32_t i;
    if (text[0] == 0) return -1;
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

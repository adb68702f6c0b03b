/* The length of 's 't 're 've 'm 'll 'd, with `any_case` of 'S and so on too; 0: none. */
static int32_t text_contraction(const uint8_t *p, const uint8_t *end, int any_case)
{
    static const char tails[7][3] = { "s", "t", "re", "ve", "m", "ll", "d" };
    int32_t i, k;
    if (*p != '\'') return 0;
    for (i = 0; i < 7; i++) {
        for (k = 0; tails[i][k] != 0 && p + 1 + k < end; k++) {
            const int32_t c = p[1 + k];
            if ((any_case && c < 0x80 ? c | 32 : c) != tails[i][k]) break;
        }
        if (tails[i][k] == 0) return 1 + k;
    }
    /* a long s is an s in another case */
    return any_case && end - p > 2 && p[1] == 0xc5 && p[2] == 0xbf ? 3 : 0;
}

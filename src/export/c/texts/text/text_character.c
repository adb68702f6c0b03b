/* The length of the UTF-8 character at p, and its code point; 0 where it is not UTF-8. */
static int32_t text_character(const uint8_t *p, const uint8_t *end, uint32_t *code)
{
    static const uint32_t least[5] = { 0, 0, 0x80, 0x800, 0x10000 };
    const int32_t n = *p < 0x80 ? 1 : *p < 0xc2 ? 0 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : 4;
    int32_t i;
    *code = *p & (n == 1 ? 0x7fu : 0xffu >> (n + 1));
    if (n == 0 || *p > 0xf4 || end - p < n) return 0;
    for (i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0;
        *code = *code << 6 | (p[i] & 0x3fu);
    }
    return *code < least[n] || *code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000) ? 0 : n;
}

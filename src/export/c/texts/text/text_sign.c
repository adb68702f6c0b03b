/* The bytes of a space at p: of ' ', or of U+2581, which tokens have for it; 0: there is none. */
static int32_t text_sign(const uint8_t *p, const uint8_t *end)
{
    if (*p == ' ') return 1;
    return end - p >= 3 && p[0] == 0xe2 && p[1] == 0x96 && p[2] == 0x81 ? 3 : 0;
}

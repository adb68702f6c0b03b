/* The tokens of n bytes of text, one for each character; returns how many, or -1 where there is no
 * room, or a character is no token. */
static int32_t text_encode_characters(const text_tokens *k, const uint8_t *p, int32_t n,
                                      int32_t *ids, int32_t most)
{
    const uint8_t *const end = p + n;
    int32_t count = 0;
    while (p < end) {
        uint32_t code;
        const int32_t length = text_character(p, end, &code);
        const int32_t id = length > 0 ? text_find(k, p, length) : -1;
        if (id < 0 || count == most) return -1;
        ids[count++] = id;
        p += length;
    }
    return count;
}

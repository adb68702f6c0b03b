/* The token of a character of n bytes (0: no UTF-8), or those of its bytes, behind `count` tokens.
 * Returns how many there are then; -1 where there is no room. */
static int32_t text_put_character(const text_bpe *b, const text_tokens *k, const uint8_t *p,
                                  int32_t n, int32_t *ids, int32_t count, int32_t most)
{
    static const uint8_t sign[3] = { 0xe2, 0x96, 0x81 };
    const int32_t id = n > 0 ? text_find(k, p, n) : -1;
    int32_t i;
    if (*p == ' ' && id < 0) {
        p = sign;
        n = 3;
    }
    if (n == 0) n = 1;
    if (most - count < (id >= 0 ? 1 : n)) return -1;
    if (id >= 0) ids[count++] = id;
    for (i = 0; id < 0 && i < n; i++) ids[count++] = b->byte[p[i]];
    return count;
}

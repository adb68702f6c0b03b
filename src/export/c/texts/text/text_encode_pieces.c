/* The tokens of n bytes of text in a vocabulary of sentencepiece, at most `most`; returns how many,
 * or -1 where there is no room for one of each character or, where it has no token, each byte.
 * prefix: a space is put before a text (1), or before one that begins with none (2). cut: each
 * space begins a piece, within which tokens are merged; otherwise the text is one. */
static int32_t text_encode_pieces(const text_bpe *b, const text_tokens *k, int prefix, int cut,
                                  const uint8_t *p, int32_t n, int32_t *ids, int32_t most)
{
    static const uint8_t space[1] = { ' ' };
    const uint8_t *const end = p + n;
    int32_t count = 0, first = 0; /* the first token of this piece */
    if (n == 0) return 0;
    if (prefix == 1 || (prefix == 2 && text_sign(p, end) == 0)) {
        count = text_put_character(b, k, space, 1, ids, count, most);
    }
    while (p < end && count >= 0) {
        uint32_t code;
        const int32_t sign = text_sign(p, end), length = text_character(p, end, &code);
        if (sign > 0 && cut) count = first += text_merge_all(b, ids + first, count - first);
        count =
            text_put_character(b, k, sign > 0 ? space : p, sign > 0 ? 1 : length, ids, count, most);
        p += length > 0 ? length : 1;
    }
    return count < 0 ? -1 : first + text_merge_all(b, ids + first, count - first);
}

/* The tokens of n bytes of text, at most `most`; returns how many, or -1 where there is no room. */
static int32_t text_encode_bpe(const text_bpe *b, const text_tokens *k, const uint8_t *p, int32_t n,
                               int32_t *ids, int32_t most)
{
    const uint8_t *const end = p + n;
    int32_t count = 0;
    while (p < end) {
        const int32_t piece = text_split(b, p, end);
        if (most - count < piece) return -1; /* a piece begins as a token for each byte */
        count += text_encode_piece(b, k, p, piece, ids + count);
        p += piece;
    }
    return count;
}

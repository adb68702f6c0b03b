/* The tokens of a piece of n bytes, at most n. Returns how many. */
static int32_t text_encode_piece(const text_bpe *b, const text_tokens *k, const uint8_t *p,
                                 int32_t n, int32_t *ids)
{
    const int32_t whole = b->whole ? text_find(k, p, n) : -1;
    int32_t i;
    if (whole >= 0) {
        ids[0] = whole;
        return 1;
    }
    for (i = 0; i < n; i++) ids[i] = b->byte[p[i]];
    return text_merge_all(b, ids, n);
}

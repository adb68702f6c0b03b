/* The tokens of a piece of n bytes, at most n: merges of the smallest rank first, leftmost first.
 * Returns how many. */
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
    for (;;) {
        int32_t best = -1, at = 0;
        for (i = 0; i + 1 < n; i++) {
            const int32_t merge = text_merge_of(b, ids[i], ids[i + 1]);
            if (merge < 0 || (best >= 0 && b->rank[merge] >= b->rank[best])) continue;
            best = merge;
            at = i;
        }
        if (best < 0) return n;
        ids[at] = b->result[best];
        n--;
        for (i = at + 1; i < n; i++) ids[i] = ids[i + 1];
    }
}

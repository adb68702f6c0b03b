/* Merges neighbours among n tokens: those of the smallest rank first, leftmost first. Returns how
 * many are left. */
static int32_t text_merge_all(const text_bpe *b, int32_t *ids, int32_t n)
{
    for (;;) {
        int32_t best = -1, at = 0, i;
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

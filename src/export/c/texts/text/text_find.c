/* The token of n bytes; -1: none. */
static int32_t text_find(const text_tokens *k, const uint8_t *p, int32_t n)
{
    int32_t low = 0, high = k->n_sorted;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2, id = k->sorted[middle];
        const uint8_t *q = k->bytes + k->start[id];
        const int32_t length = (int32_t)(k->start[id + 1] - k->start[id]);
        int32_t i = 0, order;
        while (i < n && i < length && p[i] == q[i]) i++;
        order = i < n && i < length ? (p[i] < q[i] ? -1 : 1) : n < length ? -1 : n > length;
        if (order == 0) return id;
        if (order < 0) high = middle;
        else low = middle + 1;
    }
    return -1;
}

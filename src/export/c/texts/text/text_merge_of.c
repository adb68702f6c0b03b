/* The merge of two neighbours; -1: none. */
static int32_t text_merge_of(const text_bpe *b, int32_t left, int32_t right)
{
    int32_t low = 0, high = b->merges;
    while (low < high) {
        const int32_t i = low + (high - low) / 2;
        if (b->left[i] == left && b->right[i] == right) return i;
        if (b->left[i] < left || (b->left[i] == left && b->right[i] < right)) low = i + 1;
        else high = i;
    }
    return -1;
}

/* Which of n elements is element i of a padded line that begins `before` elements earlier; -1:
 * none. mode 0: none outside; 1: the line mirrored at its ends; 2: its ends repeated; 3: the line
 * repeated. */
static int32_t pad_place(int32_t i, int32_t n, int32_t before, int32_t mode)
{
    const int32_t k = i - before;
    if (k >= 0 && k < n) return k;
    if (mode == 1) return k < 0 ? -k : 2 * (n - 1) - k;
    if (mode == 2) return k < 0 ? 0 : n - 1;
    if (mode == 3) return k < 0 ? k + n : k - n;
    return -1;
}

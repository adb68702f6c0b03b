/* The sum of each group of n codes; the last group may be shorter. */
static void group_sums(const uint8_t *u, int32_t n, int32_t group, int32_t *sums)
{
    int32_t i, end;
    for (i = 0; i < n; i = end) {
        int32_t sum = 0;
        end = n - i > group ? i + group : n;
        for (; i < end; i++) sum += u[i];
        *sums++ = sum;
    }
}

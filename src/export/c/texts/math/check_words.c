/* Goes on with a checksum over n numbers of 32 bits. */
static uint32_t check_words(uint32_t sum, const int32_t *data, int32_t n)
{
    int32_t i;
    for (i = 0; i < n; i++) sum = (sum ^ (uint32_t)data[i]) * 16777619u;
    return sum;
}

/* Goes on with a checksum over n numbers of 16 bits. */
static uint32_t check_shorts(uint32_t sum, const uint16_t *data, int32_t n)
{
    int32_t i;
    for (i = 0; i < n; i++) sum = (sum ^ data[i]) * 16777619u;
    return sum;
}

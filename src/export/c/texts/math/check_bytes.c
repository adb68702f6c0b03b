/* Goes on with a checksum (FNV-1a) over n bytes. */
static uint32_t check_bytes(uint32_t sum, const void *data, int32_t n)
{
    const uint8_t *at = (const uint8_t *)data;
    int32_t i;
    for (i = 0; i < n; i++) sum = (sum ^ at[i]) * 16777619u;
    return sum;
}

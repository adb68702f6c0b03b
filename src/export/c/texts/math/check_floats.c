/* Goes on with a checksum over the bits of n floats. */
static uint32_t check_floats(uint32_t sum, const float *data, int32_t n)
{
    int32_t i;
    for (i = 0; i < n; i++) sum = (sum ^ bits_of(data[i])) * 16777619u;
    return sum;
}

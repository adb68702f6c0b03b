/* v * 2^bits, at the ends of int32 where it does not fit. */
static int32_t device_times(int32_t v, int32_t bits)
{
    const int32_t most = INT32_MAX >> bits;
    return v > most ? INT32_MAX : v < -most - 1 ? -INT32_MAX - 1 : v * (1 << bits);
}

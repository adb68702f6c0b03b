/* The part of a window of `kernel` from `at` on that lies in 0 ... n - 1. */
static int32_t device_window(int32_t at, int32_t kernel, int32_t n, int32_t *end)
{
    *end = at + kernel < n ? at + kernel : n;
    return at > 0 ? at : 0;
}

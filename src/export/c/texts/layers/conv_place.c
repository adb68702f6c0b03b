/* Which of `size` inputs tap k of output o reads: o * stride - padding + k * dilation; -1: none. */
static int32_t conv_place(int32_t o, int32_t k, int32_t stride, int32_t padding, int32_t dilation,
                          int32_t size)
{
    const int32_t at = o * stride - padding + k * dilation;
    return at >= 0 && at < size ? at : -1;
}

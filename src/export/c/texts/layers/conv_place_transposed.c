/* Which of `size` inputs tap k of output o of a transposed convolution reads:
 *     (o + padding - k * dilation) / stride, where it divides; -1: none. */
static int32_t conv_place_transposed(int32_t o, int32_t k, int32_t stride, int32_t padding,
                                     int32_t dilation, int32_t size)
{
    const int32_t at = o + padding - k * dilation;
    return at >= 0 && at % stride == 0 && at / stride < size ? at / stride : -1;
}

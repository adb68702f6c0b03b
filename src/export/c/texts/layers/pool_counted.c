/* How many places of window i count, along one side: those in `size` pixels and in `margin` pixels
 * of padding around them. */
static int32_t pool_counted(int32_t i, int32_t kernel, int32_t stride, int32_t padding,
                            int32_t size, int32_t margin)
{
    const int32_t from = i * stride - padding, end = from + kernel;
    return (end < size + margin ? end : size + margin) - (from > -margin ? from : -margin);
}

/* v * m * 2^(shift - 31), rounded twice: as CMSIS-NN and TensorFlow Lite Micro do it. */
static int32_t scaled(int32_t v, int32_t m, int32_t shift)
{
    const int32_t left = shift > 0 ? shift : 0;
    return divided(high_mult((int32_t)((uint32_t)v << left), m), left - shift);
}

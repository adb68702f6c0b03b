#if defined(DEVICE_CMSIS_NN)
/* Softmax by CMSIS-NN. */
static int cmsis_softmax(const int8_t *x, int32_t rows, int32_t n, int32_t multiplier,
                         int32_t shift, int32_t least, int8_t *y)
{
    arm_softmax_s8(x, rows, n, multiplier, shift, least, y);
    return 0;
}
#endif

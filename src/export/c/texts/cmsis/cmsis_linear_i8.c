#if defined(DEVICE_CMSIS_NN)
/* n outputs of a linear layer by CMSIS-NN; x has code `zero` for 0. With MVE it wants sums of the
 * weight's rows in `room`. */
static int cmsis_linear_i8(const device_matrix *w, const int8_t *x, int32_t zero, int32_t n,
                           void *room, int8_t *y)
{
    const cmsis_nn_context context = { room, 0 };
    const cmsis_nn_fc_params params = { -zero, 0, w->zero, { w->least, w->most } };
    const cmsis_nn_per_channel_quant_params by = { (int32_t *)(uintptr_t)w->multiplier,
                                                   (int32_t *)(uintptr_t)w->shift };
    const cmsis_nn_dims in = { 1, 1, 1, w->columns }, kernel = { w->columns, 1, 1, n };
    const cmsis_nn_dims out = { 1, 1, 1, n };
#if defined(ARM_MATH_MVEI)
    arm_vector_sum_s8((int32_t *)room, w->columns, n, w->codes, -zero, 0, w->bias);
#endif
    return arm_fully_connected_per_channel_s8(&context, &params, &by, &in, x, &kernel, w->codes,
                                              &out, w->bias, &out, y);
}
#endif

#if defined(DEVICE_CMSIS_NN)
/* The convolution by CMSIS-NN. */
static int cmsis_conv_i4(const device_shape *s, const device_matrix *w, const int8_t *x, void *room,
                         int8_t *y)
{
    const cmsis_nn_context context = { room, 0 };
    const cmsis_nn_conv_params params = { -s->zero,
                                          w->zero,
                                          { s->stride_w, s->stride_h },
                                          { s->padding_w, s->padding_h },
                                          { s->dilation_w, s->dilation_h },
                                          { w->least, w->most } };
    const cmsis_nn_per_channel_quant_params by = { (int32_t *)(uintptr_t)w->multiplier,
                                                   (int32_t *)(uintptr_t)w->shift };
    const cmsis_nn_dims in = { 1, s->in_h, s->in_w, s->in_c };
    const cmsis_nn_dims out = { 1, s->out_h, s->out_w, s->out_c };
    const cmsis_nn_dims kernel = { s->out_c, s->kernel_h, s->kernel_w, s->in_c / s->groups };
    const cmsis_nn_dims bias = { 1, 1, 1, s->out_c };
    return arm_convolve_wrapper_s4(&context, &params, &by, &in, x, &kernel, w->codes, &bias,
                                   w->bias, &out, y);
}
#endif

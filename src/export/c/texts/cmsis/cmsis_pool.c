#if defined(DEVICE_CMSIS_NN)
/* Pools by CMSIS-NN. */
static inline int cmsis_pool(const device_pool *s, int max, const int8_t *x, void *room, int8_t *y)
{
    const cmsis_nn_context context = { room, 0 };
    const cmsis_nn_pool_params params = { { s->stride_w, s->stride_h },
                                          { s->padding_w, s->padding_h },
                                          { s->least, s->most } };
    const cmsis_nn_dims in = { 1, s->in_h, s->in_w, s->channels };
    const cmsis_nn_dims out = { 1, s->out_h, s->out_w, s->channels };
    const cmsis_nn_dims kernel = { 1, s->kernel_h, s->kernel_w, 1 };
    return max ? arm_max_pool_s8(&context, &params, &in, x, &kernel, &out, y)
               : arm_avgpool_s8(&context, &params, &in, x, &kernel, &out, y);
}
#endif

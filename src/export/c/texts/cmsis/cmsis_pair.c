#if defined(DEVICE_CMSIS_NN)
/* Sums and products of elements by CMSIS-NN. */
static inline int cmsis_add(const device_pair *s, const int8_t *a, const int8_t *b, int32_t n,
                            int8_t *y)
{
    return arm_elementwise_add_s8(a, b, -s->zero_a, s->a, s->shift_a, -s->zero_b, s->b, s->shift_b,
                                  20, y, s->zero_y, s->y, s->shift_y, s->least, s->most, n);
}

static inline int cmsis_mul(const device_pair *s, const int8_t *a, const int8_t *b, int32_t n,
                            int8_t *y)
{
    return arm_elementwise_mul_s8(a, b, -s->zero_a, -s->zero_b, y, s->zero_y, s->y, s->shift_y,
                                  s->least, s->most, n);
}
#endif

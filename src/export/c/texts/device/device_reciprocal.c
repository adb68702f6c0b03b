/* 2^62 / (a + 2^31), by three steps of Newton's method; a >= 0. */
static int32_t device_reciprocal(int32_t a)
{
    const int32_t half = (int32_t)(((int64_t)a + INT32_MAX + 1) >> 1);
    int32_t x = 1515870810 + high_mult(half, -1010580540), i;
    for (i = 0; i < 3; i++) {
        x += device_times(high_mult(x, 0x20000000 - high_mult(half, x)), 2);
    }
    return device_times(x, 1);
}

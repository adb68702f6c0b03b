/* (a * b + 2^30) >> 31, at most 2^31 - 1. */
static int32_t high_mult(int32_t a, int32_t b)
{
    const int64_t product = ((int64_t)a * b + 0x40000000) >> 31;
    return product > INT32_MAX ? INT32_MAX : (int32_t)product;
}

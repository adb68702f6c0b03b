/* 1 where floats are not computed as they are written: by parts of -ffast-math that a compiler
 * tells by no macro (a quotient by a constant, the sums of `nearest`, infinity), or without
 * denormal numbers, as in a program that is linked with -ffast-math. */
static int check_flags(void)
{
    volatile float held[3] = { 1.7f, 0x1p-126f, 0x1p127f };
    const float v = held[0], least = held[1] * 0.5f, large = held[2] * 4.0f;
    return v / 3.0f != 0x1.222222p-1f || (v + 12582912.0f) - 12582912.0f != 2.0f || least == 0 ||
           large - large == 0;
}

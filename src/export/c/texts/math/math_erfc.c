/* 1 - erf x */
static float math_erfc(float x)
{
    const double v = (double)x, tail = math_erfc_tail(v);
    return (float)(v < 0 ? 2.0 - tail : tail);
}

/* Sine and cosine of the angle of a share of a turn, y[2]. */
static void column_turn(double share, float *y)
{
    double sine, cosine;
    math_sin_cos(rounded_double(share * 6.28318530717958647693), &sine, &cosine);
    y[0] = (float)sine;
    y[1] = (float)cosine;
}

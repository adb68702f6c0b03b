/* The cosines, then the sines, of position * frequency of each of `pairs` pairs. */
static void rotary_turn(int32_t position, const double *frequency, int32_t pairs, float *turn)
{
    int32_t i;
    for (i = 0; i < pairs; i++) {
        double s, c;
        math_sin_cos((double)position * frequency[i], &s, &c);
        turn[i] = (float)c;
        turn[pairs + i] = (float)s;
    }
}

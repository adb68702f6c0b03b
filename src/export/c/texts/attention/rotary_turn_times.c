/* The same, multiplied by `amplitude`. */
static void rotary_turn_times(int32_t position, const double *frequency, int32_t pairs,
                              double amplitude, float *turn)
{
    int32_t i;
    for (i = 0; i < pairs; i++) {
        double s, c;
        math_sin_cos((double)position * frequency[i], &s, &c);
        turn[i] = (float)(amplitude * c);
        turn[pairs + i] = (float)(amplitude * s);
    }
}

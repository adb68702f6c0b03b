/* The sum of n numbers in double: eight sums of every eighth number, added as a tree. */
static double sum_lanes(const float *x, int32_t n)
{
    double lane[8] = { 0, 0, 0, 0, 0, 0, 0, 0 };
    int32_t i;
    for (i = 0; i < n; i++) lane[i % 8] += (double)x[i];
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) +
           ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

/* The sum of eight partial sums, in pairs. */
static double sum_of_8(const double *lane)
{
    const double first = (lane[0] + lane[1]) + (lane[2] + lane[3]);
    return first + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

/* Piecewise linear between n numbers in order, which become -1 ... 1 evenly. */
static double column_quantile(const double *q, int32_t n, double v)
{
    int32_t low = 0, high = n - 1;
    if (v < q[0]) return -1.0;
    if (v >= q[high]) return 1.0;
    while (high - low > 1) {
        const int32_t middle = low + (high - low) / 2;
        if (q[middle] <= v) low = middle;
        else high = middle;
    }
    return 2.0 * ((low + (v - q[low]) / (q[low + 1] - q[low])) / (n - 1)) - 1.0;
}

/* Returns 1 where one of n values is not a finite number, else 0. */
static int not_finite(const float *x, int32_t n)
{
    int bad = 0;
    int32_t i;
    for (i = 0; i < n; i++) bad |= !(x[i] - x[i] == 0);
    return bad;
}

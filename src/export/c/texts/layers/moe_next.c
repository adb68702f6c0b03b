/* The choice after expert `last` of value `value` in descending order of x, ties to the lower one;
 * -1: there is none. The first choice follows (infinity, -1). */
static int32_t moe_next(const float *x, int32_t n, float value, int32_t last)
{
    int32_t best = -1, e;
    for (e = 0; e < n; e++) {
        const int behind = x[e] < value || (x[e] == value && e > last);
        if (behind && (best < 0 || x[e] > x[best])) best = e;
    }
    return best;
}

/* v rounded to an integer, half to even, for |v| < 2^22: the sum has no bits left for a
 * fraction. */
static float nearest(float v)
{
    const float shifted = v + 12582912.0f; /* 1.5 * 2^23 */
    return shifted - 12582912.0f;
}

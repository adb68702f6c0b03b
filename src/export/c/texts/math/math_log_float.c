/* log x: -infinity of 0, NaN below. */
static float math_log_float(float x)
{
    const float whole = (float)math_log(x > 0 ? (double)x : 1.0);
    return x > 0 ? whole : x == 0 ? -1.0f / (x * x) : (x - x) / (x - x);
}

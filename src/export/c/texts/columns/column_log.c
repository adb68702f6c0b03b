/* sign(v) ln(1 + |v|), by u = 1 + |v| as ln(u) |v| / (u - 1). */
static double column_log(double v)
{
    const double size = v < 0 ? -v : v, u = 1.0 + size;
    const double y = u == 1.0 ? size : math_log(u) * (size / (u - 1.0));
    return v < 0 ? -y : y;
}

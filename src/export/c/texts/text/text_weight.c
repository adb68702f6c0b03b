/* e^((x - most) / temperature), which is in proportion to a token's probability. */
static double text_weight(const text_ranking *r, int32_t id)
{
    const double v = ((double)r->x[id] - r->most) / r->temperature;
    return v < -700.0 ? 0 : math_exp_double(v);
}

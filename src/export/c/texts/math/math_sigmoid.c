/* 1 / (1 + e^-v), by powers of numbers <= 0 alone. */
static float math_sigmoid(float v)
{
    const float e = math_exp(v < 0 ? v : -v);
    return (v < 0 ? e : 1.0f) / (1.0f + e);
}

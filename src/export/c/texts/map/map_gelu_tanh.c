/* y = x (1 + tanh u) / 2 = x / (1 + e^(-2u)) of n values, u = sqrt(2 / pi) (x + 0.044715 x^3). */
static void map_gelu_tanh(const float *x, int32_t n, float *y)
{
    int32_t i;
    for (i = 0; i < n; i++) {
        const float v = x[i], u = v + rounded(0.044715f * v * v * v);
        y[i] = rounded(v * math_sigmoid(1.59576912160573071176f * u));
    }
}

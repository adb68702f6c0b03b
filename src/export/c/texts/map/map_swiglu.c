/* y = gate / (1 + e^-gate) * up of n values. */
static void map_swiglu(const float *gate, const float *up, int32_t n, float *y)
{
    int32_t i;
    for (i = 0; i < n; i++) y[i] = rounded(gate[i] * math_sigmoid(gate[i]) * up[i]);
}

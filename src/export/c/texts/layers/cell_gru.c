/* A step of a GRU, of gates gi = W x + b and gh = U h + c, in the order reset, update, new:
 *     r, z = sigmoid(gi + gh)     n = tanh(gi_n + r gh_n)     y = n + z (h - n)
 * y may be h. */
static void gru_cell(const float *gi, const float *gh, const float *h, int32_t n, float *y)
{
    int32_t j;
    for (j = 0; j < n; j++) {
        const float reset = math_sigmoid(gi[j] + gh[j]);
        const float update = math_sigmoid(gi[n + j] + gh[n + j]);
        const float fresh = math_tanh(gi[2 * n + j] + rounded(reset * gh[2 * n + j]));
        y[j] = fresh + rounded(update * (h[j] - fresh));
    }
}

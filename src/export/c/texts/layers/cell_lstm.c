/* A step of an LSTM, of gates gi = W x + b and gh = U h + c, in the order in, forget, new, out:
 *     i, f, o = sigmoid(gi + gh)     g = tanh(gi_g + gh_g)     c' = f c + i g     h' = o tanh(c')
 * `state` is [h, c], y [h', c']; y may be `state`. */
static void lstm_cell(const float *gi, const float *gh, const float *state, int32_t n, float *y)
{
    int32_t j;
    for (j = 0; j < n; j++) {
        const float in = math_sigmoid(gi[j] + gh[j]);
        const float forget = math_sigmoid(gi[n + j] + gh[n + j]);
        const float fresh = math_tanh(gi[2 * n + j] + gh[2 * n + j]);
        const float out = math_sigmoid(gi[3 * n + j] + gh[3 * n + j]);
        const float now = rounded(forget * state[n + j]) + rounded(in * fresh);
        y[n + j] = now;
        y[j] = rounded(out * math_tanh(now));
    }
}

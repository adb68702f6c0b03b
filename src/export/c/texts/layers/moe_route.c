/* The top_k largest of n finite logits, and their weights: of a softmax over those, or, with `all`,
 * over all n. Of logits that are not finite some expert is chosen. */
static void moe_route(const float *x, int32_t n, int32_t top_k, int all, float *weights,
                      int32_t *index)
{
    const float base = softmax_base(x, n, 1);
    float chosen = float_of(0x7f800000u), factor;
    int32_t expert = -1, i;
    double total = 0;
    for (i = 0; i < top_k; i++) {
        weights[i] = 0;
        index[i] = 0;
    }
    for (i = 0; i < top_k && (expert = moe_next(x, n, chosen, expert)) >= 0; i++) {
        chosen = x[expert];
        index[i] = expert;
        weights[i] = math_exp(chosen - base);
        total += (double)weights[i];
    }
    if (all) total = softmax_powers(x, n, 1, base, 0);
    factor = total == 0 ? 0 : (float)(1.0 / total);
    for (i = 0; i < top_k; i++) weights[i] = rounded(weights[i] * factor);
}

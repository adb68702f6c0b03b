/* A token drawn by its probability, the softmax of x / temperature, among the top_k likeliest (0:
 * all) and of these the fewest whose probabilities sum to at least top_p. u is a random number
 * below 1. A temperature of 0 takes the likeliest. room: n integers. */
static int32_t text_sample(const float *x, int32_t n, double temperature, int32_t top_k,
                           double top_p, double u, int32_t *room)
{
    text_ranking r;
    double whole = 0, sum = 0;
    int32_t best = 0, kept, last, i;
    for (i = 1; i < n; i++) {
        if (x[i] > x[best]) best = i;
    }
    if (!(temperature > 0)) return best;
    r.x = x;
    r.n = r.left = n;
    top_k = top_k > 0 && top_k < n ? top_k : n;
    r.id = top_k < n || top_p < 1 ? room : 0;
    r.most = (double)x[best];
    r.temperature = temperature;
    for (i = 0; r.id && i < n; i++) r.id[i] = i;
    for (i = n / 2; r.id && i-- > 0;) text_sift(&r, i);
    kept = text_top_p(&r, top_k, top_p);
    for (i = 0; i < kept; i++) whole += text_weight(&r, text_ranked(&r, i));
    last = text_ranked(&r, 0); /* rounding may leave u past the end */
    for (i = 0; i < kept && !(sum > rounded_double(u * whole)); i++) {
        const double weight = text_weight(&r, text_ranked(&r, i));
        if (weight > 0) last = text_ranked(&r, i);
        sum += weight;
    }
    return last;
}

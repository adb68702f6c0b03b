/* How many of the `most` likeliest tokens it takes for the share top_p of their probability. */
static int32_t text_top_p(text_ranking *r, int32_t most, double top_p)
{
    double sum = 0, goal;
    int32_t i;
    if (top_p >= 1) return most;
    for (i = 0; i < most; i++) sum += text_weight(r, most == r->n ? i : text_ranked(r, i));
    goal = top_p * sum;
    sum = 0;
    for (i = 0; i < most && sum < goal; i++) sum += text_weight(r, text_ranked(r, i));
    return i;
}

/* The i-th likeliest token; token i where they are not ranked. */
static int32_t text_ranked(text_ranking *r, int32_t i)
{
    if (!r->id) return i;
    while (r->n - r->left <= i) {
        const int32_t best = r->id[0];
        r->id[0] = r->id[--r->left];
        if (r->left > 0) text_sift(r, 0);
        r->id[r->left] = best;
    }
    return r->id[r->n - 1 - i];
}

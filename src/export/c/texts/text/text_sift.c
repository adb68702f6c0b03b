/* Moves id[i] down to its place in the heap. */
static void text_sift(text_ranking *r, int32_t i)
{
    const int32_t id = r->id[i];
    int32_t child;
    for (; (child = 2 * i + 1) < r->left; i = child) {
        const float *x = r->x;
        int32_t *at = r->id + child;
        if (child + 1 < r->left) {
            const int32_t step = x[at[1]] > x[at[0]] || (x[at[1]] == x[at[0]] && at[1] < at[0]);
            child += step;
            at += step;
        }
        if (!(x[at[0]] > x[id] || (x[at[0]] == x[id] && at[0] < id))) break;
        r->id[i] = at[0];
    }
    r->id[i] = id;
}

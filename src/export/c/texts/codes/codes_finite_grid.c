/* Whether a grid's scale, before it was limited and rounded, and all that codes stand for are
 * finite. */
static int is_finite_grid(float scale, const code_grid *g, int32_t qmin)
{
    const float limit = 0x1.fffffep127f, least = (float)-qmin;
    const float most = g->high > -g->low ? g->high : -g->low;
    return scale <= limit && (most > least ? most : least) * g->scale <= limit;
}

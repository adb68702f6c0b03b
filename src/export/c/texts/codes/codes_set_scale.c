/* The grid of a scale and a zero point, for codes qmin ... qmax; bytes are codes + 128. */
static void set_grid(code_grid *g, float scale, int32_t zero, int32_t qmin, int32_t qmax)
{
    g->scale = scale;
    g->inverse = 1.0f / scale;
    g->low = (float)(qmin - zero);
    g->high = (float)(qmax - zero);
    g->zero = zero + 128;
}

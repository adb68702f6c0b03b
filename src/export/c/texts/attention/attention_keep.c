/* Keeps a token's key or value, [heads][width], as token `at` of a cache, [heads][capacity]
 * [width]. */
static void attention_keep(const float *x, const attention_shape *a, int32_t at, float *cache)
{
    const size_t bytes = (size_t)a->width * sizeof *x;
    int32_t h;
    for (h = 0; h < a->kv_heads; h++) {
        memcpy(cache + (h * a->capacity + at) * a->width, x + h * a->width, bytes);
    }
}

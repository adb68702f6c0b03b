/* Behind at most `most` characters of the classes. */
static const uint8_t *text_skip(const text_bpe *b, const uint8_t *p, const uint8_t *end,
                                int32_t classes, int32_t most)
{
    int32_t n;
    for (; most > 0 && (text_class_at(b, p, end, &n) & classes) != 0; most--) p += n;
    return p;
}

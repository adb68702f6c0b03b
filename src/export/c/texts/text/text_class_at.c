/* The class of the character at p, and its length; class 0 at the end. What is not UTF-8 counts as
 * characters of one byte. */
static int32_t text_class_at(const text_bpe *b, const uint8_t *p, const uint8_t *end,
                             int32_t *bytes)
{
    uint32_t code;
    *bytes = 1;
    if (p == end) return 0;
    const int32_t n = text_character(p, end, &code);
    if (n == 0) return 1;
    *bytes = n;
    return text_class(b->ranges, b->n_ranges, code);
}

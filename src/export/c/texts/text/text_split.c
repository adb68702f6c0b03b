/* The length of the piece of text at p, within which bytes are merged. */
static int32_t text_split(const text_bpe *b, const uint8_t *p, const uint8_t *end)
{
    const int32_t most = 0x7fffffff, contraction = text_contraction(p, end, b->digits > 0);
    const uint8_t *q = *p == ' ' ? p + 1 : p;
    int32_t n, m, kind;
    if (contraction > 0) return contraction;
    kind = text_class_at(b, q, end, &n);
    if (b->digits == 0) {
        if ((kind & 7) == 0) return text_spaces(b, p, end, 0);
        return (int32_t)(text_skip(b, q, end, kind, most) - p);
    }
    const int32_t first = text_class_at(b, p, end, &n);
    const uint8_t *word = (first & 9) != 0 ? p + n : p;
    if (text_class_at(b, word, end, &m) == 2) {
        return (int32_t)(text_skip(b, word, end, 2, most) - p);
    }
    if (first == 4) return (int32_t)(text_skip(b, p, end, 4, b->digits) - p);
    if (kind != 1) return text_spaces(b, p, end, 1);
    return (int32_t)(text_skip(b, text_skip(b, q, end, 1, most), end, 16, most) - p);
}

/* The length of a run of white space: all of it at the end of the text; a character alone; else
 * without its last character. With `lines`, up to the last end of a line in it, if there is one. */
static int32_t text_spaces(const text_bpe *b, const uint8_t *p, const uint8_t *end, int lines)
{
    const uint8_t *q = p, *last = p, *after_line = p;
    int32_t kind, n;
    while (((kind = text_class_at(b, q, end, &n)) & 24) != 0) {
        last = q;
        q += n;
        if (kind == 16) after_line = q;
    }
    if (lines && after_line > p) return (int32_t)(after_line - p);
    return (int32_t)((q == end || last == p ? q : last) - p);
}

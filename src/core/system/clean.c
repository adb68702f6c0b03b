/* Text that terminals display literally. */
#include "core/core.h"
#include "core/text/utf8.h"

#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

/* Whether a terminal displays the code point literally: no control, mark of direction, line
 * separator or unassigned code point. */
static bool is_shown(uint32_t c)
{
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF: /* includes marks of direction */
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return false;
    default: return true;
    }
}

/* \\u and four digits; a surrogate pair for code points beyond U+FFFF. */
static size_t put_escape(uint32_t c, char *out)
{
    if (c < 0x10000) return (size_t)sprintf(out, "\\u%04x", (unsigned)c);
    const unsigned v = (unsigned)c - 0x10000;
    return (size_t)sprintf(out, "\\u%04x\\u%04x", 0xD800 | v >> 10, 0xDC00 | (v & 0x3FF));
}

size_t dt__visible(const char *text, size_t n, char *out, bool *hidden)
{
    const unsigned char *from = (const unsigned char *)text;
    const int length = dt__utf8_length(from, from + (n < 4 ? n : 4));
    const uint32_t c = length > 0 ? dt__utf8_get(from, length) : 0xFFFD;
    size_t used = (size_t)length;
    *hidden = length == 0 || !is_shown(c);
    if (*hidden) used = put_escape(c, out);
    else memcpy(out, text, used);
    out[used] = 0;
    return length > 0 ? (size_t)length : 1;
}

size_t dt_text_json(const char *text, size_t n, char out[DT_TEXT_JSON])
{
    bool hidden;
    if (text == NULL || out == NULL || n == 0) return 0;
    if (*text != '"' && *text != '\\') return dt__visible(text, n, out, &hidden);
    memcpy(out, (const char[]){ '\\', *text, 0 }, 3);
    return 1;
}

void dt_text_clean(char *text)
{
    if (text == NULL) return;
    const unsigned char *from = (const unsigned char *)text, *end = from + strlen(text);
    char *to = text;
    while (from < end) {
        const int n = dt__utf8_length(from, end);
        const bool shown = n > 0 && is_shown(dt__utf8_get(from, n));
        if (shown) memmove(to, from, (size_t)n);
        else *to = '?';
        to += shown ? n : 1;
        from += n > 0 ? n : 1;
    }
    *to = 0;
}

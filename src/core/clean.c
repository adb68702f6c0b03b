/* Text that a terminal shows as it is. */
#include "core/core.h"
#include "core/utf8.h"

#include <string.h>
#include <utf8proc.h>

static bool is_shown(uint32_t c)
{
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF: /* marks of direction among them */
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return false;
    default: return true;
    }
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

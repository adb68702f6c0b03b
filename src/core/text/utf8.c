/* UTF-8: characters of one to four bytes; the first byte determines the length (RFC 3629). */
#include "core/text/utf8.h"

#include <string.h>

int dt__utf8_length(const unsigned char *p, const unsigned char *end)
{
    if (p[0] < 0x80) return 1;
    const int n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || end - p < n) return 0;
    for (int i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0;
    }
    if (p[0] == 0xe0 && p[1] < 0xa0) return 0;
    if (p[0] == 0xed && p[1] > 0x9f) return 0;
    if (p[0] == 0xf0 && p[1] < 0x90) return 0;
    if (p[0] == 0xf4 && p[1] > 0x8f) return 0;
    return n;
}

uint32_t dt__utf8_get(const unsigned char *p, int n)
{
    static const unsigned char payload[] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
    uint32_t c = p[0] & payload[n];
    for (int i = 1; i < n; i++) c = c << 6 | (p[i] & 0x3f);
    return c;
}

int dt__utf8_put(uint32_t c, char out[DT__UTF8_BYTES])
{
    static const unsigned char lead[] = { 0, 0xc0, 0xe0, 0xf0 };
    const int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    out[0] = (char)(lead[more] | c >> (6 * more));
    for (int i = 1; i <= more; i++) out[i] = (char)(0x80 | ((c >> (6 * (more - i))) & 0x3f));
    return more + 1;
}

bool dt__is_utf8(const char *text) { return dt__is_utf8_of(text, strlen(text)); }

bool dt__is_utf8_of(const char *text, size_t bytes)
{
    const unsigned char *p = (const unsigned char *)text, *end = p + bytes;
    while (p < end) {
        const int n = dt__utf8_length(p, end);
        if (n == 0) return false;
        p += n;
    }
    return true;
}

/* Base64: three bytes are four digits of six bits. */
#include "core/text/base64.h"

#include <string.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void dt__put_base64(dt__chars *t, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i += 3) {
        const uint32_t b = i + 1 < n ? bytes[i + 1] : 0, c = i + 2 < n ? bytes[i + 2] : 0;
        const uint32_t word = (uint32_t)bytes[i] << 16 | b << 8 | c;
        const char four[] = { digits[word >> 18], digits[word >> 12 & 63],
                              i + 1 < n ? digits[word >> 6 & 63] : '=',
                              i + 2 < n ? digits[word & 63] : '=' };
        dt__put(t, four, sizeof four);
    }
}

static int value_of(char digit)
{
    const char *at = digit == 0 ? NULL : strchr(digits, digit);
    return at == NULL ? -1 : (int)(at - digits);
}

int64_t dt__base64_read(const char *text, uint8_t *to)
{
    const size_t n = strlen(text);
    int64_t bytes = 0;
    if (n % 4 != 0) return -1;
    for (size_t i = 0; i < n; i += 4) {
        const bool last = i + 4 == n;
        const int padding = !last ? 0 : text[i + 2] == '=' ? 2 : text[i + 3] == '=';
        uint32_t word = 0;
        for (int k = 0; k < 4; k++) {
            const int value = k >= 4 - padding ? 0 : value_of(text[i + (size_t)k]);
            if (value < 0 || (k >= 4 - padding && text[i + (size_t)k] != '=')) return -1;
            word = word << 6 | (uint32_t)value;
        }
        for (int k = 0; k < 3 - padding; k++) to[bytes++] = (uint8_t)(word >> (16 - 8 * k));
    }
    return bytes;
}

/* UTF-8, by RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef DT__CORE_UTF8_H
#define DT__CORE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The length in bytes of the character at `p` < `end`; 0 if it is invalid. */
int dt__utf8_length(const unsigned char *p, const unsigned char *end);
/* The code point of the `n` bytes at `p`, where n is from dt__utf8_length. */
uint32_t dt__utf8_get(const unsigned char *p, int n);
/* Writes the code point `c`; returns the number of bytes. */
#define DT__UTF8_BYTES 4
int dt__utf8_put(uint32_t c, char out[DT__UTF8_BYTES]);
/* The first character of n > 0 bytes in a form that pages and terminals can show: the character
 * itself, or, with *hidden set, \u and four digits; U+FFFD stands for a byte that is not UTF-8.
 * `out` has room as for dt_text_json. Returns the number of bytes of the text that were read. */
size_t dt__visible(const char *text, size_t n, char *out, bool *hidden);
/* Whether all of `text` is UTF-8, or the n bytes at `text`. */
bool dt__is_utf8(const char *text);
bool dt__is_utf8_of(const char *text, size_t n);

#endif

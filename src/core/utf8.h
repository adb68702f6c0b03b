/* UTF-8, by RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef DT__CORE_UTF8_H
#define DT__CORE_UTF8_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes of the character at `p`, before `end`, which is not `p`; 0 where there is none. */
int dt__utf8_length(const unsigned char *p, const unsigned char *end);
/* The character of `n` bytes at `p`, as dt__utf8_length found it. */
uint32_t dt__utf8_get(const unsigned char *p, int n);
/* Writes the character `c`; returns its bytes. */
#define DT__UTF8_BYTES 4
int dt__utf8_put(uint32_t c, char out[DT__UTF8_BYTES]);
/* Whether a text is UTF-8 throughout. */
bool dt__is_utf8(const char *text);

#endif

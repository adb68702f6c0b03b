/* Base64, by RFC 4648, with padding and without line breaks. */
#ifndef DT__CORE_BASE64_H
#define DT__CORE_BASE64_H

#include "core/text/json.h"

void dt__put_base64(dt__chars *t, const uint8_t *bytes, size_t n);
/* Decodes into `to`, which has room for 3 bytes for each 4 of the text. Returns the number of
 * bytes; -1: the text is not base64. */
int64_t dt__base64_read(const char *text, uint8_t *to);

#endif

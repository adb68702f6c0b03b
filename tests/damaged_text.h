/* A text in JSON, or YAML on one line, with one mistake: a wrong value or key, or a missing or
 * extra element. JSON within a JSON string (metadata of a file) is changed as well. */
#ifndef DAMAGED_TEXT_H
#define DAMAGED_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* Change number k, from 0, of the n bytes of text; free the result with free(). *size is its
 * length. NULL: there are fewer changes. Some changes leave the text valid. */
char *damaged_text(const char *text, size_t n, int64_t k, size_t *size);

#endif

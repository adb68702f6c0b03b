/* A text of JSON, or of YAML in one line, in which one thing is wrong: a value, a key, an element
 * too many or too few. JSON in a string of JSON (metadata of a file) is changed as well. */
#ifndef DAMAGED_TEXT_H
#define DAMAGED_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* Change number k, counted from 0, of the n bytes of text, to be freed with free(); *size is its
 * length. NULL: there are fewer. Some changes leave the text as right as it was. */
char *damaged_text(const char *text, size_t n, int64_t k, size_t *size);

#endif

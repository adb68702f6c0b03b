/* Canonical texts of decimal numbers: equal numbers have equal texts. */
#ifndef DT__DATA_VALUE_TEXT_H
#define DT__DATA_VALUE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#define DT__VALUE_TEXT 64

/* Writes the canonical text of a number of n bytes, [-+]digits[.digits][e[-+]digits] with blanks
 * around it: 1, 01, +1, 1.0 and 1e0 all become "1". No digit is rounded. False: not a number, or
 * more than 40 significant digits. */
bool dt__value_text(const char *text, size_t n, char out[DT__VALUE_TEXT]);
/* Compares the numbers of two such texts: below 0, 0 or above 0. */
int dt__value_compare(const char *a, const char *b);

#endif

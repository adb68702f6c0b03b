/* Decimal numbers as texts that are equal where the numbers are. */
#ifndef DT__DATA_VALUE_TEXT_H
#define DT__DATA_VALUE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#define DT__VALUE_TEXT 64

/* Writes the value of a number in n bytes, [-+]digits[.digits][e[-+]digits] with blanks around it:
 * 1, 01, +1, 1.0 and 1e0 all become "1". No digit is rounded. False: it is not a number, or has
 * more than 40 significant digits. */
bool dt__value_text(const char *text, size_t n, char out[DT__VALUE_TEXT]);
/* Below 0, 0 or above 0, as the first of two such texts is less, equal or more. */
int dt__value_compare(const char *a, const char *b);

#endif

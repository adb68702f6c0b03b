/* Numbers as text, the same in every locale. */
#ifndef DT__CORE_NUMBER_H
#define DT__CORE_NUMBER_H

#include <stdint.h>

typedef enum dt__number { DT__NUMBER, DT__NO_NUMBER, DT__NUMBER_TOO_LARGE } dt__number;

/* Parse [-+]digits without leading zeros; and [-+]digits[.digits][e[-+]digits]. */
dt__number dt__parse_int(const char *text, int64_t *out);
dt__number dt__parse_real(const char *text, double *out);
/* The shortest text that reads back as the same number; for a finite number it is valid JSON. */
void dt__print_real(double value, char text[32]);

#endif

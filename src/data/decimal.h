/* Decimal numbers in text files. */
#ifndef DT__DATA_DECIMAL_H
#define DT__DATA_DECIMAL_H

#include <stdbool.h>

/* Reads the longest decimal number at `at`, [-+]digits[.digits][e[-+]digits], with digits on at
 * least one side of the point, and rounds it to the nearest f32, ties to even, in every locale.
 * Returns where it ends; NULL if none begins there. *too_large: it is beyond the range of f32. */
const char *dt__decimal_f32(const char *at, const char *end, float *out, bool *too_large);

#endif

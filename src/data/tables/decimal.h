/* Decimal numbers in text files. */
#ifndef DT__DATA_DECIMAL_H
#define DT__DATA_DECIMAL_H

#include "data/tables/merging.h"

typedef struct dt__decimal {
    float value;
    dt__exact exact; /* before rounding; fractions have a relative error below 2^-50 */
    bool too_large;  /* beyond the range of f32 */
} dt__decimal;

/* Reads the longest decimal number at `at`, [-+]digits[.digits][e[-+]digits], with digits on at
 * least one side of the point, and rounds it to the nearest f32, ties to even, in every locale.
 * Returns where it ends; NULL if none begins there. */
const char *dt__decimal_read(const char *at, const char *end, dt__decimal *out);
/* Reads a number likewise, rounded to the nearest f64; infinite beyond its range. */
const char *dt__decimal_double(const char *at, const char *end, double *out);

#endif

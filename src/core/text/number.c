/* Numbers as text. The C library uses the decimal point of the process's locale; detent reads and
 * writes '.' only. */
#include "core/text/number.h"

#include <errno.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *skip_digits(const char *c)
{
    while (*c >= '0' && *c <= '9') c++;
    return c;
}

static const char *skip_sign(const char *c) { return c + (*c == '-' || *c == '+'); }

dt__number dt__parse_int(const char *text, int64_t *out)
{
    const char *first = skip_sign(text), *end = skip_digits(first);
    if (end == first || *end != 0 || (*first == '0' && end > first + 1)) return DT__NO_NUMBER;
    errno = 0;
    const long long value = strtoll(text, NULL, 10);
    if (errno == ERANGE) return DT__NUMBER_TOO_LARGE;
    *out = value;
    return DT__NUMBER;
}

static bool is_real(const char *text)
{
    const char *first = skip_sign(text), *c = skip_digits(first);
    if (c == first || (*first == '0' && c > first + 1)) return false;
    if (*c == '.') {
        const char *fraction = ++c;
        c = skip_digits(c);
        if (c == fraction) return false;
    }
    if (*c == 'e' || *c == 'E') {
        const char *exponent = skip_sign(c + 1);
        c = skip_digits(exponent);
        if (c == exponent) return false;
    }
    return *c == 0;
}

static void swap_point(char *text, char from, char to)
{
    char *at = strchr(text, from);
    if (at != NULL) *at = to;
}

dt__number dt__parse_real(const char *text, double *out)
{
    char copy[128];
    const size_t n = strlen(text);
    if (!is_real(text) || n >= sizeof copy) return DT__NO_NUMBER;
    memcpy(copy, text, n + 1);
    swap_point(copy, '.', *localeconv()->decimal_point);
    const double value = strtod(copy, NULL);
    if (!isfinite(value)) return DT__NUMBER_TOO_LARGE;
    *out = value;
    return DT__NUMBER;
}

/* Shortens the exponent: 1e-05 becomes 1e-5. */
static void shorten_exponent(char *text)
{
    char *digits = strchr(text, 'e');
    if (digits == NULL) return;
    digits += 2;
    const size_t zeros = strspn(digits, "0");
    memmove(digits, digits + zeros, strlen(digits + zeros) + 1);
}

/* The fewest significant digits that distinguish a finite value from its neighbours. A decimal of
 * at most 15 digits survives conversion to a normal double and back, so such a value printed with
 * 15 digits ends in zeros. */
static int fewest_digits(double value)
{
    char text[32];
    if (!isfinite(value)) return 1;
    for (int digits = fabs(value) < DBL_MIN ? 1 : 15; digits < 17; digits++) {
        snprintf(text, sizeof text, "%.*e", digits - 1, value);
        if (strtod(text, NULL) != value) continue;
        while (digits > 1 && text[digits + (value < 0)] == '0') digits--;
        return digits;
    }
    return 17;
}

void dt__print_real(double value, char text[32])
{
    if (fabs(value) < 1e9 && value == floor(value)) {
        snprintf(text, 32, "%.0f", value);
        return;
    }
    snprintf(text, 32, "%.*g", fewest_digits(value), value);
    swap_point(text, *localeconv()->decimal_point, '.');
    shorten_exponent(text);
}

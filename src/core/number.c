/* Numbers as text. The C library uses the decimal point of the process's locale; detent reads and
 * writes '.' only. */
#include "core/number.h"

#include <errno.h>
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

/* 1e-05 becomes 1e-5. */
static void shorten_exponent(char *text)
{
    char *digits = strchr(text, 'e');
    if (digits == NULL) return;
    digits += 2;
    const size_t zeros = strspn(digits, "0");
    memmove(digits, digits + zeros, strlen(digits + zeros) + 1);
}

void dt__print_real(double value, char text[32])
{
    if (fabs(value) < 1e9 && value == floor(value)) {
        snprintf(text, 32, "%.0f", value);
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, 32, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    swap_point(text, *localeconv()->decimal_point, '.');
    shorten_exponent(text);
}

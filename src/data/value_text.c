/* Canonical texts of decimal numbers (value_text.h). A number is
 *     0.d1 d2 ... dn 10^e      d1 and dn are not 0; zero has no digits */
#include "data/value_text.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define MOST_DIGITS 40
#define MOST_EXPONENT 1000000
#define LONGEST 21 /* most digits before the point of a number without an exponent, */
#define LEAST (-5) /* most zeros after it */

typedef struct value {
    bool negative;
    char digit[MOST_DIGITS];
    int n;
    int64_t exponent;
} value;

static bool is_digit(const char *c, const char *end) { return c < end && *c >= '0' && *c <= '9'; }

/* Reads digits on both sides of the point; NULL: there are none, or too many. */
static const char *take_digits(const char *c, const char *end, value *v)
{
    bool point = false, any = false;
    for (; is_digit(c, end) || (c < end && *c == '.' && !point); c++) {
        if (*c == '.') {
            point = true;
            continue;
        }
        any = true;
        const bool leading = v->n == 0 && *c == '0';
        v->exponent += leading ? -(int64_t)point : !point;
        if (leading) continue;
        if (v->n == MOST_DIGITS) return NULL;
        v->digit[v->n++] = *c;
    }
    while (v->n > 0 && v->digit[v->n - 1] == '0') v->n--;
    return any ? c : NULL;
}

/* Reads [e[-+]digits]; NULL: too large. */
static const char *take_exponent(const char *c, const char *end, value *v)
{
    if (c == end || (*c != 'e' && *c != 'E')) return c;
    const bool negative = ++c < end && *c == '-';
    int64_t exponent = 0;
    c += c < end && (*c == '-' || *c == '+');
    if (!is_digit(c, end)) return NULL;
    for (; is_digit(c, end); c++) {
        exponent = 10 * exponent + (*c - '0');
        if (exponent > MOST_EXPONENT) return NULL;
    }
    v->exponent += negative ? -exponent : exponent;
    return c;
}

static bool read(const char *text, size_t n, value *v)
{
    const char *c = text, *end = text + n;
    *v = (value){ .negative = false };
    while (c < end && (*c == ' ' || *c == '\t')) c++;
    while (c < end && (end[-1] == ' ' || end[-1] == '\t')) end--;
    v->negative = c < end && *c == '-';
    c += c < end && (*c == '-' || *c == '+');
    c = take_digits(c, end, v);
    if (c != NULL) c = take_exponent(c, end, v);
    if (v->n == 0) v->exponent = v->negative = 0;
    return c == end && c != NULL;
}

bool dt__value_text(const char *text, size_t n, char out[DT__VALUE_TEXT])
{
    value v;
    if (!read(text, n, &v)) return false;
    char *to = out;
    const bool plain = v.exponent > LEAST && v.exponent <= LONGEST;
    const int64_t before = plain ? v.exponent : 1; /* digits before the point */
    if (v.negative) *to++ = '-';
    if (before <= 0 || v.n == 0) *to++ = '0';
    for (int64_t i = 0; i < before && v.n > 0; i++) *to++ = i < v.n ? v.digit[i] : '0';
    if (v.n > before) *to++ = '.';
    for (int64_t i = before; i < v.n; i++) *to++ = i < 0 ? '0' : v.digit[i];
    *to = 0;
    if (!plain) snprintf(to, 22, "e%lld", (long long)v.exponent - 1);
    return true;
}

int dt__value_compare(const char *a, const char *b)
{
    value x, y;
    read(a, strlen(a), &x);
    read(b, strlen(b), &y);
    const int sign_x = x.n == 0     ? 0
                       : x.negative ? -1
                                    : 1,
              sign_y = y.n == 0     ? 0
                       : y.negative ? -1
                                    : 1;
    if (sign_x != sign_y || sign_x == 0) return sign_x - sign_y;
    if (x.exponent != y.exponent) return x.exponent > y.exponent ? sign_x : -sign_x;
    for (int i = 0; i < MOST_DIGITS; i++) {
        const int p = i < x.n ? x.digit[i] : '0', q = i < y.n ? y.digit[i] : '0';
        if (p != q) return p > q ? sign_x : -sign_x;
    }
    return 0;
}

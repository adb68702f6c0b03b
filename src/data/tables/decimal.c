/* Decimal numbers, correctly rounded to f32 or f64. The first 19 digits w and the exponent e give
 *     d = w 10^e      in double
 * with four roundings at most, so the true value is within 4 units of d's last place. If both ends
 * of that interval round to the same f32, so does the true value [the idea of Clinger, "How to read
 * floating point numbers accurately", 1990]. Otherwise the C library parses "digits e exponent",
 * which has no decimal point and so does not depend on the locale. For f64, digits of at most 2^53
 * with a power of ten up to 22 are one exact operation; all others are read by the C library.
 * Digits are read eight at a time [the idea of Lemire, "Number parsing at a gigabyte per second",
 * 2021]. */
#include "data/tables/decimal.h"
#include "core/text/ending.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_DIGITS 19 /* digits that fit 64 bits */
#define MOST_POWER 60  /* of ten, in the table */
/* largest number of digits that matter: a value halfway between two f64 has at most 768 */
#define SIGNIFICANT 800
#define FAR 100000     /* an exponent beyond every f64 */
#define EXACT_POWER 22 /* largest exact power of ten in a double */

static const double powers[MOST_POWER + 1] = {
    1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22, 1e23, 1e24, 1e25, 1e26, 1e27, 1e28, 1e29, 1e30, 1e31,
    1e32, 1e33, 1e34, 1e35, 1e36, 1e37, 1e38, 1e39, 1e40, 1e41, 1e42, 1e43, 1e44, 1e45, 1e46, 1e47,
    1e48, 1e49, 1e50, 1e51, 1e52, 1e53, 1e54, 1e55, 1e56, 1e57, 1e58, 1e59, 1e60,
};

/* A number as it is written; its first digits are w 10^exponent. */
typedef struct decimal {
    bool negative;
    const char *digits, *digits_end; /* including the point */
    uint64_t w;                      /* the first 19 significant digits */
    int64_t exponent;                /* of the last digit of w */
} decimal;

/* Reads digits from `at` on; each fraction digit that is added to w lowers the exponent. */
static const char *take_digits(const char *at, const char *end, bool fraction, decimal *d)
{
    const uint64_t room = UINT64_C(1000000000000000000); /* 10^18 */
    for (; at < end && dt__is_digit(*at); at++) {
        if (d->w < room) {
            d->w = 10 * d->w + (uint64_t)(*at - '0');
            d->exponent -= fraction;
        } else {
            d->exponent += !fraction;
        }
    }
    return at;
}

/* Reads [e[-+]digits], which may be absent. */
static const char *take_exponent(const char *at, const char *end, decimal *d)
{
    const char *c = at;
    if (c == end || (*c != 'e' && *c != 'E')) return at;
    c++;
    const bool negative = c < end && *c == '-';
    if (c < end && (*c == '-' || *c == '+')) c++;
    if (c == end || !dt__is_digit(*c)) return at;
    int64_t exponent = 0;
    for (; c < end && dt__is_digit(*c); c++) {
        if (exponent < FAR) exponent = 10 * exponent + (*c - '0');
    }
    d->exponent += negative ? -exponent : exponent;
    return c;
}

static const char *scan(const char *at, const char *end, decimal *d)
{
    *d = (decimal){ .negative = at < end && *at == '-' };
    if (at < end && (*at == '-' || *at == '+')) at++;
    d->digits = at;
    const char *c = take_digits(at, end, false, d);
    const bool whole = c > at;
    bool part = false;
    if (c < end && *c == '.') {
        const char *after = take_digits(c + 1, end, true, d);
        part = after > c + 1;
        if (whole || part) c = after;
    }
    d->digits_end = c;
    return whole || part ? take_exponent(c, end, d) : NULL;
}

static double moved(double x, int64_t steps)
{
    int64_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits += steps;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* All digits that matter, for the C library; a further digit 1 replaces ignored nonzero ones. */
static const char *text_of(const decimal *d, char text[SIGNIFICANT + 32])
{
    char *to = text;
    int64_t n = 0;
    bool more = false;
    if (d->negative) *to++ = '-';
    for (const char *c = d->digits; c < d->digits_end; c++) {
        if (*c == '.' || (n == 0 && *c == '0')) continue;
        if (n < SIGNIFICANT) *to++ = *c;
        else more |= *c != '0';
        n++;
    }
    const int64_t kept = n < SIGNIFICANT ? n : SIGNIFICANT,
                  in_w = n < MOST_DIGITS ? n : MOST_DIGITS;
    if (more) *to++ = '1';
    snprintf(to, 28, "e%lld", (long long)(d->exponent - (kept - in_w) - more));
    return text;
}

/* The number as a 64-bit integer; false: it is not one. */
static bool as_integer(const decimal *d, int64_t *out)
{
    uint64_t w = d->w;
    int64_t e = d->exponent;
    for (; e < 0 && w % 10 == 0 && w != 0; e++) w /= 10;
    for (; e > 0 && w <= INT64_MAX / 10; e--) w *= 10;
    if (w != 0 && (e != 0 || w > INT64_MAX)) return false;
    *out = d->negative ? -(int64_t)w : (int64_t)w;
    return true;
}

static void set_exact(const decimal *d, double magnitude, dt__exact *out)
{
    *out = (dt__exact){ .value = d->negative ? -magnitude : magnitude };
    if (as_integer(d, &out->integer)) out->is_integer = true;
    else *out = dt__exact_real(out->value);
}

#define MOST_BRIEF 15                /* digits, so that they are below 2^53 */
#define BELOW UINT64_C(0x1FFFFFFF)   /* bits of a double that f32 lacks, */
#define HALFWAY UINT64_C(0x10000000) /* and their value halfway between two f32 */
#define NEAR 4                       /* units of the last place */
#define EACH_BYTE UINT64_C(0x0101010101010101)

/* A number as in most tables: at most 15 digits, with or without a point, no exponent. Then w and
 * 10^places are exact in double, and w / 10^places is rounded once. */
typedef struct brief {
    uint64_t w;
    int64_t places; /* digits behind the point */
    bool negative, has_point;
} brief;

/* Eight characters as a number, the first in the lowest byte. */
static uint64_t load_eight(const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    return (uint64_t)c[0] | (uint64_t)c[1] << 8 | (uint64_t)c[2] << 16 | (uint64_t)c[3] << 24 |
           (uint64_t)c[4] << 32 | (uint64_t)c[5] << 40 | (uint64_t)c[6] << 48 |
           (uint64_t)c[7] << 56;
}

/* The number of digits before the first non-digit. Additions and subtractions carry only upwards,
 * so the lowest marked byte is correct. */
static unsigned count_digits(uint64_t v)
{
    const uint64_t none = ((v + 0x46 * EACH_BYTE) | (v - 0x30 * EACH_BYTE)) & (0x80 * EACH_BYTE);
    return (unsigned)((((none - 1) & ~none) >> 7 & EACH_BYTE) * EACH_BYTE >> 56);
}

/* The value of eight digits: by pairs, fours, and all. */
static uint64_t value_of_eight(uint64_t v)
{
    v = (v & 0x0F * EACH_BYTE) * 2561 >> 8;
    v = (v & UINT64_C(0x00FF00FF00FF00FF)) * 6553601 >> 16;
    return (v & UINT64_C(0x0000FFFF0000FFFF)) * UINT64_C(42949672960001) >> 32;
}

static const uint64_t tens[] = { 1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000 };

/* Appends all digits at `at` to w, which overflows if there are many. */
static const char *take_long_run(const char *at, const char *end, uint64_t *w)
{
    for (; at < end && dt__is_digit(*at); at++) *w = 10 * *w + (uint64_t)(*at - '0');
    return at;
}

/* Likewise; faster, as most runs have fewer than eight digits. */
static inline const char *take_run(const char *at, const char *end, uint64_t *w)
{
    if (end - at <= 8) return take_long_run(at, end, w);
    const uint64_t v = load_eight(at);
    const unsigned n = count_digits(v);
    if (n == 0) return at;
    *w = *w * tens[n] + value_of_eight(v << (64 - 8 * n));
    at += n;
    return n == 8 && dt__is_digit(*at) ? take_long_run(at, end, w) : at;
}

/* Parses this form; NULL: another form. */
static inline const char *scan_brief(const char *at, const char *end, brief *out)
{
    *out = (brief){ .negative = at < end && *at == '-' };
    const char *const first = at + out->negative, *c = take_run(first, end, &out->w);
    int64_t digits = c - first;
    if (c < end && *c == '.') {
        const char *const part = c + 1;
        c = take_run(part, end, &out->w);
        out->has_point = true;
        out->places = c - part;
        if (out->places == 0) return NULL;
        digits += out->places;
    }
    if (digits == 0 || digits > MOST_BRIEF) return NULL;
    return c < end && (*c == 'e' || *c == 'E') ? NULL : c;
}

/* Rounds w * 10^-places, whose error is at most two units in the last place; NULL if that is too
 * near to the middle between two f32. */
static const char *read_brief(const char *at, const char *end, dt__decimal *out)
{
    static const double parts[] = { 1,    1e-1, 1e-2,  1e-3,  1e-4,  1e-5,  1e-6,  1e-7,
                                    1e-8, 1e-9, 1e-10, 1e-11, 1e-12, 1e-13, 1e-14, 1e-15 };
    brief b;
    uint64_t bits;
    double value;
    const char *c = scan_brief(at, end, &b);
    if (c == NULL) return NULL;
    const bool whole = b.has_point && c[-1] == '0'; /* may be an integer */
    const double d = whole ? (double)b.w / powers[b.places] : (double)b.w * parts[b.places];
    memcpy(&bits, &d, sizeof bits);
    if (((bits - HALFWAY + NEAR) & BELOW) <= 2 * NEAR) return NULL;
    bits |= (uint64_t)b.negative << 63;
    memcpy(&value, &bits, sizeof value);
    out->value = (float)value;
    out->too_large = false;
    if (b.has_point && !(whole && d == floor(d))) out->exact = (dt__exact){ .value = value };
    else out->exact = dt__exact_integer((int64_t)value);
    return c;
}

const char *dt__decimal_read(const char *at, const char *end, dt__decimal *out)
{
    const char *brief_end = read_brief(at, end, out);
    if (brief_end != NULL) return brief_end;
    decimal d;
    const char *after = scan(at, end, &d);
    *out = (dt__decimal){ .too_large = false };
    if (after == NULL) return NULL;
    if (d.w == 0) {
        out->value = d.negative ? -0.0F : 0.0F;
        out->exact = dt__exact_integer(0);
        return after;
    }
    if (d.exponent >= -MOST_POWER && d.exponent <= MOST_POWER) {
        const double x =
            d.exponent < 0 ? (double)d.w / powers[-d.exponent] : (double)d.w * powers[d.exponent];
        const float low = (float)moved(x, -4), high = (float)moved(x, 4);
        set_exact(&d, x, &out->exact);
        if (low == high) {
            out->value = d.negative ? -low : low;
            out->too_large = isinf(low);
            return after;
        }
    }
    char text[SIGNIFICANT + 32];
    out->value = strtof(text_of(&d, text), NULL);
    out->too_large = isinf(out->value);
    if (out->exact.value == 0) out->exact = dt__exact_real((double)out->value);
    return after;
}

const char *dt__decimal_double(const char *at, const char *end, double *out)
{
    decimal d;
    brief b;
    const char *after = scan_brief(at, end, &b);
    if (after != NULL) {
        const double x = b.has_point ? (double)b.w / powers[b.places] : (double)b.w;
        *out = b.negative ? -x : x;
        return after;
    }
    after = scan(at, end, &d);
    if (after == NULL) return NULL;
    *out = d.negative ? -0.0 : 0.0;
    if (d.w == 0) return after;
    if (d.w > UINT64_C(1) << 53 || d.exponent < -EXACT_POWER || d.exponent > EXACT_POWER) {
        char text[SIGNIFICANT + 32];
        *out = strtod(text_of(&d, text), NULL);
        return after;
    }
    const double x =
        d.exponent < 0 ? (double)d.w / powers[-d.exponent] : (double)d.w * powers[d.exponent];
    *out = d.negative ? -x : x;
    return after;
}

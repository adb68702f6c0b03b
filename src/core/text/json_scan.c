/* A JSON scanner by RFC 8259: strings, numbers and punctuation, without recursion and without
 * allocations. Files may be malicious, so duplicate keys, ranges of numbers and depth must be
 * checked here, and a failed allocation must not change what is read; JSON libraries do not
 * guarantee that. */
#include "core/text/json.h"

#include "core/text/number.h"
#include "core/text/utf8.h"

#include <stdio.h>
#include <string.h>

/* The position of the scanner, for messages: the line, if the text has several, and the column,
 * counted from 1. */
static void put_place(const dt__json *j, char *out, size_t size)
{
    const unsigned char *begin = j->begin;
    long long line = 1;
    for (const unsigned char *c = j->begin; c < j->at; c++) {
        if (*c != '\n') continue;
        begin = c + 1;
        line++;
    }
    const long long at = (long long)(j->at - begin);
    if (line == 1) snprintf(out, size, "byte %lld", at);
    else snprintf(out, size, "line %lld, column %lld", line, at + 1);
}

dt_status dt__json_fail(const dt__json *j, const char *format, ...)
{
    char rule[512];
    DT__FORMAT(rule, sizeof rule, format);
    char place[64], text[DT__SHOWN];
    put_place(j, place, sizeof place);
    if (j->within == NULL) {
        return dt_fail(j->ctx, DT_ERR_FORMAT, "%s: %s of %s: %s", j->path, place, j->what, rule);
    }
    return dt_fail(j->ctx, DT_ERR_FORMAT, "%s: tensor '%s': %s (%s of %s)", j->path,
                   dt__shown(j->within, text), rule, place, j->what);
}

static void skip_space(dt__json *j)
{
    while (j->at < j->end &&
           (*j->at == ' ' || *j->at == '\t' || *j->at == '\n' || *j->at == '\r')) {
        j->at++;
    }
}

/* Skips white space and, if it comes next, `c`; returns whether it did. */
static bool comes_next(dt__json *j, char c)
{
    skip_space(j);
    if (j->at == j->end || *j->at != (unsigned char)c) return false;
    j->at++;
    return true;
}

dt_status dt__json_expect(dt__json *j, char c)
{
    if (comes_next(j, c)) return DT_OK;
    if (j->at == j->end) return dt__json_fail(j, "the text ends where '%c' is expected", c);
    return dt__json_fail(j, "'%c' is expected here", c);
}

bool dt__json_open(dt__json *j, char open)
{
    j->status = dt__json_expect(j, open);
    return j->status == DT_OK && !comes_next(j, open == '[' ? ']' : '}');
}

bool dt__json_more(dt__json *j, char close)
{
    const bool more = comes_next(j, ',');
    j->status = more ? DT_OK : dt__json_expect(j, close);
    return more;
}

dt_status dt__json_end(dt__json *j)
{
    skip_space(j);
    return j->at == j->end ? DT_OK : dt__json_fail(j, "nothing may follow here");
}

/* ---- strings ------------------------------------------------------------------------------ */

static bool hex4(dt__json *j, uint32_t *out)
{
    if (j->end - j->at < 4) return false;
    uint32_t v = 0;
    for (int i = 0; i < 4; i++) {
        const int c = j->at[i];
        if (c >= '0' && c <= '9') v = v * 16 + (uint32_t)(c - '0');
        else if (c >= 'a' && c <= 'f') v = v * 16 + (uint32_t)(c - 'a' + 10);
        else if (c >= 'A' && c <= 'F') v = v * 16 + (uint32_t)(c - 'A' + 10);
        else return false;
    }
    j->at += 4;
    *out = v;
    return true;
}

/* The digits after "\u". Two surrogates make one character; a single surrogate is an error. */
static dt_status unicode(dt__json *j, bool zero, char **to)
{
    uint32_t c, low;
    if (!hex4(j, &c)) return dt__json_fail(j, "\\u requires four hexadecimal digits");
    if (c == 0 && !zero) return dt__json_fail(j, "a string may not hold the character 0");
    if (c >= 0xdc00 && c <= 0xdfff)
        return dt__json_fail(j, "\\u must give both halves of a surrogate pair");
    if (c >= 0xd800 && c <= 0xdbff) {
        if (j->end - j->at < 2 || j->at[0] != '\\' || j->at[1] != 'u') {
            return dt__json_fail(j, "\\u must give both halves of a surrogate pair");
        }
        j->at += 2;
        if (!hex4(j, &low) || low < 0xdc00 || low > 0xdfff) {
            return dt__json_fail(j, "\\u must give both halves of a surrogate pair");
        }
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    *to += dt__utf8_put(c, *to); /* never longer than the escape */
    return DT_OK;
}

static dt_status escape(dt__json *j, bool zero, char **to)
{
    static const char names[] = "\"\\/bfnrt";
    static const char means[] = "\"\\/\b\f\n\r\t";
    if (j->at == j->end) return dt__json_fail(j, "the text ends within a string");
    const char c = (char)*j->at;
    if (c == 'u') {
        j->at++;
        return unicode(j, zero, to);
    }
    const char *found = c == 0 ? NULL : strchr(names, c);
    if (found == NULL) {
        return dt__json_fail(j, "a backslash must be followed by one of \"\\/bfnrtu");
    }
    j->at++;
    *(*to)++ = means[found - names];
    return DT_OK;
}

static dt_status scan_string(dt__json *j, bool zero, const char **out, size_t *bytes)
{
    skip_space(j);
    if (j->at == j->end || *j->at != '"') return dt__json_fail(j, "a string is expected here");
    j->at++;
    char *to = j->strings;
    for (;;) {
        if (j->at == j->end) return dt__json_fail(j, "the text ends within a string");
        if (*j->at == '"') break;
        if (*j->at == '\\') {
            j->at++;
            DT__TRY(escape(j, zero, &to));
            continue;
        }
        const int n = dt__utf8_length(j->at, j->end);
        if (n == 0) return dt__json_fail(j, "the text is not UTF-8");
        if (*j->at < 0x20) return dt__json_fail(j, "a bare control character within a string");
        memcpy(to, j->at, (size_t)n);
        to += n;
        j->at += n;
    }
    j->at++;
    *bytes = (size_t)(to - j->strings);
    *to++ = 0;
    *out = j->strings;
    j->strings = to;
    return DT_OK;
}

dt_status dt__json_string(dt__json *j, const char **out)
{
    size_t bytes;
    return scan_string(j, false, out, &bytes);
}

dt_status dt__json_bytes(dt__json *j, const char **out, size_t *bytes)
{
    return scan_string(j, true, out, bytes);
}

dt_status dt__json_key(dt__json *j, const char **out)
{
    DT__TRY(dt__json_string(j, out));
    return dt__json_expect(j, ':');
}

/* ---- numbers and words ----------------------------------------------------------------------- */

static bool is_digit(unsigned char c) { return c >= '0' && c <= '9'; }

dt_status dt__json_integer(dt__json *j, int64_t *out)
{
    skip_space(j);
    if (j->at < j->end && *j->at == '-') return dt__json_fail(j, "a number may not be negative");
    if (j->at == j->end || !is_digit(*j->at)) {
        return dt__json_fail(j, "a whole number is expected here");
    }
    if (*j->at == '0' && j->end - j->at > 1 && is_digit(j->at[1])) {
        return dt__json_fail(j, "a number may not begin with 0");
    }
    int64_t v = 0;
    for (; j->at < j->end && is_digit(*j->at); j->at++) {
        const int digit = *j->at - '0';
        if (v > (INT64_MAX - digit) / 10) return dt__json_fail(j, "a number of 2^63 or more");
        v = v * 10 + digit;
    }
    if (j->at < j->end && (*j->at == '.' || *j->at == 'e' || *j->at == 'E')) {
        return dt__json_fail(j, "a number must be whole, without point or exponent");
    }
    *out = v;
    return DT_OK;
}

static bool at_digit(const dt__json *j) { return j->at < j->end && is_digit(*j->at); }

static void take_digits(dt__json *j)
{
    while (at_digit(j)) j->at++;
}

static bool take(dt__json *j, char a, char b)
{
    if (j->at == j->end || (*j->at != (unsigned char)a && *j->at != (unsigned char)b)) return false;
    j->at++;
    return true;
}

/* A number by JSON's grammar, of any length. */
static dt_status scan_number(dt__json *j)
{
    skip_space(j);
    take(j, '-', '-');
    bool good = at_digit(j);
    if (!take(j, '0', '0')) take_digits(j);
    good = good && !at_digit(j);
    if (good && take(j, '.', '.')) {
        good = at_digit(j);
        take_digits(j);
    }
    if (good && take(j, 'e', 'E')) {
        take(j, '-', '+');
        good = at_digit(j);
        take_digits(j);
    }
    return good ? DT_OK : dt__json_fail(j, "a number is expected here");
}

dt_status dt__json_number(dt__json *j, char text[DT__NUMBER_TEXT])
{
    skip_space(j);
    const unsigned char *begin = j->at;
    DT__TRY(scan_number(j));
    const size_t n = (size_t)(j->at - begin);
    if (n >= DT__NUMBER_TEXT) {
        return dt__json_fail(j, "a number of more than %d characters", DT__NUMBER_TEXT - 1);
    }
    memcpy(text, begin, n);
    text[n] = 0;
    return DT_OK;
}

dt_status dt__json_signed(dt__json *j, int64_t *out)
{
    char text[DT__NUMBER_TEXT];
    DT__TRY(dt__json_number(j, text));
    if (dt__parse_int(text, out) == DT__NUMBER) return DT_OK;
    return dt__json_fail(j, "a whole number below 2^63 is expected here, not %s", text);
}

static bool take_word(dt__json *j, const char *word)
{
    const size_t n = strlen(word);
    skip_space(j);
    if ((size_t)(j->end - j->at) < n || memcmp(j->at, word, n) != 0) return false;
    j->at += n;
    return true;
}

dt_status dt__json_bool(dt__json *j, bool *out)
{
    *out = take_word(j, "true");
    if (*out || take_word(j, "false")) return DT_OK;
    return dt__json_fail(j, "true or false is expected here");
}

bool dt__json_null(dt__json *j) { return take_word(j, "null"); }

/* ---- values of any kind ---------------------------------------------------------------------- */

char dt__json_peek(dt__json *j)
{
    skip_space(j);
    return j->at == j->end ? 0 : (char)*j->at;
}

static dt_status skip_scalar(dt__json *j)
{
    const char *text;
    size_t bytes;
    bool truth;
    switch (dt__json_peek(j)) {
    case '"': return dt__json_bytes(j, &text, &bytes);
    case 't':
    case 'f': return dt__json_bool(j, &truth);
    case 'n': return dt__json_null(j) ? DT_OK : dt__json_fail(j, "a value is expected here");
    default: return scan_number(j);
    }
}

/* Bit i says whether the i-th open list or object, counted from the innermost, is an object. */
typedef struct around {
    int depth;
    uint64_t objects;
} around;

static dt_status open_one(dt__json *j, around *a, bool *empty)
{
    if (a->depth == DT__JSON_DEPTH) {
        return dt__json_fail(j, "lists and objects are nested more than %d deep", DT__JSON_DEPTH);
    }
    const bool object = *j->at++ == '{';
    a->objects = a->objects << 1 | (uint64_t)object;
    a->depth++;
    *empty = dt__json_peek(j) == (object ? '}' : ']');
    return DT_OK;
}

/* After a value: skips closing brackets, up to the next value. */
static dt_status close_some(dt__json *j, around *a)
{
    while (a->depth > 0) {
        const bool object = (a->objects & 1) != 0;
        const char *key;
        const bool more = dt__json_more(j, object ? '}' : ']');
        if (more) return object ? dt__json_key(j, &key) : DT_OK;
        DT__TRY(j->status);
        a->objects >>= 1;
        a->depth--;
    }
    return DT_OK;
}

dt_status dt__json_skip(dt__json *j)
{
    around a = { 0, 0 };
    char *const strings = j->strings;
    const char *key;
    do {
        const char c = dt__json_peek(j);
        bool empty = true;
        if (c == '{' || c == '[') DT__TRY(open_one(j, &a, &empty));
        else DT__TRY(skip_scalar(j));
        if (!empty && c == '{') DT__TRY(dt__json_key(j, &key));
        if (empty) DT__TRY(close_some(j, &a));
        j->strings = strings;
    } while (a.depth > 0);
    return DT_OK;
}

/* ---- messages ----------------------------------------------------------------------------- */

const char *dt__shown(const char *name, char text[DT__SHOWN])
{
    const size_t length = strlen(name);
    const size_t room = DT__SHOWN - sizeof "...";
    size_t n = length < DT__SHOWN ? length : room;
    /* Never cuts within a character. */
    while (n < length && n > 0 && ((unsigned char)name[n] & 0xc0) == 0x80) n--;
    memcpy(text, name, n);
    strcpy(text + n, n < length ? "..." : "");
    dt_text_clean(text);
    return text;
}

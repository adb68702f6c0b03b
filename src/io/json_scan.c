/* A JSON scanner: strings, numbers and punctuation, by RFC 8259, without recursion and without
 * memory of its own. A general JSON library is not used here, because a header comes from strangers:
 * duplicates, numbers and depth must be judged, and a failing malloc inside a library must not turn
 * into a wrong name. */
#include "io/json.h"

#include <stdio.h>
#include <string.h>

dt_status dt__json_fail(const dt__json *j, const char *format, ...)
{
    char rule[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(rule, sizeof rule, format, arguments);
    va_end(arguments);
    const long long at = (long long)(j->at - j->begin);
    if (j->within == NULL) {
        return dt_fail(j->ctx, DT_ERR_FORMAT, "%s: byte %lld of %s: %s", j->path, at, j->what,
                       rule);
    }
    char text[DT__SHOWN];
    return dt_fail(j->ctx, DT_ERR_FORMAT, "%s: tensor '%s': %s (byte %lld of %s)", j->path,
                   dt__shown(j->within, text), rule, at, j->what);
}

static void skip_space(dt__json *j)
{
    while (j->at < j->end &&
           (*j->at == ' ' || *j->at == '\t' || *j->at == '\n' || *j->at == '\r')) {
        j->at++;
    }
}

bool dt__json_next(dt__json *j, char c)
{
    skip_space(j);
    if (j->at == j->end || *j->at != (unsigned char)c) return false;
    j->at++;
    return true;
}

dt_status dt__json_expect(dt__json *j, char c)
{
    if (dt__json_next(j, c)) return DT_OK;
    if (j->at == j->end) return dt__json_fail(j, "the text ends where '%c' must stand", c);
    return dt__json_fail(j, "'%c' must stand here", c);
}

dt_status dt__json_more(dt__json *j, char close, bool *more)
{
    *more = dt__json_next(j, ',');
    return *more ? DT_OK : dt__json_expect(j, close);
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

/* A character as UTF-8; returns the end. Never longer than the escape that wrote it. */
static char *put_utf8(char *to, uint32_t c)
{
    if (c < 0x80) {
        *to++ = (char)c;
        return to;
    }
    int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const uint32_t lead[] = { 0, 0xc0, 0xe0, 0xf0 };
    *to++ = (char)(lead[more] | c >> (6 * more));
    while (more-- > 0) *to++ = (char)(0x80 | ((c >> (6 * more)) & 0x3f));
    return to;
}

/* After "\u". Two halves of a surrogate pair make one character; one half alone is none. */
static dt_status unicode(dt__json *j, char **to)
{
    uint32_t c, low;
    if (!hex4(j, &c)) return dt__json_fail(j, "\\u wants four hexadecimal digits");
    if (c == 0) return dt__json_fail(j, "a string may not hold the character 0");
    if (c >= 0xdc00 && c <= 0xdfff) return dt__json_fail(j, "half a surrogate pair");
    if (c >= 0xd800 && c <= 0xdbff) {
        if (j->end - j->at < 2 || j->at[0] != '\\' || j->at[1] != 'u') {
            return dt__json_fail(j, "half a surrogate pair");
        }
        j->at += 2;
        if (!hex4(j, &low) || low < 0xdc00 || low > 0xdfff) {
            return dt__json_fail(j, "half a surrogate pair");
        }
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    *to = put_utf8(*to, c);
    return DT_OK;
}

static dt_status escape(dt__json *j, char **to)
{
    static const char names[] = "\"\\/bfnrt";
    static const char means[] = "\"\\/\b\f\n\r\t";
    if (j->at == j->end) return dt__json_fail(j, "the text ends within a string");
    const char c = (char)*j->at;
    if (c == 'u') {
        j->at++;
        return unicode(j, to);
    }
    const char *found = c == 0 ? NULL : strchr(names, c);
    if (found == NULL) return dt__json_fail(j, "no escape of JSON");
    j->at++;
    *(*to)++ = means[found - names];
    return DT_OK;
}

/* Length of the UTF-8 sequence at `p`, before `end`; 0 where there is none: RFC 3629, so no
 * overlong forms, no surrogates, nothing above U+10FFFF. */
static int utf8_length(const unsigned char *p, const unsigned char *end)
{
    if (p[0] < 0x80) return 1;
    const int n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || end - p < n) return 0;
    for (int i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0;
    }
    if (p[0] == 0xe0 && p[1] < 0xa0) return 0;
    if (p[0] == 0xed && p[1] > 0x9f) return 0;
    if (p[0] == 0xf0 && p[1] < 0x90) return 0;
    if (p[0] == 0xf4 && p[1] > 0x8f) return 0;
    return n;
}

bool dt__is_utf8(const char *text)
{
    const unsigned char *p = (const unsigned char *)text, *end = p + strlen(text);
    while (p < end) {
        const int n = utf8_length(p, end);
        if (n == 0) return false;
        p += n;
    }
    return true;
}

dt_status dt__json_string(dt__json *j, const char **out)
{
    skip_space(j);
    if (j->at == j->end || *j->at != '"') return dt__json_fail(j, "a string must stand here");
    j->at++;
    char *to = j->strings;
    for (;;) {
        if (j->at == j->end) return dt__json_fail(j, "the text ends within a string");
        if (*j->at == '"') break;
        if (*j->at == '\\') {
            j->at++;
            DT__TRY(escape(j, &to));
            continue;
        }
        const int n = utf8_length(j->at, j->end);
        if (n == 0) return dt__json_fail(j, "no UTF-8");
        if (*j->at < 0x20) return dt__json_fail(j, "a bare control character within a string");
        memcpy(to, j->at, (size_t)n);
        to += n;
        j->at += n;
    }
    j->at++;
    *to++ = 0;
    *out = j->strings;
    j->strings = to;
    return DT_OK;
}

/* ---- numbers and words ----------------------------------------------------------------------- */

static bool is_digit(unsigned char c) { return c >= '0' && c <= '9'; }

dt_status dt__json_integer(dt__json *j, int64_t *out)
{
    skip_space(j);
    if (j->at < j->end && *j->at == '-') return dt__json_fail(j, "a number may not be negative");
    if (j->at == j->end || !is_digit(*j->at)) {
        return dt__json_fail(j, "a whole number must stand here");
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

dt_status dt__json_number(dt__json *j, char text[DT__NUMBER_TEXT])
{
    skip_space(j);
    const unsigned char *begin = j->at;
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
    const size_t n = (size_t)(j->at - begin);
    if (!good) return dt__json_fail(j, "a number must stand here");
    if (n >= DT__NUMBER_TEXT) {
        return dt__json_fail(j, "a number of more than %d characters", DT__NUMBER_TEXT - 1);
    }
    memcpy(text, begin, n);
    text[n] = 0;
    return DT_OK;
}

dt_status dt__json_bool(dt__json *j, bool *out)
{
    static const char *const words[] = { "false", "true" };
    skip_space(j);
    for (int i = 0; i < 2; i++) {
        const size_t n = strlen(words[i]);
        if ((size_t)(j->end - j->at) < n || memcmp(j->at, words[i], n) != 0) continue;
        j->at += n;
        *out = i == 1;
        return DT_OK;
    }
    return dt__json_fail(j, "true or false must stand here");
}

/* ---- messages ----------------------------------------------------------------------------- */

const char *dt__shown(const char *name, char text[DT__SHOWN])
{
    const size_t length = strlen(name);
    const size_t room = DT__SHOWN - sizeof "...";
    size_t n = length < DT__SHOWN ? length : room;
    /* Never cut within a character. */
    while (n < length && n > 0 && ((unsigned char)name[n] & 0xc0) == 0x80) n--;
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)name[i];
        text[i] = c < 0x20 || c == 0x7f ? '?' : name[i];
    }
    strcpy(text + n, n < length ? "..." : "");
    return text;
}

/* Values are found by the characters before them, so that text between escaped quotes, or without
 * quotes, is found as well. */
#include "damaged_text.h"

#include "testing.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct value {
    size_t at, end;
    /* the quote of a string as it is in the text, escaped or not; NULL: not a string */
    const char *quote;
    bool key, list;
} value;

static bool begins(const char *text, size_t left, const char *with)
{
    return left >= strlen(with) && memcmp(text, with, strlen(with)) == 0;
}

/* The position behind the closing quote of a string whose opening quote ends at `at`; n: there is
 * none. */
static size_t end_of_string(const char *text, size_t n, size_t at, const char *quote)
{
    for (; at < n; at++) {
        const bool escaped = text[at - 1] == '\\' && (*quote != '\\' || text[at - 2] == '\\');
        if (!escaped && begins(text + at, n - at, quote)) return at + strlen(quote);
    }
    return n;
}

static size_t end_of_list(const char *text, size_t n, size_t at)
{
    int depth = 0;
    for (; at < n; at++) {
        depth += text[at] == '[' || text[at] == '{';
        depth -= text[at] == ']' || text[at] == '}';
        if (depth == 0) return at + 1;
    }
    return n;
}

/* Whether a value begins at `at`. */
static bool value_at(const char *text, size_t n, size_t at, value *v)
{
    const char *quote = begins(text + at, n - at, "\\\"")                      ? "\\\""
                        : text[at] == '"' && (at == 0 || text[at - 1] != '\\') ? "\""
                                                                               : NULL;
    const char before = at == 0 ? 0 : text[at - 1];
    *v = (value){ .at = at, .quote = quote };
    if (strchr(":[{, ", before) == NULL || before == 0) return false;
    if (quote != NULL) {
        v->end = end_of_string(text, n, at + strlen(quote), quote);
        v->key = v->end < n && text[v->end] == ':';
        return true;
    }
    v->list = text[at] == '[' || text[at] == '{';
    if (v->list) v->end = end_of_list(text, n, at);
    else v->end = at + strcspn(text + at, ":,]}\\\" \n");
    return v->end > at && v->end <= n && text[v->end] != ':';
}

/* ---- changes --------------------------------------------------------------------------------- */

static const char *const plain[] = { "0",     "-1",   "1",    "2",
                                     "3",     "7",    "0.5",  "9223372036854775807",
                                     "1e300", "null", "true", "false",
                                     "[]",    "{}" };
static const char *const quoted[] = { "", "x", "f16", "I32", "a.b", "[1]", "\\n" };

#define PLAIN ((int64_t)(sizeof plain / sizeof *plain))
#define QUOTED ((int64_t)(sizeof quoted / sizeof *quoted))

/* The text with the bytes from `at` to `end` replaced by others. */
static char *replaced(const char *text, size_t n, const size_t range[2], const char *by,
                      size_t *size)
{
    const size_t length = strlen(by);
    *size = n - (range[1] - range[0]) + length;
    char *out = malloc(*size + 1);
    ck_assert_ptr_nonnull(out);
    memcpy(out, text, range[0]);
    memcpy(out + range[0], by, length);
    memcpy(out + range[0] + length, text + range[1], n - range[1]);
    out[*size] = 0;
    return out;
}

/* An element, or a key with its value, and the comma behind it. */
static size_t end_of_member(const char *text, size_t n, const value *v)
{
    value of;
    size_t end = v->end;
    if (v->key && end + 1 < n && value_at(text, n, end + 1, &of)) end = of.end;
    return end < n && text[end] == ',' ? end + 1 : end;
}

/* Change i of a value: removed, repeated, or replaced. */
static char *change(const char *text, size_t n, const value *v, int64_t i, size_t *size)
{
    const size_t whole[2] = { v->at, v->end }, member[2] = { v->at, end_of_member(text, n, v) };
    const size_t none[2] = { v->at, v->at };
    char by[256];
    if (i == 0) return replaced(text, n, member, "", size);
    if (i == 1) {
        const size_t length = member[1] - member[0];
        if (length + 2 > sizeof by) return NULL;
        snprintf(by, sizeof by, "%.*s%s", (int)length, text + v->at,
                 text[member[1] - 1] == ',' ? "" : ",");
        return replaced(text, n, none, by, size);
    }
    i -= 2;
    if (i < QUOTED) {
        const char *quote = v->quote != NULL ? v->quote : "\"";
        snprintf(by, sizeof by, "%s%s%s", quote, quoted[i], quote);
    } else {
        snprintf(by, sizeof by, "%s", plain[i - QUOTED]);
    }
    return replaced(text, n, whole, by, size);
}

char *damaged_text(const char *text, size_t n, int64_t k, size_t *size)
{
    value v;
    for (size_t at = 0; at < n; at++) {
        if (!value_at(text, n, at, &v)) continue;
        const int64_t changes = 2 + QUOTED + (v.key ? 0 : PLAIN);
        if (k < changes) {
            char *out = change(text, n, &v, k, size);
            return out != NULL ? out : replaced(text, n, (size_t[]){ at, at }, "", size);
        }
        k -= changes;
    }
    return NULL;
}

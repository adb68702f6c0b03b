/* Parses a field of a row, in the same way in every locale. Numbers are rounded to the nearest
 * double; words for booleans and missing values are compared ignoring case. */
#include "data/columns/columns.h"
#include "data/tables/decimal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static dt_status refuse(dt_ctx *ctx, const char *text, size_t n, const char *why)
{
    char cut[DT__SHOWN / 2], shown[DT__SHOWN];
    snprintf(cut, sizeof cut, "%.*s", (int)dt__min_i64((int64_t)n, DT__SHOWN), text);
    return dt_fail(ctx, DT_ERR_FORMAT, "'%s' %s", dt__shown(cut, shown), why);
}

static dt_status parse_number(dt_ctx *ctx, const char *text, size_t n, double *out)
{
    const char *end = text + n, *after = dt__decimal_double(text, end, out);
    if (after != end) return refuse(ctx, text, n, "is not a number");
    return isfinite(*out) ? DT_OK : refuse(ctx, text, n, "is beyond the range of f64");
}

/* Whether the text equals `word`, which is in lower case, ignoring case. */
static bool is_word(const char *word, const char *text, size_t n)
{
    size_t i = 0;
    for (; i < n && word[i] != 0; i++) {
        const char c = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] - 'A' + 'a') : text[i];
        if (c != word[i]) return false;
    }
    return i == n && word[i] == 0;
}

static dt_status parse_boolean(dt_ctx *ctx, const char *text, size_t n, double *out)
{
    static const char *const words[] = { "false", "true", "no", "yes", "off", "on",
                                         "f",     "t",    "n",  "y",   "0",   "1" };
    for (int i = 0; i < DT__COUNT_OF(words); i++) {
        if (!is_word(words[i], text, n)) continue;
        *out = i % 2;
        return DT_OK;
    }
    return refuse(ctx, text, n,
                  "is not a boolean; expected false/true, no/yes, off/on, f/t, n/y or 0/1");
}

bool dt__column_is_missing(const dt_column *c, const char *text, size_t n)
{
    static const char *const words[] = { "", "na", "nan", "null", "?" };
    for (int i = 0; i < DT__COUNT_OF(words); i++) {
        if (is_word(words[i], text, n)) return true;
    }
    for (int64_t i = 0; i < c->n_words; i++) {
        if (strlen(c->word[i]) == n && memcmp(c->word[i], text, n) == 0) return true;
    }
    return false;
}

static double code_of(const dt_column *c, const char *text, size_t n)
{
    for (int64_t i = 0; i < c->n_categories; i++) {
        const char *word = c->category[i]; /* a field may hold NUL */
        if (strlen(word) == n && memcmp(word, text, n) == 0) return (double)(i + 1);
    }
    return 0;
}

dt_status dt_column_parse(dt_ctx *ctx, const dt_column *c, const char *text, size_t n,
                          dt_field *out)
{
    DT__NEED4(ctx, ctx, c, text, out);
    out->number = (double)NAN;
    if (dt__column_is_missing(c, text, n)) return DT_OK;
    switch (c->type) {
    case DT_COLUMN_NUMBER: return parse_number(ctx, text, n, &out->number);
    case DT_COLUMN_BOOLEAN: return parse_boolean(ctx, text, n, &out->number);
    case DT_COLUMN_TIME: return dt__time_parse(ctx, c->format, text, n, &out->number);
    case DT_COLUMN_CATEGORY: out->number = code_of(c, text, n); return DT_OK;
    default: return DT_OK;
    }
}

/* Labels and the classes that they name (labels.h). */
#include "data/labels.h"

#include "core/text/number.h"

#include <string.h>

/* An integer as dt__print_integer would write it: 07 and 1.0 are words. */
static bool is_integer(const char *word, int64_t *value)
{
    const char *digits = word + (*word == '-');
    if (*digits < '0' || *digits > '9' || (*digits == '0' && (digits[1] != 0 || *word == '-'))) {
        return false;
    }
    return dt__parse_int(word, value) == DT__NUMBER;
}

static int by_number(const void *a, const void *b)
{
    int64_t x = 0, y = 0;
    is_integer(*(char *const *)a, &x);
    is_integer(*(char *const *)b, &y);
    return (x > y) - (x < y);
}

dt_status dt__labels_begin(dt_ctx *ctx, dt__labels *l)
{
    if (l->known.names == NULL) return DT_OK;
    for (int64_t i = 0; i < l->known.n; i++) {
        const char *name = l->known.names[i];
        if (dt__words_add(ctx, &l->words, name, strlen(name)) < 0) return DT_ERR_NOMEM;
    }
    l->is_closed = true;
    l->classes = l->known.n;
    l->is_numbers = l->words.n < l->known.n; /* two classes have one name */
    return DT_OK;
}

/* The class of a closed label; -1: none. Where a model's names are no numbers, the numbers of its
 * classes are labels too. */
static int64_t class_of(const dt__labels *l, const char *text, size_t bytes)
{
    char word[24];
    int64_t value;
    const int64_t named = l->is_numbers ? -1 : dt__words_find(&l->words, text, bytes);
    if (named >= 0) return named;
    if (bytes >= sizeof word) return -1;
    memcpy(word, text, bytes);
    word[bytes] = '\0';
    if (!is_integer(word, &value) || value < 0 || value >= l->classes) return -1;
    if (l->is_numbers) return value;
    for (int64_t i = 0, number; i < l->words.n; i++) {
        if (l->known.names == NULL || is_integer(l->words.word[i], &number)) return -1;
    }
    return value;
}

dt__label_fault dt__labels_add(dt_ctx *ctx, dt__labels *l, const char *text, size_t bytes,
                               int32_t *out)
{
    int64_t i;
    if (l->is_closed) {
        i = class_of(l, text, bytes);
        if (i < 0) return DT__LABEL_UNKNOWN;
    } else {
        i = dt__words_find(&l->words, text, bytes);
        if (i < 0 && l->words.n == DT__MOST_WORDS) return DT__LABEL_EXCESS;
        if (i < 0) i = dt__words_add(ctx, &l->words, text, bytes);
        if (i < 0) return DT__LABEL_NOMEM;
    }
    *out = (int32_t)i;
    return DT__LABEL_GOOD;
}

bool dt__labels_are_numbers(const dt__labels *l, int64_t most, bool all)
{
    return (all && most < INT32_MAX) || most < dt__max_i64(l->known.n, l->least);
}

dt_status dt__labels_close(dt_ctx *ctx, dt__labels *l, int64_t *to)
{
    const int64_t n = l->words.n;
    int64_t least = INT64_MAX, most = -1;
    bool integers = true;
    if (l->is_closed) return DT_OK;
    l->is_closed = true;
    for (int64_t i = 0; i < n && integers; i++) {
        integers = is_integer(l->words.word[i], &to[i]);
        least = dt__min_i64(least, to[i]);
        most = dt__max_i64(most, to[i]);
    }
    l->is_numbers = integers && least >= 0 && dt__labels_are_numbers(l, most, most == n - 1);
    l->classes = l->is_numbers ? dt__max_i64(most + 1, l->least) : n;
    return l->is_numbers ? DT_OK : dt__words_sort(ctx, &l->words, integers ? by_number : NULL, to);
}

const char *const *dt__labels_names(const dt__labels *l)
{
    return l->is_numbers ? NULL : (const char *const *)l->words.word;
}

void dt__labels_free(dt_ctx *ctx, dt__labels *l) { dt__words_free(ctx, &l->words); }

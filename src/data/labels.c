/* Labels and their classes (labels.h). */
#include "data/labels.h"

#include "core/text/number.h"
#include "data/value_text.h"

#include <string.h>
#include <strings.h>

/* Parses an integer of 64 bits; false: a fraction, or too large. */
static bool is_integer(const char *value, int64_t *out)
{
    return dt__parse_int(value, out) == DT__NUMBER;
}

static int by_value(const void *a, const void *b)
{
    return dt__value_compare(*(char *const *)a, *(char *const *)b);
}

/* Whether a label is NaN, as missing numbers are written. */
static bool is_nan_text(const char *word)
{
    word += *word == '-' || *word == '+';
    return strcasecmp(word, "nan") == 0;
}

/* Refuses a missing value if all other labels are numbers. If another label is a word, it is a
 * word, too. */
static dt_status check_missing(dt_ctx *ctx, const dt__labels *l)
{
    char value[DT__VALUE_TEXT];
    const char *missing = NULL;
    bool number = false;
    for (int64_t i = 0; i < l->words.n; i++) {
        const char *word = l->words.word[i];
        if (is_nan_text(word)) missing = word;
        else if (dt__value_text(word, strlen(word), value)) number = true;
        else return DT_OK;
    }
    if (missing == NULL || !number) return DT_OK;
    return dt_fail(ctx, DT_ERR_FORMAT,
                   "data: a label is '%s', and all others are numbers: a missing value is not a "
                   "class; leave out the rows that have it",
                   missing);
}

/* Fills l->values with the numeric values of all words; to[i]: the index of word i's value. Empties
 * l->values if a word is not a number. */
static dt_status take_values(dt_ctx *ctx, dt__labels *l, int64_t *to)
{
    char text[DT__VALUE_TEXT];
    for (int64_t i = 0; i < l->words.n; i++) {
        const char *word = l->words.word[i];
        if (!dt__value_text(word, strlen(word), text)) {
            dt__words_free(ctx, &l->values);
            return DT_OK;
        }
        const int64_t v = dt__words_add(ctx, &l->values, text, strlen(text));
        if (v < 0) return DT_ERR_NOMEM;
        if (to != NULL) to[i] = v;
    }
    return DT_OK;
}

/* ---- anomalies ------------------------------------------------------------------------------ */

static dt_status begin_anomalies(dt_ctx *ctx, dt__labels *l)
{
    static const dt_strings usual = { 3, { "0", "normal", "good" } };
    const dt_strings *normal = l->normal->n > 0 ? l->normal : &usual;
    for (int i = 0; i < normal->n; i++) {
        const char *word = normal->v[i];
        if (dt__words_add(ctx, &l->words, word, strlen(word)) < 0) return DT_ERR_NOMEM;
    }
    l->normals = l->words.n;
    l->is_closed = true;
    l->classes = 2;
    return DT_OK;
}

static bool is_normal(const dt__labels *l, const char *text, size_t bytes, const char *value)
{
    char other[DT__VALUE_TEXT];
    for (int64_t i = 0; i < l->normals; i++) {
        const char *word = l->words.word[i];
        const size_t n = strlen(word);
        if (n == bytes && strncasecmp(word, text, n) == 0) return true;
        if (value != NULL && dt__value_text(word, n, other) && strcmp(other, value) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether a label is NaN, a missing value, which must not count as anomalous. */
static bool is_missing(const char *text, size_t bytes)
{
    char word[8] = "";
    if (bytes < sizeof word) memcpy(word, text, bytes);
    return is_nan_text(word);
}

/* *out: 0: normal, 1: anomalous. Words of anomalous labels are collected. */
static dt__label_fault add_anomaly(dt_ctx *ctx, dt__labels *l, const char *text, size_t bytes,
                                   int32_t *out)
{
    char own[DT__VALUE_TEXT];
    const char *value = dt__value_text(text, bytes, own) ? own : NULL;
    *out = !is_normal(l, text, bytes, value);
    if (*out == 0) return DT__LABEL_GOOD;
    const bool other = l->normal->n == 0 && value != NULL && strcmp(value, "1") != 0;
    if (other || is_missing(text, bytes)) return DT__LABEL_UNKNOWN;
    const bool full = l->words.n >= DT__MOST_WORDS;
    return full || dt__words_add(ctx, &l->words, text, bytes) >= 0 ? DT__LABEL_GOOD
                                                                   : DT__LABEL_NOMEM;
}

/* ---- classes -------------------------------------------------------------------------------- */

dt_status dt__labels_begin(dt_ctx *ctx, dt__labels *l)
{
    if (l->normal != NULL) return begin_anomalies(ctx, l);
    if (l->known.names == NULL) return DT_OK;
    for (int64_t i = 0; i < l->known.n; i++) {
        const char *name = l->known.names[i];
        if (dt__words_add(ctx, &l->words, name, strlen(name)) < 0) return DT_ERR_NOMEM;
    }
    l->is_closed = true;
    l->classes = l->known.n;
    l->is_numbers = l->words.n < l->known.n; /* false if two classes have the same name */
    DT__TRY(take_values(ctx, l, NULL));
    if (l->values.n < l->words.n) dt__words_free(ctx, &l->values); /* or the same value */
    return DT_OK;
}

/* Whether a name is a number: then numbers are names, not indices of classes. */
static bool has_number(const dt__labels *l)
{
    char value[DT__VALUE_TEXT];
    for (int64_t i = 0; i < l->words.n; i++) {
        if (dt__value_text(l->words.word[i], strlen(l->words.word[i]), value)) return true;
    }
    return false;
}

/* The class of a label after closing; -1: none. If none of a model's names is a number, indices of
 * its classes are labels too. */
static int64_t class_of(const dt__labels *l, const char *text, size_t bytes)
{
    char value[DT__VALUE_TEXT];
    int64_t number;
    const int64_t named = l->is_numbers ? -1 : dt__words_find(&l->words, text, bytes);
    if (named >= 0 || !dt__value_text(text, bytes, value)) return named;
    if (!l->is_numbers && l->values.n > 0) {
        return dt__words_find(&l->values, value, strlen(value));
    }
    if (!is_integer(value, &number) || number < 0 || number >= l->classes) return -1;
    if (!l->is_numbers && (l->known.names == NULL || has_number(l))) return -1;
    return number;
}

dt__label_fault dt__labels_add(dt_ctx *ctx, dt__labels *l, const char *text, size_t bytes,
                               int32_t *out)
{
    int64_t i;
    if (l->normal != NULL) return add_anomaly(ctx, l, text, bytes, out);
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

const char *dt__labels_unknown(const dt__labels *l)
{
    if (l->normal != NULL) {
        return "is neither 0 (normal) nor 1 (anomalous), nor a word; data.normal: [LABEL, ...] "
               "names the labels of normal examples, and other numbers are anomalous then";
    }
    return l->known.names != NULL ? "is not a class of the model"
                                  : "is not a class of the training data";
}

bool dt__labels_are_numbers(const dt__labels *l, int64_t most, bool all)
{
    return (all && most < INT32_MAX) || most < l->known.n;
}

/* Sorts the values, and names each as it is written, if it is always written in the same way, else
 * by its number. to[i], the value of word i, becomes its class. */
static dt_status name_values(dt_ctx *ctx, dt__labels *l, int64_t *to)
{
    const int64_t n = l->values.n;
    dt__words names = { .n = 0 };
    int64_t *order = dt__alloc_array(ctx, 2 * n, sizeof *order), *word = order + n;
    dt_status s = order == NULL ? DT_ERR_NOMEM : dt__words_sort(ctx, &l->values, by_value, order);
    for (int64_t i = 0; s == DT_OK && i < n; i++) word[i] = -1;
    for (int64_t i = 0; s == DT_OK && i < l->words.n; i++) {
        to[i] = order[to[i]];
        word[to[i]] = word[to[i]] == -1 ? i : -2;
    }
    for (int64_t c = 0; s == DT_OK && c < n; c++) {
        const char *name = word[c] >= 0 ? l->words.word[word[c]] : l->values.word[c];
        if (dt__words_add(ctx, &names, name, strlen(name)) < 0) s = DT_ERR_NOMEM;
    }
    dt__release(ctx, order);
    dt__words_free(ctx, s == DT_OK ? &l->words : &names);
    if (s == DT_OK) l->words = names;
    return s;
}

dt_status dt__labels_close(dt_ctx *ctx, dt__labels *l, int64_t *to)
{
    if (l->is_closed) return DT_OK;
    DT__TRY(take_values(ctx, l, to));
    if (l->values.n == 0) DT__TRY(check_missing(ctx, l));
    const int64_t n = l->values.n;
    int64_t least = INT64_MAX, most = -1;
    bool integers = n > 0;
    l->is_closed = true;
    for (int64_t i = 0, v; i < n && integers; i++) {
        integers = is_integer(l->values.word[i], &v);
        if (integers) least = dt__min_i64(least, v);
        if (integers) most = dt__max_i64(most, v);
    }
    l->is_numbers = integers && least >= 0 && dt__labels_are_numbers(l, most, most == n - 1);
    l->classes = l->is_numbers ? most + 1 : n > 0 ? n : l->words.n;
    for (int64_t i = 0; l->is_numbers && i < l->words.n; i++) {
        is_integer(l->values.word[to[i]], &to[i]);
    }
    if (l->is_numbers) return DT_OK;
    return n > 0 ? name_values(ctx, l, to) : dt__words_sort(ctx, &l->words, NULL, to);
}

const char *const *dt__labels_names(const dt__labels *l)
{
    return l->is_numbers || l->normal != NULL ? NULL : (const char *const *)l->words.word;
}

void dt__labels_free(dt_ctx *ctx, dt__labels *l)
{
    dt__words_free(ctx, &l->words);
    dt__words_free(ctx, &l->values);
}

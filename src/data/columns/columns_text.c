/* Columns in a model file, a JSON list of objects:
 *     [{"name": "age", "type": "number", "scale": "robust", "missing": "median", "fill": 38,
 *       "offset": 38, "factor": 20, "indicator": true},
 *      {"name": "city", "type": "category", "missing": "code", "categories": ["Bonn", "Ulm"]},
 *      {"name": "at", "type": "time", "parts": ["hour", "of_week"], "format": "%d.%m.%Y %H:%M"}]
 * Values that are 0, false or empty are left out; an unknown key is refused. */
#include "core/block_list.h"
#include "core/text/utf8.h"
#include "data/columns/columns.h"

#include <math.h>
#include <string.h>

const char *const dt__column_types[] = { "number", "category", "boolean", "time", "ignore", NULL };
const char *const dt__column_scales[] = { "none", "log", "robust", "quantile", NULL };
const char *const dt__column_fills[] = { "refused",  "mean", "median", "frequent",
                                         "constant", "last", "code",   NULL };
const char *const dt__time_parts[] = { "seconds", "hour",   "weekday", "day",     "month",
                                       "year",    "of_day", "of_week", "of_year", NULL };

#define FIELD(key, kind, member)                                                                   \
    {                                                                                              \
        .name = key, .type = kind, .offset = offsetof(dt_column, member)                           \
    }

static const dt_key keys[] = {
    FIELD("name", DT_KEY_STRING, name),
    { .name = "type",
      .type = DT_KEY_CHOICE,
      .offset = offsetof(dt_column, type),
      .choices = dt__column_types },
    { .name = "scale",
      .type = DT_KEY_CHOICE,
      .offset = offsetof(dt_column, scale),
      .choices = dt__column_scales },
    { .name = "missing",
      .type = DT_KEY_CHOICE,
      .offset = offsetof(dt_column, missing),
      .choices = dt__column_fills },
    FIELD("format", DT_KEY_STRING, format),
    FIELD("indicator", DT_KEY_BOOL, indicator),
    FIELD("embedded", DT_KEY_BOOL, embedded),
    FIELD("fill", DT_KEY_REAL, fill),
    FIELD("offset", DT_KEY_REAL, offset),
    FIELD("factor", DT_KEY_REAL, factor),
    { .name = NULL },
};

#define KEYS (DT__COUNT_OF(keys) - 1)

/* ---- what a column may be -------------------------------------------------------------------- */

static bool are_words(const char *const *word, int64_t n)
{
    bool good = n >= 0 && n <= DT__MOST_COLUMNS && (n == 0 || word != NULL);
    for (int64_t i = 0; good && i < n; i++) good = word[i] != NULL && dt__is_utf8(word[i]);
    return good;
}

static bool are_quantiles(const dt_column *c)
{
    const int64_t n = c->n_quantiles;
    bool good = n >= 2 && n <= DT__MOST_COLUMNS && c->quantiles != NULL;
    for (int64_t i = 0; good && i < n; i++) {
        good = isfinite(c->quantiles[i]) && (i == 0 || c->quantiles[i] >= c->quantiles[i - 1]);
    }
    return good;
}

static bool is_fill(const dt_column *c)
{
    const double v = c->fill;
    switch (c->type) {
    case DT_COLUMN_CATEGORY: return v >= 0 && v <= (double)c->n_categories && v == floor(v);
    case DT_COLUMN_BOOLEAN: return v >= 0 && v <= 1;
    case DT_COLUMN_TIME: return v >= DT__TIME_LEAST && v < DT__TIME_END;
    default: return isfinite(v);
    }
}

/* Why a column is invalid, as a sentence without its subject; NULL: it is valid. */
static const char *column_fault(const dt_column *c)
{
    const bool category = c->type == DT_COLUMN_CATEGORY, time = c->type == DT_COLUMN_TIME;
    const bool mean = c->missing == DT_MISSING_MEAN || c->missing == DT_MISSING_MEDIAN;
    const bool named = c->name != NULL && *c->name != 0 && dt__is_utf8(c->name);
    if (!named) return "must have a name, in UTF-8";
    if (!are_words(c->word, c->n_words)) return "has words that are not UTF-8";
    if (c->type < 0 || c->type > DT_COLUMN_IGNORE) return "has an unknown type";
    if (c->type == DT_COLUMN_IGNORE) return NULL;
    if (c->scale < 0 || c->scale > DT_SCALE_QUANTILE) return "has an unknown scale";
    if (c->missing < 0 || c->missing > DT_MISSING_CODE) return "has an unknown rule of missing";
    if (c->scale != DT_SCALE_NONE && c->type != DT_COLUMN_NUMBER) {
        return "has a scale, which is of numbers";
    }
    if (!isfinite(c->offset) || !isfinite(c->factor) || !isfinite(c->fill)) {
        return "has an offset, factor or fill that is not finite";
    }
    if (c->scale == DT_SCALE_ROBUST && !(c->factor > 0)) return "has a factor that is not above 0";
    if (c->scale == DT_SCALE_QUANTILE && !are_quantiles(c)) {
        return "must have at least 2 quantiles, finite and in order";
    }
    if (c->missing == DT_MISSING_CODE && !category) return "has a code, which is of categories";
    if (mean && category) return "has a mean or median, which categories do not have";
    if (c->embedded && !category) return "is embedded, which is of categories";
    if (category && (!are_words(c->category, c->n_categories) || dt__column_codes(c) < 2)) {
        return "must have from 1 to 65536 categories, in UTF-8";
    }
    if (time && (c->parts == 0 || c->parts >> DT__TIME_PARTS != 0)) {
        return "must have parts of a time, and no unknown ones";
    }
    if (time && c->format != NULL && dt__time_format_fault(c->format) != NULL) {
        return "has a format with a directive that is not known";
    }
    if (dt__column_fills_in(c) && !is_fill(c)) return "has a fill that its type does not have";
    return NULL;
}

static dt_status check(dt_ctx *ctx, const dt_columns *c)
{
    char shown[DT__SHOWN];
    if (c->n < 0 || c->n > DT__MOST_COLUMNS || (c->n > 0 && c->column == NULL)) {
        return dt_fail(ctx, DT_ERR_ARG, "a table must have from 0 to %d columns", DT__MOST_COLUMNS);
    }
    for (int64_t i = 0; i < c->n; i++) {
        const char *fault = column_fault(&c->column[i]), *name = c->column[i].name;
        if (fault == NULL) continue;
        return dt_fail(ctx, DT_ERR_ARG, "column %lld, '%s', %s", (long long)i,
                       dt__shown(name == NULL ? "" : name, shown), fault);
    }
    return DT_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void begin_list(dt__chars *t, const char *name)
{
    DT__PUT_ALL(t, ", \"", name);
    dt__put_text(t, "\": [");
}

static void put_column(dt__chars *t, const dt_column *c)
{
    static const dt_column none = { .name = NULL };
    dt_key set[KEYS + 1];
    bool first = true;
    int n = 0;
    for (int i = 0; i < KEYS; i++) {
        const size_t at = keys[i].offset;
        const size_t bytes = keys[i].type == DT_KEY_BOOL     ? sizeof(bool)
                             : keys[i].type == DT_KEY_CHOICE ? sizeof(int)
                             : keys[i].type == DT_KEY_REAL   ? sizeof(double)
                                                             : sizeof(char *);
        const bool always = keys[i].choices == dt__column_types;
        if (always || memcmp((const char *)c + at, (const char *)&none + at, bytes) != 0) {
            set[n++] = keys[i];
        }
    }
    set[n] = keys[KEYS];
    dt__put_options(t, set, c);
    if (!t->failed) t->used--; /* removes the closing brace, as lists follow */
    if (c->parts != 0) begin_list(t, "parts");
    for (int i = 0; i < DT__TIME_PARTS; i++) {
        if ((c->parts >> i & 1) == 0) continue;
        dt__put_comma(t, &first);
        dt__put_quoted(t, dt__time_parts[i]);
    }
    if (c->parts != 0) dt__put_text(t, "]");
    if (c->n_quantiles > 0) begin_list(t, "quantiles");
    for (int64_t i = 0; dt__put_each(t, i, c->n_quantiles); i++) dt__put_real(t, c->quantiles[i]);
    if (c->n_quantiles > 0) dt__put_text(t, "]");
    if (c->n_categories > 0) begin_list(t, "categories");
    for (int64_t i = 0; dt__put_each(t, i, c->n_categories); i++) dt__put_quoted(t, c->category[i]);
    if (c->n_categories > 0) dt__put_text(t, "]");
    if (c->n_words > 0) begin_list(t, "words");
    for (int64_t i = 0; dt__put_each(t, i, c->n_words); i++) dt__put_quoted(t, c->word[i]);
    dt__put_text(t, c->n_words > 0 ? "]}" : "}");
}

void dt__columns_put(dt__chars *t, const dt_columns *c)
{
    dt__put_text(t, "[");
    for (int64_t i = 0; i < c->n; i++) {
        if (i > 0) dt__put_text(t, ",\n ");
        put_column(t, &c->column[i]);
    }
    dt__put_text(t, "]");
}

/* Writes JSON that ends with NUL; the caller frees t->bytes. */
static dt_status write_text(dt_ctx *ctx, const dt_columns *c, dt__chars *t)
{
    *t = (dt__chars){ .ctx = ctx };
    DT__TRY(check(ctx, c));
    dt__columns_put(t, c);
    return dt__chars_text(t) == NULL ? DT_ERR_NOMEM : DT_OK;
}

dt_status dt_columns_text(dt_ctx *ctx, const dt_columns *c, dt_sink sink, void *user)
{
    dt__chars t;
    DT__NEED3(ctx, ctx, c, sink);
    dt_status s = write_text(ctx, c, &t);
    if (s == DT_OK) s = sink(user, t.bytes, strlen(t.bytes));
    dt__release(ctx, t.bytes);
    return s;
}

/* ---- reading --------------------------------------------------------------------------------- */

static dt_status read_parts(dt__json *j, unsigned *out)
{
    for (bool more = dt__json_open(j, '['); more; more = dt__json_more(j, ']')) {
        const char *name;
        int i = 0;
        DT__TRY(dt__json_string(j, &name));
        while (dt__time_parts[i] != NULL && strcmp(dt__time_parts[i], name) != 0) i++;
        if (dt__time_parts[i] == NULL) return dt__json_fail(j, "an unknown part of a time");
        *out |= 1U << i;
    }
    return j->status;
}

static dt_status read_field(dt__json *j, void **blocks, const char *name, dt_column *c)
{
    char shown[DT__SHOWN];
    if (strcmp(name, "parts") == 0) return read_parts(j, &c->parts);
    if (strcmp(name, "quantiles") == 0) {
        return dt__json_values(j, blocks, false, &c->n_quantiles, (const void **)&c->quantiles);
    }
    if (strcmp(name, "categories") == 0) {
        return dt__json_values(j, blocks, true, &c->n_categories, (const void **)&c->category);
    }
    if (strcmp(name, "words") == 0) {
        return dt__json_values(j, blocks, true, &c->n_words, (const void **)&c->word);
    }
    for (const dt_key *key = keys; key->name != NULL; key++) {
        if (strcmp(key->name, name) == 0) return dt__json_value(j, key, c);
    }
    return dt__json_fail(j, "unknown key '%s' of a column", dt__shown(name, shown));
}

static dt_status read_column(dt__json *j, void **blocks, dt_column *c)
{
    char shown[DT__SHOWN];
    for (bool more = dt__json_open(j, '{'); more; more = dt__json_more(j, '}')) {
        const char *name;
        DT__TRY(dt__json_key(j, &name));
        DT__TRY(read_field(j, blocks, name, c));
    }
    DT__TRY(j->status);
    const char *fault = column_fault(c);
    if (fault == NULL) return DT_OK;
    return dt__json_fail(j, "column '%s' %s", dt__shown(c->name == NULL ? "" : c->name, shown),
                         fault);
}

dt_status dt__columns_read(dt__json *j, void **blocks, dt_columns *out)
{
    int64_t room = 0;
    dt_column *column = NULL;
    *out = (dt_columns){ .n = 0 };
    for (bool more = dt__json_open(j, '['); more; more = dt__json_more(j, ']'), out->n++) {
        if (out->n == DT__MOST_COLUMNS) {
            return dt__json_fail(j, "more than %d columns", DT__MOST_COLUMNS);
        }
        if (out->n == room) {
            room = room == 0 ? 16 : 2 * room;
            dt_column *larger = dt__block_list_add(j->ctx, blocks, (size_t)room * sizeof *larger);
            if (larger == NULL) return DT_ERR_NOMEM;
            if (out->n > 0) memcpy(larger, column, (size_t)out->n * sizeof *larger);
            out->column = column = larger;
        }
        DT__TRY(read_column(j, blocks, &column[out->n]));
    }
    return j->status;
}

dt_status dt_columns_parse(dt_ctx *ctx, const char *text, const char *name, dt_columns *out)
{
    DT__NEED3(ctx, ctx, text, out);
    const size_t n = strlen(text);
    void *blocks = NULL;
    *out = (dt_columns){ .n = 0 };
    char *strings = dt__block_list_add(ctx, &blocks, n + 1);
    if (strings == NULL) return DT_ERR_NOMEM;
    dt__json j = { .ctx = ctx,
                   .path = name == NULL ? "columns" : name,
                   .what = "the columns",
                   .strings = strings };
    j.begin = j.at = (const unsigned char *)text;
    j.end = j.begin + n;
    dt_status s = dt__columns_read(&j, &blocks, out);
    if (s == DT_OK) s = dt__json_end(&j);
    out->memory = blocks;
    if (s != DT_OK) dt_columns_free(ctx, out);
    return s;
}

dt_status dt__columns_copy(dt_ctx *ctx, const dt_columns *c, dt_columns *out)
{
    dt__chars t;
    *out = (dt_columns){ .n = 0 };
    dt_status s = write_text(ctx, c, &t);
    if (s == DT_OK) s = dt_columns_parse(ctx, t.bytes, "columns", out);
    dt__release(ctx, t.bytes);
    return s;
}

void dt_columns_free(dt_ctx *ctx, dt_columns *c)
{
    if (c == NULL || ctx == NULL) return;
    dt__block_list_free(ctx, &c->memory);
    *c = (dt_columns){ .n = 0 };
}

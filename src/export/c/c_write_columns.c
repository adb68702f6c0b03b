/* Format c: typed columns. NAME_fields has the fields of a row, and NAME_row encodes them as inputs
 * of NAME_run, with the same bits as dt_columns_encode and standardization: step by step in
 * double. */
#include "core/text/number.h"
#include "data/columns/columns.h"
#include "data/labels.h"
#include "export/c/c_write.h"

#include <stdio.h>
#include <string.h>

/* ---- names ----------------------------------------------------------------------------------- */

/* Adds `word` to the used names, with the suffix _2, _3, ... if it is used. NOMEM. */
static dt_status take_name(dt_ctx *ctx, dt__words *taken, char word[DT__C_LONG_NAME])
{
    size_t n = strlen(word);
    if (n > 0 && word[n - 1] == '_') n--; /* C++ reserves names with two underscores */
    for (int i = 2;; i++) {
        const int64_t before = taken->n, at = dt__words_add(ctx, taken, word, strlen(word));
        if (at < 0) return DT_ERR_NOMEM;
        if (at == before) return DT_OK;
        snprintf(word + n, DT__C_LONG_NAME - n, "_%d", i);
    }
}

static dt_status name_fields(dt__c_about *a)
{
    const dt_columns *t = a->table;
    dt_ctx *ctx = a->p->ctx;
    dt__words taken = { 0 };
    dt_status s = DT_OK;
    a->field = dt__alloc_array(ctx, t->n, sizeof *a->field);
    if (a->field == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < t->n && s == DT_OK; i++) {
        dt__c_identifier(t->column[i].name, a->field[i]);
        s = take_name(ctx, &taken, a->field[i]);
    }
    dt__words_free(ctx, &taken);
    return s;
}

/* The field's name as a part of another name: without the _ that was added to a reserved word. */
static dt__c_name stem_of(const dt__c_about *a, int64_t i)
{
    dt__c_name out;
    const size_t n = strlen(a->field[i]);
    snprintf(out.text, sizeof out.text, "%.*s", (int)(n - (a->field[i][n - 1] == '_')),
             a->field[i]);
    return out;
}

dt_status dt__c_begin_columns(dt__c_about *a)
{
    const dt_columns *t = a->row->table;
    if (t == NULL) return DT_OK;
    a->table = t;
    for (int64_t i = 0; i < t->n; i++) {
        const dt_column *c = &t->column[i];
        if (c->type == DT_COLUMN_NUMBER && c->scale == DT_SCALE_LOG) {
            dt__c_want(a->p, "column_log");
        }
        if (c->type == DT_COLUMN_NUMBER && c->scale == DT_SCALE_QUANTILE) {
            dt__c_want(a->p, "column_quantile");
        }
        if (c->type == DT_COLUMN_CATEGORY) {
            dt__c_want(a->p, "column_find");
            dt__c_want(a->p, "column_missing");
        }
        if (c->type == DT_COLUMN_TIME) dt__c_want(a->p, "column_moment");
        if (c->type == DT_COLUMN_TIME && c->parts >= DT_TIME_OF_DAY) {
            dt__c_want(a->p, "column_turn");
        }
    }
    DT__TRY(name_fields(a));
    return dt__c_make_rows(a);
}

/* A literal of double with the bits of v. */
dt__c_name dt__c_double(double v)
{
    dt__c_name out;
    char text[32];
    dt__print_real(v, text);
    snprintf(out.text, sizeof out.text, "%s%s", text, strpbrk(text, ".e") == NULL ? ".0" : "");
    return out;
}

/* ---- the header ------------------------------------------------------------------------------ */

/* Enumerators must differ from all other names of the header. */
static dt_status put_words(const dt__c_about *a, int64_t i, dt__words *taken, dt__chars *to)
{
    const dt_column *c = &a->table->column[i];
    const dt__c_name stem = stem_of(a, i);
    char word[DT__C_LONG_NAME], cleaned[DT__C_NAME], comment[DT__C_COMMENT];
    dt__put_text(to, "enum {\n");
    for (int64_t k = 0; k < dt__column_codes(c); k++) {
        const bool known = k > 0 && k <= c->n_categories;
        char lettered[DT__C_COMMENT]; /* with a letter in front: words may begin with digits */
        snprintf(lettered, sizeof lettered, "q%.64s", known ? c->category[k - 1] : "");
        dt__c_identifier(lettered, cleaned);
        const char *last = cleaned[1] == '_' ? cleaned + 2 : cleaned[1] != 0 ? cleaned + 1 : "word";
        snprintf(word, sizeof word, "%s_%s_%s", a->name, stem.text,
                 known    ? last
                 : k == 0 ? "unknown"
                          : "missing");
        DT__TRY(take_name(a->p->ctx, taken, word));
        dt__c_printf(to, "    %s = %lld%s", word, (long long)k,
                     k + 1 < dt__column_codes(c) ? "," : "");
        if (known) dt__c_printf(to, " /* %s */", dt__c_comment(c->category[k - 1], comment));
        dt__put_text(to, "\n");
    }
    dt__c_printf(to,
                 "};\n/* The code of a word; 0: none of them, -1: it means missing. */\n"
                 "int %s_%s_code(const char *word);\n\n",
                 a->name, stem.text);
    return DT_OK;
}

static dt_status put_enums(const dt__c_about *a, dt__chars *to)
{
    static const char *const fixed[] = { "run",      "checksum",   "selftest", "standardize",
                                         "fields",   "class_name", "row",      "frame",
                                         "quantize", "dequantize", "features", "classify" };
    dt__words taken = { 0 };
    char word[DT__C_LONG_NAME];
    dt_status s = DT_OK;
    for (int i = 0; i < DT__COUNT_OF(fixed) && s == DT_OK; i++) {
        snprintf(word, sizeof word, "%s_%s", a->name, fixed[i]);
        s = take_name(a->p->ctx, &taken, word);
    }
    for (int64_t i = 0; i < a->table->n && s == DT_OK; i++) {
        snprintf(word, sizeof word, "%s_%s_code", a->name, stem_of(a, i).text);
        s = take_name(a->p->ctx, &taken, word);
    }
    for (int64_t i = 0; i < a->table->n && s == DT_OK; i++) {
        if (a->table->column[i].type == DT_COLUMN_CATEGORY) s = put_words(a, i, &taken, to);
    }
    dt__words_free(a->p->ctx, &taken);
    return s;
}

static const char *const meanings[] = {
    [DT_COLUMN_NUMBER] = "a number",
    [DT_COLUMN_CATEGORY] = "a code",
    [DT_COLUMN_BOOLEAN] = "0 or 1",
    [DT_COLUMN_TIME] = "seconds since 1970-01-01T00:00:00",
};

bool dt__c_is_real(const dt_column *c)
{
    return c->type == DT_COLUMN_NUMBER || c->type == DT_COLUMN_TIME;
}

static const char struct_head[] = "/* The fields of a row, as a table has them. Missing is NaN "
                                  "(NAN of math.h) of a double, and -1 of\n"
                                  " * an int. */\ntypedef struct @_fields {\n";

static const char struct_tail[] = "} @_fields;\n\n"
                                  "/* Turns the fields of a row into the x of @_run, or of\n * "
                                  "@_quantize where that is there. Returns 0; or the\n"
                                  " * number of the first field, from 1, that is missing and must "
                                  "be there, or is beyond the range\n"
                                  " * of its type: x means nothing then. */\n"
                                  "int @_row(const @_fields *fields, float *x);\n\n";

static const char window_tail[] =
    "} @_fields;\n\n"
    "/* Turns the fields of the k-th row of a window into its numbers, which are those of x of\n"
    " * @_run, or of @_quantize where that is there, from k * %lld on.%s\n"
    " * Returns 0; or the number of the first field, from 1, that is missing and must be there, "
    "or\n"
    " * is beyond the range of its type: x means nothing then. */\n"
    "int @_row(const @_fields *fields, float *x);\n\n";

/* Writes the comments after the fields. Windows are standardized as a whole. */
static void put_tail(const dt__c_about *a, dt__chars *to)
{
    char text[sizeof window_tail + 160];
    if (!a->row->series.given) {
        dt__c_put_named(a, to, struct_tail);
        return;
    }
    snprintf(text, sizeof text, window_tail, (long long)dt_columns_width(a->table),
             a->row->channels > 0 ? " @_standardize(x, x) is\n * called once for all rows of a "
                                    "window."
                                  : "");
    dt__c_put_named(a, to, text);
}

void dt__c_put_columns_header(const dt__c_about *a, dt__chars *to)
{
    char comment[DT__C_COMMENT];
    if (a->table == NULL) return;
    if (put_enums(a, to) != DT_OK) to->failed = true;
    dt__c_put_named(a, to, struct_head);
    for (int64_t i = 0; i < a->table->n; i++) {
        const dt_column *c = &a->table->column[i];
        if (c->type == DT_COLUMN_IGNORE) continue;
        dt__c_printf(to, "    %s %s; /* %s: %s%s */\n", dt__c_is_real(c) ? "double" : "int",
                     a->field[i], dt__c_comment(c->name, comment), meanings[c->type],
                     c->missing == DT_MISSING_REFUSED ? ", never missing" : "");
    }
    put_tail(a, to);
}

/* ---- the source ------------------------------------------------------------------------------ */

static void put_doubles(dt__chars *to, const double *v, int64_t n)
{
    dt__c_printf(to, "        static const double q[%lld] = {", (long long)n);
    for (int64_t k = 0; k < n; k++) {
        dt__c_printf(to, "%s%s,", k % 4 == 0 ? "\n            " : " ", dt__c_double(v[k]).text);
    }
    dt__put_text(to, "\n        };\n");
}

static void put_number(const dt_column *c, dt__chars *to)
{
    switch (c->scale) {
    case DT_SCALE_LOG: dt__put_text(to, "        v = column_log(v);\n"); break;
    case DT_SCALE_ROBUST:
        dt__c_printf(to, "        v = (v - %s) / %s;\n", dt__c_double(c->offset).text,
                     dt__c_double(c->factor).text);
        break;
    case DT_SCALE_QUANTILE:
        dt__c_printf(to, "        v = column_quantile(q, %lld, v);\n", (long long)c->n_quantiles);
        break;
    default: break;
    }
}

static void put_parts(const dt_column *c, dt__chars *to)
{
    static const char *const parts[DT__TIME_PARTS] = {
        NULL,
        "m.second / 3600.0",
        "m.weekday",
        "m.day",
        "m.month",
        "m.year",
        "m.second / 86400.0",
        "(m.weekday * 86400.0 + m.second) / 604800.0",
        "(m.day * 86400.0 + m.second) / (m.length * 86400.0)"
    };
    dt__put_text(to, "        const column_moment m = column_moment_of(v);\n");
    if ((c->parts & DT_TIME_SECONDS) != 0) {
        dt__c_printf(to, "        *to++ = (float)(v - %s);\n", dt__c_double(c->offset).text);
    }
    for (int i = 1; i < DT__TIME_PARTS; i++) {
        if ((c->parts >> i & 1) == 0) continue;
        dt__c_printf(to,
                     1U << i < DT_TIME_OF_DAY ? "        *to++ = (float)(%s);\n"
                                              : "        column_turn(%s, to);\n        to += 2;\n",
                     parts[i]);
    }
}

/* Encodes a field of type double: the fill value for missing ones, and range checks. */
static void put_real(const dt__c_about *a, int64_t i, dt__chars *to)
{
    const dt_column *c = &a->table->column[i];
    const bool time = c->type == DT_COLUMN_TIME;
    if (c->scale == DT_SCALE_QUANTILE && !time) put_doubles(to, c->quantiles, c->n_quantiles);
    dt__c_printf(to, "        double v = fields->%s;\n        const int gone = v != v;\n",
                 a->field[i]);
    if (c->missing == DT_MISSING_REFUSED)
        dt__c_printf(to, "        if (gone) return %lld;\n", (long long)i + 1);
    else dt__c_printf(to, "        if (gone) v = %s;\n", dt__c_double(c->fill).text);
    if (time) {
        dt__c_printf(to, "        if (!(v >= %s && v < %s)) return %lld;\n",
                     dt__c_double(DT__TIME_LEAST).text, dt__c_double(DT__TIME_END).text,
                     (long long)i + 1);
        put_parts(c, to);
        return;
    }
    dt__c_printf(to, "        if (v - v != 0) return %lld;\n", (long long)i + 1);
    put_number(c, to);
    dt__c_printf(to,
                 "        if (!(v >= -3.4028234663852886e38 && v <= 3.4028234663852886e38)) return "
                 "%lld;\n        *to++ = (float)v;\n",
                 (long long)i + 1);
}

/* Encodes a field of type int. */
static void put_code(const dt__c_about *a, int64_t i, dt__chars *to)
{
    const dt_column *c = &a->table->column[i];
    const bool boolean = c->type == DT_COLUMN_BOOLEAN;
    const long long most = boolean ? 1 : (long long)dt__column_codes(c) - 1,
                    number = (long long)i + 1;
    dt__c_printf(to, "        int k = fields->%s;\n        const int gone = k == -1;\n",
                 a->field[i]);
    if (c->missing == DT_MISSING_REFUSED)
        dt__c_printf(to, "        if (gone) return %lld;\n", number);
    else if (boolean) dt__put_text(to, "        if (gone) k = 0;\n");
    else
        dt__c_printf(to, "        if (gone) k = %lld;\n",
                     dt__column_fills_in(c) ? (long long)c->fill : most);
    dt__c_printf(to, "        if (k < 0 || k > %lld) return %lld;\n", most, number);
    if (boolean) {
        dt__c_printf(to, "        *to++ = gone ? %s : (float)k;\n",
                     dt__c_float((float)c->fill).text);
    } else if (c->embedded) {
        dt__put_text(to, "        *to++ = (float)k;\n");
    } else {
        dt__c_printf(to, "        for (i = 1; i <= %lld; i++) *to++ = i == k ? 1.0f : 0.0f;\n",
                     most);
    }
}

static void put_words_of(dt__chars *to, const char *name, const char *const *words, int64_t n)
{
    dt__c_printf(to, "    static const char *const %s[] = {", name);
    for (int64_t k = 0; k < n; k++) {
        dt__put_text(to, "\n        ");
        dt__c_put_string(to, words[k]);
        dt__put_text(to, ",");
    }
    dt__put_text(to, "\n    };\n");
}

static void put_find(const dt__c_about *a, int64_t i, dt__chars *to)
{
    const dt_column *c = &a->table->column[i];
    dt__c_printf(to, "\nint %s_%s_code(const char *word)\n{\n", a->name, stem_of(a, i).text);
    put_words_of(to, "words", c->category, c->n_categories);
    if (c->n_words > 0) {
        put_words_of(to, "none", c->word, c->n_words);
        dt__c_printf(to, "    if (column_find(none, %lld, word) > 0) return -1;\n",
                     (long long)c->n_words);
    }
    dt__c_printf(to, "    return column_missing(word) ? -1 : column_find(words, %lld, word);\n}\n",
                 (long long)c->n_categories);
}

static bool has_one_hot(const dt_columns *t)
{
    bool any = false;
    for (int64_t i = 0; i < t->n; i++) {
        any = any || (t->column[i].type == DT_COLUMN_CATEGORY && !t->column[i].embedded);
    }
    return any;
}

void dt__c_put_columns_source(const dt__c_about *a, dt__chars *to)
{
    if (a->table == NULL) return;
    for (int64_t i = 0; i < a->table->n; i++) {
        if (a->table->column[i].type == DT_COLUMN_CATEGORY) put_find(a, i, to);
    }
    dt__c_put_named(a, to,
                    "\nint @_row(const @_fields *fields, float *x)\n{\n    float *to = x;\n");
    if (has_one_hot(a->table)) dt__put_text(to, "    int i;\n");
    for (int64_t i = 0; i < a->table->n; i++) {
        const dt_column *c = &a->table->column[i];
        if (c->type == DT_COLUMN_IGNORE) continue;
        dt__put_text(to, "    {\n");
        if (dt__c_is_real(c)) put_real(a, i, to);
        else put_code(a, i, to);
        if (c->indicator) dt__put_text(to, "        *to++ = gone ? 1.0f : 0.0f;\n");
        dt__put_text(to, "    }\n");
    }
    if (a->row->channels > 0 && !a->row->series.given) {
        dt__c_put_named(a, to, "    @_standardize(x, x);\n");
    }
    dt__put_text(to, "    return 0;\n}\n");
}

/* Rules for typed columns, and raw values of their fields (csv_types.h). */
#include "data/tables/csv_types.h"

#include "core/block_list.h"
#include "core/text/utf8.h"
#include "data/tables/decimal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

const dt_column_rule *dt__csv_rule_of(const dt__csv *c, const char *name)
{
    const dt_csv_options *o = c->options;
    for (int64_t i = 0; i < o->types.n; i++) {
        const dt_column_rule *rule = o->types.v[i].options;
        for (int k = 0; k < rule->columns.n; k++) {
            if (dt__csv_means(c, rule->columns.v[k], name)) return rule;
        }
    }
    return NULL;
}

/* Which setting of a rule does not fit its type; NULL: none. */
static const char *fault_of(const dt_column_rule *rule)
{
    const int type = rule->type, missing = rule->missing;
    if (rule->fill != NULL && missing != DT_MISSING_CONSTANT)
        return "fill: it belongs to missing: constant";
    if (rule->fill == NULL && missing == DT_MISSING_CONSTANT)
        return "fill: missing: constant requires it";
    if (missing == DT_MISSING_CODE && type != DT_COLUMN_CATEGORY)
        return "missing: code belongs to type: category";
    if ((missing == DT_MISSING_MEAN || missing == DT_MISSING_MEDIAN) && type != DT_COLUMN_NUMBER &&
        type != DT_COLUMN_TIME)
        return "missing: mean and median belong to numbers and times; expected frequent";
    if (rule->scale != DT_SCALE_NONE && type != DT_COLUMN_NUMBER)
        return "scale belongs to type: number";
    if ((rule->most > 0 || rule->embedded) && type != DT_COLUMN_CATEGORY)
        return "most and embedded belong to type: category";
    if ((rule->format != NULL || rule->parts.n > 0) && type != DT_COLUMN_TIME)
        return "format and parts belong to type: time";
    if (rule->indicator && missing == DT_MISSING_REFUSED)
        return "indicator requires missing, other than error";
    return NULL;
}

static dt_status bits_of(dt_ctx *ctx, const dt_strings *parts, unsigned *bits)
{
    *bits = parts->n == 0 ? DT_TIME_SECONDS : 0;
    for (int i = 0; i < parts->n; i++) {
        int k = 0;
        while (k < DT__TIME_PARTS && strcmp(parts->v[i], dt__time_parts[k]) != 0) k++;
        if (k == DT__TIME_PARTS) {
            return dt_fail(ctx, DT_ERR_CONFIG,
                           "data.columns.types: '%s' is not a part of a time; expected seconds, "
                           "hour, weekday, day, month, year, of_day, of_week or of_year",
                           parts->v[i]);
        }
        *bits |= 1U << k;
    }
    return DT_OK;
}

static dt_status take_rule(dt_ctx *ctx, const dt_column_rule *rule, dt_column *c)
{
    if (rule == NULL) return DT_OK;
    const char *fault = fault_of(rule);
    if (fault == NULL && rule->format != NULL && dt__time_format_fault(rule->format) != NULL) {
        fault = "format: a directive that is not known";
    }
    if (fault != NULL) {
        return dt_fail(ctx, DT_ERR_CONFIG, "data.columns.types: column '%s': %s", c->name, fault);
    }
    c->type = rule->type;
    c->scale = rule->scale;
    c->missing = rule->missing;
    c->indicator = rule->indicator;
    c->embedded = rule->embedded;
    c->format = rule->format;
    c->n_words = rule->words.n;
    c->word = rule->words.v;
    return c->type == DT_COLUMN_TIME ? bits_of(ctx, &rule->parts, &c->parts) : DT_OK;
}

/* Takes the model's column for input i. */
static dt_status take_fitted(const dt__csv *c, const dt_columns *fitted, int64_t i, dt_column *out)
{
    int64_t k = 0, at = 0;
    for (; k < fitted->n; k++) {
        if (fitted->column[k].type == DT_COLUMN_IGNORE) continue;
        if (at++ == i) break;
    }
    if (k < fitted->n && strcmp(fitted->column[k].name, c->inputs.word[i]) == 0) {
        *out = fitted->column[k];
        return DT_OK;
    }
    return dt_fail(c->ctx, DT_ERR_CONFIG,
                   "data.columns.inputs: '%s' is input %lld, for which the model reads '%s'",
                   c->inputs.word[i], (long long)i,
                   k < fitted->n ? fitted->column[k].name : "nothing");
}

static dt_status fill_types(dt__csv *c, dt__csv_types *t)
{
    const int64_t n = c->inputs.n;
    const size_t count = (size_t)n;
    t->column = dt__block_list_add(c->ctx, &t->blocks, count * sizeof *t->column);
    t->rule = dt__block_list_add(c->ctx, &t->blocks, count * sizeof *t->rule);
    t->words = dt__block_list_add(c->ctx, &t->blocks, count * sizeof *t->words);
    if (t->column == NULL || t->rule == NULL || t->words == NULL) return DT_ERR_NOMEM;
    t->columns = (dt_columns){ .n = n, .column = t->column };
    const dt_columns *fitted = c->options->fitted;
    for (int64_t i = 0; i < n; i++) {
        if (*c->inputs.word[i] == 0) {
            return dt_fail(c->ctx, DT_ERR_CONFIG,
                           "data.columns.types: an input has no name; type: ignore leaves it out");
        }
        t->rule[i] = dt__csv_rule_of(c, c->inputs.word[i]);
        t->column[i] = (dt_column){ .name = c->inputs.word[i], .factor = 1 };
        if (fitted == NULL) DT__TRY(take_rule(c->ctx, t->rule[i], &t->column[i]));
        else DT__TRY(take_fitted(c, fitted, i, &t->column[i]));
    }
    t->is_fitted = fitted != NULL;
    return DT_OK;
}

dt_status dt__csv_types_begin(dt__csv *c)
{
    if (c->types != NULL || (c->options->types.n == 0 && c->options->fitted == NULL)) return DT_OK;
    c->types = dt__alloc_zero(c->ctx, sizeof *c->types);
    if (c->types == NULL) return DT_ERR_NOMEM;
    c->types->ctx = c->ctx;
    c->types->cache = c->cache;
    return fill_types(c, c->types);
}

void dt__csv_types_free(dt__csv_types *t)
{
    if (t == NULL) return;
    for (int64_t i = 0; t->words != NULL && i < t->columns.n; i++) {
        dt__words_free(t->ctx, &t->words[i]);
    }
    dt__block_list_free(t->ctx, &t->blocks);
    dt__release(t->ctx, t);
}

void dt__csv_trim(dt__csv_field *f)
{
    while (f->n > 0 && (*f->text == ' ' || *f->text == '\t')) f->text++, f->n--;
    while (f->n > 0 && (f->text[f->n - 1] == ' ' || f->text[f->n - 1] == '\t')) f->n--;
}

bool dt__csv_is_number(const dt__csv_reader *r, const dt__csv_field *f, double *out)
{
    char plain[DT__CSV_NUMBER];
    if (r->is_plain) return dt__decimal_double(f->text, f->text + f->n, out) == f->text + f->n;
    size_t n;
    return dt__csv_plain_number(r, f, plain, &n) &&
           dt__decimal_double(plain, plain + n, out) == plain + n;
}

static dt_status put_number(const dt__csv_reader *r, const dt__csv_field *f, double *to)
{
    if (!dt__csv_is_number(r, f, to)) return dt__csv_refuse(r, f, dt__csv_no_number(r, f));
    return isfinite(*to) ? DT_OK : dt__csv_refuse(r, f, "is beyond the range of f64");
}

static dt_status put_word(const dt__csv_reader *r, dt__words *words, const dt__csv_field *f,
                          double *to)
{
    if (!dt__is_utf8_of(f->text, f->n)) {
        return dt__csv_refuse(r, f, dt__csv_not_utf8);
    }
    if (words->n == DT__MOST_WORDS && dt__words_find(words, f->text, f->n) < 0) {
        return dt__csv_refuse(r, f,
                              "is one of more than 65536 words of a category; a column of "
                              "identifiers has type: ignore");
    }
    const int64_t word = dt__words_add(r->ctx, words, f->text, f->n);
    *to = (double)word;
    return word < 0 ? DT_ERR_NOMEM : DT_OK;
}

/* Refuses a field's text, with the reason. */
static dt_status refuse_text(const dt__csv_reader *r, const dt__csv_field *f)
{
    char why[DT__MESSAGE_SIZE];
    const char *error = dt_error(r->ctx), *after = strstr(error, "' ");
    snprintf(why, sizeof why, "%s", after == NULL ? error : after + 2);
    return dt__csv_refuse(r, f, why);
}

bool dt__csv_take_typed(dt__csv_reader *r, const dt__csv_place *p)
{
    const dt__csv_types *t = r->c[p->table]->types;
    if (p->role != DT__CSV_INPUT || t == NULL || !r->is_plain) return false;
    const dt_column *c = &t->column[p->number];
    double v;
    if (c->type != DT_COLUMN_NUMBER || c->n_words > 0) return false;
    const char *after = dt__decimal_double(r->at, r->end, &v);
    if (after == NULL || !dt__csv_ends_field(r, after) || !isfinite(v)) return false;
    ((double *)r->out[p->table].x->data)[r->rows * t->columns.n + p->number] = v;
    r->at += after - r->at;
    return true;
}

dt_status dt__csv_put_typed(const dt__csv_reader *r, const dt__csv_place *p,
                            const dt__csv_field *field)
{
    dt__csv_types *t = r->c[p->table]->types;
    const dt_column *c = &t->column[p->number];
    dt__csv_field f = *field;
    dt__csv_trim(&f);
    double *to = (double *)r->out[p->table].x->data + r->rows * t->columns.n + p->number;
    *to = (double)NAN;
    if (dt__column_is_missing(c, f.text, f.n)) {
        if (c->missing != DT_MISSING_REFUSED || dt__csv_may_lack(r->c[p->table])) return DT_OK;
        return dt__csv_refuse(r, &f,
                              "is missing; data.columns.types says what such fields become, as "
                              "{columns: NAME, missing: median}");
    }
    if (c->type == DT_COLUMN_NUMBER) return put_number(r, &f, to);
    if (c->type == DT_COLUMN_CATEGORY) return put_word(r, &t->words[p->number], &f, to);
    dt_field value;
    const dt_status s = dt_column_parse(r->ctx, c, f.text, f.n, &value);
    *to = value.number;
    return s == DT_ERR_FORMAT ? refuse_text(r, &f) : s;
}

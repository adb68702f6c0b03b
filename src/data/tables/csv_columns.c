/* Fields of CSV files, and which columns are read: the names of the first line are matched with
 * those that are wanted. */
#include "data/tables/csv_reader.h"

#include "core/text/glob.h"
#include "core/text/json.h"
#include "core/text/number.h"
#include "core/text/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_COLUMNS 65536

/* ---- fields ------------------------------------------------------------------------------- */

dt_status dt__csv_refuse(const dt__csv_reader *r, const dt__csv_field *f, const char *why)
{
    char shown[DT__SHOWN], text[64];
    const size_t n = f->n < sizeof text - 1 ? f->n : sizeof text - 1;
    memcpy(text, f->text, n);
    text[n] = '\0';
    const bool named = r->column < r->n;
    return dt_fail(r->ctx, DT_ERR_FORMAT, "'%s': line %lld, column %lld%s%s%s: '%s' %s", r->path,
                   (long long)r->line, (long long)r->column + 1, named ? " ('" : "",
                   named ? r->name[r->column] : "", named ? "')" : "", dt__shown(text, shown), why);
}

/* Takes a field that begins with a quote. Doubled quotes inside become one. */
static dt_status take_quoted(dt__csv_reader *r, dt__csv_field *f)
{
    char *to = ++r->at;
    *f = (dt__csv_field){ r->at, 0 };
    const int64_t line = r->line;
    for (;; r->at++) {
        if (r->at == r->end) {
            r->line = line;
            f->n = (size_t)(to - f->text);
            return dt__csv_refuse(r, f, "begins with a quote that nothing closes");
        }
        if (*r->at == '"' && (r->at + 1 == r->end || r->at[1] != '"')) break;
        if (*r->at == '"') r->at++;
        r->line += *r->at == '\n';
        *to++ = *r->at;
    }
    f->n = (size_t)(to - f->text);
    r->at++;
    while (r->at < r->end && dt__csv_is_blank(*r->at)) r->at++;
    return dt__csv_ends_field(r, r->at)
               ? DT_OK
               : dt__csv_refuse(r, f, "is followed by text behind its quote");
}

dt_status dt__csv_take_field(dt__csv_reader *r, dt__csv_field *f)
{
    while (r->at < r->end && dt__csv_is_blank(*r->at)) r->at++;
    if (r->at < r->end && *r->at == '"') return take_quoted(r, f);
    *f = (dt__csv_field){ r->at, 0 };
    while (!dt__csv_ends_field(r, r->at)) r->at++;
    f->n = (size_t)(r->at - f->text);
    while (f->n > 0 && dt__csv_is_blank(f->text[f->n - 1])) f->n--;
    return DT_OK;
}

/* After a field: skips a comma, or the end of the line. */
bool dt__csv_is_last(dt__csv_reader *r)
{
    if (r->at < r->end && *r->at == ',') {
        r->at++;
        return false;
    }
    if (r->at < r->end && *r->at == '\r') r->at++;
    if (r->at < r->end) r->at++;
    return true;
}

/* ---- columns ------------------------------------------------------------------------------ */

static dt_status add_name(dt__csv_reader *r, const dt__csv_field *f)
{
    if (!dt__is_utf8_of(f->text, f->n)) return dt__csv_refuse(r, f, "is not UTF-8");
    if (r->n == MOST_COLUMNS)
        return dt__csv_refuse(r, f, "is a column too many: at most 65536 are wanted");
    DT__TRY(DT__RESERVE(r->ctx, r->name, r->n, r->room));
    char *name = dt__alloc(r->ctx, f->n + 1);
    if (name == NULL) return DT_ERR_NOMEM;
    memcpy(name, f->text, f->n);
    name[f->n] = '\0';
    r->name[r->n++] = name;
    return DT_OK;
}

/* The names of the first line, or without a header the numbers 0, 1, ... */
static dt_status read_names(dt__csv_reader *r)
{
    char *const begin = r->at;
    const int64_t line = r->line;
    const bool header = r->c[0]->options->header;
    bool last = false;
    for (int64_t i = 0; !last; i++) {
        dt__csv_field f;
        char digits[32];
        r->column = i;
        DT__TRY(dt__csv_take_field(r, &f));
        if (!header) {
            dt__print_real((double)i, digits);
            f = (dt__csv_field){ digits, strlen(digits) };
        }
        DT__TRY(add_name(r, &f));
        last = dt__csv_is_last(r);
    }
    r->line = header ? r->line + 1 : line;
    if (!header) r->at = begin;
    return DT_OK;
}

static dt_status no_column(const dt__csv_reader *r, const char *key, const char *pattern)
{
    char all[256], shown[DT__SHOWN];
    size_t used = 0;
    all[0] = '\0';
    for (int64_t i = 0; i < r->n && used + DT__SHOWN + 8 < sizeof all; i++) {
        const char *name = dt__shown(r->name[i], shown);
        used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", i == 0 ? "" : ", ", name);
    }
    return dt_fail(r->ctx, DT_ERR_CONFIG, "data.columns.%s: '%s' is no column of '%s' (%s%s)", key,
                   dt__shown(pattern, shown), r->path, all,
                   used + DT__SHOWN + 8 < sizeof all ? "" : ", ...");
}

/* Adds the columns that match a pattern, targets excepted. */
static dt_status choose(dt__csv_reader *r, dt__csv *c, const char *key, const char *pattern,
                        dt__words *list)
{
    int64_t found = 0;
    bool are_targets = false;
    for (int64_t i = 0; i < r->n; i++) {
        const size_t n = strlen(r->name[i]);
        if (!dt__glob_match(pattern, r->name[i])) continue;
        if (list == &c->inputs && dt__words_find(&c->targets, r->name[i], n) >= 0) {
            are_targets = true;
            if (strcmp(pattern, r->name[i]) != 0) continue;
            return dt_fail(r->ctx, DT_ERR_CONFIG,
                           "data.columns.inputs: '%s' is the target, which no input may be",
                           pattern);
        }
        if (dt__words_add(r->ctx, list, r->name[i], n) < 0) return DT_ERR_NOMEM;
        found++;
    }
    if (found == 0 && are_targets) {
        return dt_fail(r->ctx, DT_ERR_CONFIG,
                       "data.columns.target: all columns of '%s' that '%s' matches are targets; no "
                       "input is left",
                       r->path, pattern);
    }
    return found > 0 ? DT_OK : no_column(r, key, pattern);
}

/* Of the first file: which columns are read. */
static dt_status choose_columns(dt__csv_reader *r, dt__csv *c)
{
    const dt_csv_options *o = c->options;
    for (int i = 0; i < o->target.n; i++) {
        DT__TRY(choose(r, c, "target", o->target.v[i], &c->targets));
    }
    for (int i = 0; i < o->inputs.n; i++) {
        DT__TRY(choose(r, c, "inputs", o->inputs.v[i], &c->inputs));
    }
    if (o->inputs.n == 0) DT__TRY(choose(r, c, "inputs", "*", &c->inputs));
    if (c->target != DT_TARGET_CLASS || c->targets.n <= 1) return DT_OK;
    return dt_fail(r->ctx, DT_ERR_CONFIG,
                   "data.columns.target: %lld columns; a class is in one (data.task: regression or "
                   "multi_label takes several)",
                   (long long)c->targets.n);
}

static dt_status add_place(dt__csv_reader *r, int64_t column, int table, int64_t role)
{
    DT__TRY(DT__RESERVE(r->ctx, r->place, r->n_places, r->places_room));
    r->place[r->n_places++] = (dt__csv_place){ column, role, table };
    return DT_OK;
}

/* Finds the columns of reading k; `seen` has a place for every input and target. */
static dt_status find_places(dt__csv_reader *r, int k, int64_t *seen)
{
    const dt__csv *c = r->c[k];
    int64_t found = 0;
    for (int64_t i = 0; i < r->n; i++) {
        const size_t n = strlen(r->name[i]);
        const int64_t input = dt__words_find(&c->inputs, r->name[i], n);
        const int64_t target = dt__words_find(&c->targets, r->name[i], n);
        if (input < 0 && target < 0) continue;
        int64_t *before = &seen[input >= 0 ? input : c->inputs.n + target];
        if (*before > 0) {
            return dt_fail(r->ctx, DT_ERR_FORMAT, "'%s': columns %lld and %lld have the same name",
                           r->path, (long long)*before, (long long)i + 1);
        }
        *before = i + 1;
        found++;
        if ((input >= 0 ? c->x_of : c->y_of) != NULL) continue;
        DT__TRY(add_place(r, i, k, input >= 0 ? input : -1 - target));
    }
    const int64_t wanted = c->inputs.n + c->targets.n;
    if (found == wanted) return DT_OK;
    return dt_fail(r->ctx, DT_ERR_FORMAT, "'%s' has %lld of the %lld columns of the first file",
                   r->path, (long long)found, (long long)wanted);
}

static dt_status take_places(dt__csv_reader *r, int k)
{
    const int64_t wanted = r->c[k]->inputs.n + r->c[k]->targets.n;
    int64_t *seen = dt__alloc_array(r->ctx, wanted, sizeof *seen);
    if (seen == NULL) return DT_ERR_NOMEM;
    memset(seen, 0, (size_t)wanted * sizeof *seen);
    const dt_status status = find_places(r, k, seen);
    dt__release(r->ctx, seen);
    return status;
}

/* By column, then by reading. */
static int by_column(const void *a, const void *b)
{
    const dt__csv_place *x = a, *y = b;
    if (x->column != y->column) return x->column < y->column ? -1 : 1;
    return x->table - y->table;
}

dt_status dt__csv_take_columns(dt__csv_reader *r)
{
    DT__TRY(read_names(r));
    for (int k = 0; k < r->n_c; k++) {
        if (r->c[k]->inputs.n == 0) DT__TRY(choose_columns(r, r->c[k]));
        DT__TRY(take_places(r, k));
    }
    if (r->n_places > 0) {
        qsort(r->place, (size_t)r->n_places, sizeof *r->place, by_column);
    }
    return DT_OK;
}

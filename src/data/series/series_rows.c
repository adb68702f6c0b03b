/* Finds series and times of table rows, and sorts the rows. */
#include "data/series/series.h"
#include "core/comparisons.h"

#include "core/text/json.h"
#include "data/tables/table_join.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

dt_status dt__series_keys_of(dt__csv *c, const dt_series_options *o)
{
    c->series = o;
    for (int i = 0; i < o->by.n; i++) {
        if (dt__words_add(c->ctx, &c->keys, o->by.v[i], strlen(o->by.v[i])) < 0) {
            return DT_ERR_NOMEM;
        }
    }
    if (o->time == NULL) return DT_OK;
    return dt__words_add(c->ctx, &c->keys, o->time, strlen(o->time)) < 0 ? DT_ERR_NOMEM : DT_OK;
}

static int64_t key_of(const dt__csv *c, const char *name)
{
    return dt__words_find(&c->keys, name, strlen(name));
}

static int32_t code_of(const dt__csv *c, const dt__csv_table *t, int64_t row, int64_t key)
{
    return ((const int32_t *)t->key->data)[row * c->keys.n + key];
}

/* ---- times ---------------------------------------------------------------------------------- */

static dt_status read_times(const dt__series *s, int64_t key, double **out)
{
    const int64_t n = s->csv->key_words[key].n;
    *out = dt__alloc_array(s->ctx, dt__max_i64(1, n), sizeof **out);
    return *out == NULL ? DT_ERR_NOMEM : dt__csv_times(s->csv, key, s->o->format, *out);
}

static dt_status refuse_time(const dt__series *s, const char *file, int64_t row, const char *text)
{
    char shown[DT__SHOWN], column[DT__SHOWN];
    return dt_fail(s->ctx, DT_ERR_FORMAT,
                   "'%s': row %lld, column '%s': '%s' is not a time of data.series; expected %s",
                   file, (long long)row + 1, dt__shown(s->o->time, column), dt__shown(text, shown),
                   s->o->format != NULL
                       ? "the form of data.series.format"
                       : "numbers in all rows, or times such as 2024-05-31T12:00:00.25 "
                         "(data.series.format gives another form)");
}

/* ---- series --------------------------------------------------------------------------------- */

/* The index of a row's series among those of the part. */
static int64_t name_series(const dt__series *s, dt__series_rows *r, const dt__csv_table *t,
                           int64_t row, int64_t file)
{
    char name[DT_MAX_LIST * 12];
    int n = s->o->by.n > 0 ? 0 : snprintf(name, sizeof name, "%lld", (long long)file);
    for (int i = 0; i < s->o->by.n; i++) {
        n += snprintf(name + n, sizeof name - (size_t)n, "%ld,",
                      (long)code_of(s->csv, t, row, key_of(s->csv, s->o->by.v[i])));
    }
    return dt__words_add(s->ctx, &r->names, name, (size_t)n);
}

/* Whether the row belongs to the series of the row before it, as most do. */
static bool is_next(const dt__series *s, const dt__csv_table *t, int64_t row)
{
    for (int i = 0; i < s->o->by.n && row > 0; i++) {
        const int64_t key = key_of(s->csv, s->o->by.v[i]);
        if (code_of(s->csv, t, row, key) != code_of(s->csv, t, row - 1, key)) return false;
    }
    return row > 0;
}

static int in_order(const void *a, const void *b)
{
    const dt__series_row *x = a, *y = b;
    if (x->series != y->series) return x->series < y->series ? -1 : 1;
    if (x->time != y->time) return x->time < y->time ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* Refuses two rows of a series at the same time. Files that are joined (sensors) may each have
 * one. */
static dt_status check_order(const dt__series *s, const dt__series_row *row, int64_t n,
                             const char *file, int64_t before)
{
    for (int64_t i = 1; i < n && s->o->time != NULL && s->o->rate == 0; i++) {
        if (row[i].series != row[i - 1].series || row[i].time > row[i - 1].time) continue;
        return dt_fail(s->ctx, DT_ERR_FORMAT,
                       "'%s': rows %lld and %lld are of one series and have the same time; "
                       "data.series.by must name the columns that tell series apart, and without "
                       "data.series.time rows are in the order of the file",
                       file, (long long)(row[i - 1].at - before) + 1,
                       (long long)(row[i].at - before) + 1);
    }
    return DT_OK;
}

static dt_status read_file(const dt__series *s, int64_t file, const char *path, const double *times,
                           dt__series_rows *r)
{
    const dt__csv_table *t = &r->table[file];
    const int64_t before = r->n, key = times == NULL ? 0 : key_of(s->csv, s->o->time);
    const double *known = t->time == NULL ? NULL : t->time->data;
    int64_t backward = 0;
    for (int64_t i = 0; i < t->rows; i++, r->n++) {
        dt__series_row *row = &r->row[r->n];
        *row = (dt__series_row){ .at = r->n };
        row->series = is_next(s, t, i) ? row[-1].series : name_series(s, r, t, i, file);
        if (row->series < 0) return DT_ERR_NOMEM;
        if (known != NULL) row->time = known[i];
        if (times == NULL || known != NULL) continue;
        const int32_t code = code_of(s->csv, t, i, key);
        row->time = times[code];
        if (isnan(row->time)) return refuse_time(s, path, i, s->csv->key_words[key].word[code]);
    }
    qsort(r->row + before, (size_t)t->rows, sizeof *r->row, in_order);
    for (int64_t i = before + 1; i < r->n; i++) {
        backward += r->row[i].series == r->row[i - 1].series && r->row[i].at < r->row[i - 1].at;
    }
    if (backward > 0 && dt__join_length(path) == 0) {
        dt__say(s->ctx,
                "'%s': the times of series go backward %lld times; rows are put in the order of "
                "'%s'",
                path, (long long)backward, s->o->time);
    }
    return check_order(s, r->row + before, t->rows, path, before);
}

dt_status dt__series_read(const dt__series *s, const dt__csv_table *table, int64_t files,
                          const char *const *name, dt__series_rows *out)
{
    *out = (dt__series_rows){ .table = table, .files = files };
    int64_t rows = 0;
    double *times = NULL;
    for (int64_t i = 0; i < files; i++) rows += table[i].rows;
    out->row = dt__alloc_array(s->ctx, dt__max_i64(1, rows), sizeof *out->row);
    dt_status status = out->row == NULL ? DT_ERR_NOMEM : DT_OK;
    if (status == DT_OK && s->o->time != NULL) {
        status = read_times(s, key_of(s->csv, s->o->time), &times);
    }
    for (int64_t i = 0; i < files && status == DT_OK; i++) {
        status = read_file(s, i, name[i], times, out);
    }
    dt__release(s->ctx, times);
    return status;
}

void dt__series_rows_free(dt_ctx *ctx, dt__series_rows *r)
{
    dt__release(ctx, r->row);
    dt__words_free(ctx, &r->names);
    *r = (dt__series_rows){ .row = NULL };
}

/* ---- steps ---------------------------------------------------------------------------------- */

/* The median time step within series (of an even number, the upper one); 0: there are no steps. */
static dt_status find_step(const dt__series *s, const dt__series_rows *r, double *out)
{
    double *step = dt__alloc_array(s->ctx, dt__max_i64(1, r->n), sizeof *step);
    int64_t n = 0;
    if (step == NULL) return DT_ERR_NOMEM;
    const dt__series_row *row = r->row;
    for (int64_t k = 0; k < r->files; row += r->table[k++].rows) {
        for (int64_t i = 1; i < r->table[k].rows; i++) {
            if (row[i].series == row[i - 1].series) step[n++] = row[i].time - row[i - 1].time;
        }
    }
    if (n > 0) qsort(step, (size_t)n, sizeof *step, dt__by_double);
    *out = n == 0 ? 0 : step[n / 2];
    dt__release(s->ctx, step);
    return DT_OK;
}

dt_status dt__series_measure(dt__series *s, const dt__series_rows *r, const dt_window *w)
{
    s->length = w->length;
    if (s->o->time != NULL) {
        if (s->o->rate > 0) s->step = 1 / s->o->rate;
        else DT__TRY(find_step(s, r, &s->step));
        if (s->gap == 0) s->gap = s->o->gap > 0 ? s->o->gap : DT__SERIES_GAP * s->step;
    }
    if (w->seconds > 0) {
        const double rows = s->step > 0 ? floor(w->seconds / s->step + 0.5) : 0;
        if (!(rows >= 1 && rows <= DT__MOST_CONTEXT)) {
            return dt_fail(s->ctx, DT_ERR_CONFIG,
                           "data.window.seconds: %g at a median step of %g in '%s' are %g rows; "
                           "expected 1 to %g",
                           w->seconds, s->step, s->o->time, rows, DT__MOST_CONTEXT);
        }
        s->length = (int64_t)rows;
    }
    s->stride = w->stride == 0 ? s->length : w->stride;
    if (s->o->time == NULL) return DT_OK;
    dt__say(s->ctx,
            "data.series: %lld series, a %s step of %.6g in '%s'; windows of %lld rows, "
            "ended by steps beyond %.6g (data.series.gap)",
            (long long)r->names.n, s->o->rate > 0 ? "fixed" : "median", s->step, s->o->time,
            (long long)s->length, s->gap);
    return DT_OK;
}

/* Resamples series to a constant rate (data.series.rate). Row k of a series is the moment k / rate
 * after its first row, as long as rows are at most a gap apart. A column's value there is, of its
 * values v_i at times u_i <= u < u_i+1 that are at most a gap apart, or away from u:
 *     linear   v_i + (v_i+1 - v_i) ((u - u_i) / (u_i+1 - u_i)); numbers and times
 *     nearest  the one at the smaller distance, v_i of two
 *     last     v_i
 * in f64. A row at most SAME steps behind u is at u. Targets and keys are the last ones before u.
 * Moments that lack a value which is not filled in become no rows, so windows end there. */
#include "data/series/series.h"
#include "core/comparisons.h"

#include "data/tables/csv_types.h"
#include "data/tables/table_cache.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SAME 1e-3       /* in steps: tolerance, as times are rounded */
#define MOST_EACH 10000 /* moments per row: a time far away is a mistake */
#define MOST_STEP 1e15  /* moments per series, so that all indices are exact in f64 */

typedef struct sampling {
    const dt__series *s;
    const dt__series_row *row; /* rows of the file, sorted */
    int64_t n, before;         /* number of its rows, and of rows in the files before it */
    const char *name;          /* of the file */
    dt__csv_table *from, to;
    const dt_columns *types; /* NULL: numbers */
    dt__storage *lacks;      /* u8 [moments]: 1 if a moment becomes no row */
    int64_t lacking, held;   /* number of such moments; moments whose values were filled in */
} sampling;

/* Rows `first` to `past` - 1 of one series, whose moments are k ... k + n - 1, at index `at` of the
 * new rows. */
typedef struct piece {
    int64_t first, past, k, n, at;
    double begin; /* the time of the series' first row */
} piece;

/* ---- values --------------------------------------------------------------------------------- */

/* A column of rows: an input (raw value or number), a target, or a key, for which an empty text
 * means no value. */
typedef struct column {
    dt__csv_role role;
    int64_t number, each; /* index of the column, of so many */
    int kind;             /* dt_array_dtype */
    int32_t empty;        /* the code of an empty key; -1: none */
} column;

static double value_at(const dt__csv_table *t, const column *c, int64_t row)
{
    const int64_t i = row * c->each + c->number;
    const dt__storage *s = c->role == DT__CSV_INPUT ? t->x : c->role == DT__CSV_KEY ? t->key : t->y;
    if (c->kind == DT_ARRAY_F64) return ((const double *)s->data)[i];
    if (c->kind == DT_ARRAY_F32) return (double)((const float *)s->data)[i];
    const int32_t code = ((const int32_t *)s->data)[i];
    return code == c->empty ? (double)NAN : (double)code;
}

static void put_value(const dt__csv_table *t, const column *c, int64_t row, double v)
{
    const int64_t i = row * c->each + c->number;
    dt__storage *s = c->role == DT__CSV_INPUT ? t->x : c->role == DT__CSV_KEY ? t->key : t->y;
    if (c->kind == DT_ARRAY_F64) ((double *)s->data)[i] = v;
    else if (c->kind == DT_ARRAY_F32) ((float *)s->data)[i] = (float)v;
    else ((int32_t *)s->data)[i] = isnan(v) ? c->empty : (int32_t)v;
}

static double raw(const sampling *a, const column *c, int64_t place)
{
    return value_at(a->from, c, a->row[place].at - a->before);
}

static column input_of(const sampling *a, int64_t k)
{
    return (column){ DT__CSV_INPUT, k, a->s->csv->inputs.n,
                     a->types == NULL ? DT_ARRAY_F32 : DT_ARRAY_F64, -1 };
}

/* ---- the usual step ------------------------------------------------------------------------- */

/* Adds the steps of time between the values of a column to step[n...]. */
static int64_t add_steps(const sampling *a, const column *c, double *step, int64_t n)
{
    for (int64_t i = 0, last = -1; i < a->n; i++) {
        if (isnan(raw(a, c, i))) continue;
        const bool same = last >= 0 && a->row[i].series == a->row[last].series;
        if (same && a->row[i].time > a->row[last].time)
            step[n++] = a->row[i].time - a->row[last].time;
        last = i;
    }
    return n;
}

/* `before`: number of rows in the files before it. */
static sampling file_of(const dt__series *s, const dt__series_rows *r, int64_t file, int64_t before)
{
    sampling a = { .s = s, .row = r->row + before, .n = r->table[file].rows, .before = before };
    const dt__csv_types *types = dt__csv_types_of(s->csv);
    a.from = (dt__csv_table *)(uintptr_t)&r->table[file];
    a.types = types == NULL ? NULL : &types->columns;
    return a;
}

/* The median step of time between a column's values, of the column where it is largest. */
static dt_status find_step(const dt__series *s, const dt__series_rows *r, double *out)
{
    double *step = dt__alloc_array(s->ctx, dt__max_i64(1, r->n), sizeof *step);
    if (step == NULL) return DT_ERR_NOMEM;
    *out = 0;
    for (int64_t k = 0; k < s->csv->inputs.n; k++) {
        int64_t n = 0, before = 0;
        for (int64_t file = 0; file < r->files; before += r->table[file++].rows) {
            const sampling a = file_of(s, r, file, before);
            const column c = input_of(&a, k);
            n = add_steps(&a, &c, step, n);
        }
        if (n == 0) continue;
        qsort(step, (size_t)n, sizeof *step, dt__by_double);
        if (step[n / 2] > *out) *out = step[n / 2];
    }
    dt__release(s->ctx, step);
    return DT_OK;
}

/* ---- moments -------------------------------------------------------------------------------- */

static double since(const sampling *a, const piece *p, int64_t place)
{
    return a->row[place].time - p->begin;
}

/* Whether a step is not a gap, allowing for rounding. */
static bool is_within(const sampling *a, double step)
{
    return step <= a->s->gap + SAME / a->s->o->rate;
}

/* Finds the next piece from row `first` on. CONFIG: it has too many moments. */
static dt_status next_piece(const sampling *a, int64_t first, piece *p)
{
    const double rate = a->s->o->rate;
    p->first = first;
    if (first == 0 || a->row[first].series != a->row[first - 1].series) {
        p->begin = a->row[first].time;
    }
    p->past = first + 1;
    while (p->past < a->n && a->row[p->past].series == a->row[first].series &&
           is_within(a, a->row[p->past].time - a->row[p->past - 1].time)) {
        p->past++;
    }
    const double k = ceil(since(a, p, first) * rate - SAME);
    const double last = floor(since(a, p, p->past - 1) * rate + SAME);
    if (last > MOST_STEP) {
        return dt_fail(a->s->ctx, DT_ERR_CONFIG,
                       "data.series.rate: %g rows a unit of '%s' are %g rows of a series of '%s'",
                       rate, a->s->o->time, last, a->name);
    }
    p->k = (int64_t)k;
    p->n = last >= k ? (int64_t)(last - k) + 1 : 0;
    return DT_OK;
}

/* Refuses two values of a series at the same time. */
static dt_status refuse_twice(const sampling *a, const column *c, int64_t i, int64_t k)
{
    const dt__words *names = c->role == DT__CSV_INPUT ? &a->s->csv->inputs : &a->s->csv->targets;
    return dt_fail(a->s->ctx, DT_ERR_FORMAT,
                   "'%s': rows %lld and %lld are of one series and have the same time, and values "
                   "in column '%s'; data.series.by must name the columns that tell series apart",
                   a->name, (long long)(a->row[i].at - a->before) + 1,
                   (long long)(a->row[k].at - a->before) + 1, names->word[c->number]);
}

/* The value at moment u, from rows at[0] (before u, -1: none) and at[1] (after u, p->past:
 * none). */
static double between(const sampling *a, const piece *p, const column *c, const int64_t at[2],
                      double u)
{
    const int64_t last = at[0], next = at[1];
    int method = a->s->o->method;
    const int type = a->types == NULL ? DT_COLUMN_NUMBER : a->types->column[c->number].type;
    const double before = last < 0 ? INFINITY : u - since(a, p, last);
    const double after = next == p->past ? INFINITY : since(a, p, next) - u;
    if (type == DT_COLUMN_CATEGORY || type == DT_COLUMN_BOOLEAN) method = DT_SERIES_BEFORE;
    if (before <= SAME / a->s->o->rate) return raw(a, c, last);
    if (method == DT_SERIES_BEFORE) return is_within(a, before) ? raw(a, c, last) : (double)NAN;
    if (method == DT_SERIES_NEAREST) {
        if (!is_within(a, fmin(before, after))) return (double)NAN;
        return raw(a, c, before <= after ? last : next);
    }
    if (!is_within(a, before + after)) return (double)NAN;
    const double v = raw(a, c, last);
    return v + (raw(a, c, next) - v) * (before / (before + after));
}

/* Whether missing values of an input are filled in. */
static bool is_filled_in(const sampling *a, int64_t input)
{
    return a->types != NULL && a->types->column[input].missing != DT_MISSING_REFUSED;
}

/* Advances to moment u: at[0] becomes the last row with a value, *row the row after it. */
static dt_status advance(const sampling *a, const piece *p, const column *c, double u, int64_t *row,
                         int64_t at[2])
{
    for (; *row < p->past && since(a, p, *row) <= u + SAME / a->s->o->rate; ++*row) {
        if (isnan(raw(a, c, *row))) continue;
        if (at[0] >= 0 && a->row[at[0]].time == a->row[*row].time) {
            return refuse_twice(a, c, at[0], *row);
        }
        at[0] = *row;
    }
    return DT_OK;
}

static dt_status put_input(sampling *a, const piece *p, const column *c)
{
    int64_t at[2] = { -1, p->first }, i = p->first;
    uint8_t *lacks = (uint8_t *)a->lacks->data + p->at;
    for (int64_t k = 0; k < p->n; k++) {
        const double u = (double)(p->k + k) / a->s->o->rate;
        DT__TRY(advance(a, p, c, u, &i, at));
        if (at[1] < i) at[1] = i;
        while (at[1] < p->past && isnan(raw(a, c, at[1]))) at[1]++;
        const double v = between(a, p, c, at, u);
        put_value(&a->to, c, p->at + k, v);
        if (isnan(v) && !is_filled_in(a, c->number)) lacks[k] = 1;
    }
    return advance(a, p, c, INFINITY, &i, at);
}

/* Fills a target or key with the last value before each moment; before the first value, with the
 * first. */
static void put_last(sampling *a, const piece *p, const column *c)
{
    const double same = SAME / a->s->o->rate;
    double last = (double)NAN;
    uint8_t *lacks = (uint8_t *)a->lacks->data + p->at;
    for (int64_t i = p->first; i < p->past && isnan(last) && c->role == DT__CSV_KEY; i++) {
        last = raw(a, c, i);
    }
    for (int64_t k = 0, i = p->first; k < p->n; k++) {
        const double u = (double)(p->k + k) / a->s->o->rate;
        for (; i < p->past && since(a, p, i) <= u + same; i++) {
            const double v = raw(a, c, i);
            if (!isnan(v)) last = v;
        }
        put_value(&a->to, c, p->at + k, last);
        if (isnan(last) && c->role == DT__CSV_TARGET) lacks[k] = 1;
    }
}

/* ---- a file --------------------------------------------------------------------------------- */

static dt_status put_piece(sampling *a, const piece *p)
{
    const dt__csv *csv = a->s->csv;
    double *time = (double *)a->to.time->data + p->at;
    for (int64_t k = 0; k < p->n; k++) time[k] = p->begin + (double)(p->k + k) / a->s->o->rate;
    for (int64_t i = 0; i < csv->inputs.n; i++) {
        const column c = input_of(a, i);
        DT__TRY(put_input(a, p, &c));
    }
    for (int64_t i = 0; i < csv->targets.n; i++) {
        const bool label = csv->target == DT_TARGET_CLASS;
        const column c = { DT__CSV_TARGET, i, csv->targets.n, label ? DT_ARRAY_I32 : DT_ARRAY_F32,
                           -1 };
        put_last(a, p, &c);
    }
    for (int64_t i = 0; i < csv->keys.n; i++) {
        const column c = { DT__CSV_KEY, i, csv->keys.n, DT_ARRAY_I32,
                           (int32_t)dt__words_find(&csv->key_words[i], "", 0) };
        put_last(a, p, &c);
    }
    return DT_OK;
}

static dt_status each_piece(sampling *a, bool put, int64_t *moments)
{
    piece p = { .past = 0 };
    while (p.past < a->n) {
        DT__TRY(next_piece(a, p.past, &p));
        if (put) DT__TRY(put_piece(a, &p));
        p.at += p.n;
        if (p.at / MOST_EACH > a->n) {
            return dt_fail(a->s->ctx, DT_ERR_CONFIG,
                           "data.series.rate: %g rows a unit of '%s' are more than %d for each row "
                           "of '%s'; expected a lower rate, or a smaller data.series.gap",
                           a->s->o->rate, a->s->o->time, MOST_EACH, a->name);
        }
    }
    *moments = p.at;
    return DT_OK;
}

static dt_status room_for(const sampling *a, const dt__storage *old, int64_t rows, int64_t each,
                          dt__storage **out)
{
    if (old == NULL) return DT_OK;
    const int64_t dims[] = { dt__max_i64(1, rows), each };
    int64_t bytes;
    if (!dt__product(2, dims, &bytes))
        return dt_fail(a->s->ctx, DT_ERR_NOMEM, "out of memory for '%s'", a->name);
    return dt__storage_as(a->s->ctx, old, &a->s->csv->cache, (uint64_t)bytes, out);
}

/* Bytes per row of a storage. */
static int64_t x_bytes(const sampling *a)
{
    return a->s->csv->inputs.n * (int64_t)(a->types == NULL ? sizeof(float) : sizeof(double));
}

static dt_status make_room(sampling *a, int64_t n)
{
    const dt__csv *csv = a->s->csv;
    const dt__storage *x = a->from->x;
    DT__TRY(room_for(a, x, n, x_bytes(a), &a->to.x));
    DT__TRY(room_for(a, a->from->y, n, csv->targets.n * (int64_t)sizeof(float), &a->to.y));
    DT__TRY(room_for(a, a->from->key, n, csv->keys.n * (int64_t)sizeof(int32_t), &a->to.key));
    DT__TRY(room_for(a, x, n, sizeof(double), &a->to.time));
    DT__TRY(room_for(a, x, n, 1, &a->lacks));
    memset(a->lacks->data, 0, (size_t)dt__max_i64(1, n));
    return DT_OK;
}

static void move(dt__storage *s, int64_t to, int64_t from, int64_t each)
{
    if (s == NULL || to == from) return;
    uint8_t *data = s->data;
    memcpy(data + to * each, data + from * each, (size_t)each);
}

/* Removes moments that lack a value. */
static void compact(sampling *a, int64_t moments)
{
    const dt__csv *csv = a->s->csv;
    const uint8_t *lacks = a->lacks->data;
    for (int64_t i = 0; i < moments; i++) {
        if (lacks[i] != 0) continue;
        const int64_t to = a->to.rows++;
        move(a->to.x, to, i, x_bytes(a));
        move(a->to.y, to, i, csv->targets.n * (int64_t)sizeof(float));
        move(a->to.key, to, i, csv->keys.n * (int64_t)sizeof(int32_t));
        move(a->to.time, to, i, sizeof(double));
    }
    a->held = a->to.rows;
    a->lacking = moments - a->to.rows;
}

static dt_status sample_file(sampling *a)
{
    int64_t moments = 0;
    DT__TRY(each_piece(a, false, &moments));
    dt_status s = make_room(a, moments);
    if (s == DT_OK) s = each_piece(a, true, &moments);
    if (s == DT_OK) compact(a, moments);
    dt__storage_release(a->lacks);
    if (s != DT_OK) {
        dt__csv_table_free(&a->to);
        return s;
    }
    dt__csv_table_free(a->from);
    *a->from = a->to;
    return DT_OK;
}

/* ---- all files ------------------------------------------------------------------------------ */

static dt_status refuse_empty(const dt__series *s, const char *name)
{
    return dt_fail(s->ctx, DT_ERR_FORMAT,
                   "'%s': no moment has a value of every column within %.6g (data.series.gap) of "
                   "it; expected columns of one time, or a larger gap",
                   name, s->gap);
}

static dt_status sample_all(dt__series *s, const dt__series_rows *r, const char *const *name)
{
    static const char *const methods[] = { "linear", "nearest", "last" };
    int64_t held = 0, lacking = 0;
    int64_t before = 0;
    for (int64_t file = 0; file < r->files; file++) {
        sampling a = file_of(s, r, file, before);
        a.name = name[file];
        before += a.n;
        DT__TRY(sample_file(&a));
        if (a.held == 0) return refuse_empty(s, name[file]);
        held += a.held;
        lacking += a.lacking;
    }
    dt__say(s->ctx,
            "data.series.rate: %lld rows become %lld, %g to a second (or unit) of '%s', by "
            "%s; %lld moments without a value within %.6g of them (data.series.gap) are left out",
            (long long)r->n, (long long)held, s->o->rate, s->o->time, methods[s->o->method],
            (long long)lacking, s->gap);
    return DT_OK;
}

dt_status dt__series_sample(dt__series *s, dt__csv_table *table, int64_t files,
                            const char *const *name)
{
    if (s->o->rate == 0) return DT_OK;
    dt__series_rows r;
    double step = 0;
    dt_status status = dt__series_read(s, table, files, name, &r);
    if (status == DT_OK && s->gap == 0 && s->o->gap > 0) s->gap = s->o->gap;
    if (status == DT_OK && s->gap == 0) {
        status = find_step(s, &r, &step);
        s->gap = DT__SERIES_GAP * fmax(step, 1 / s->o->rate);
    }
    if (status == DT_OK) status = sample_all(s, &r, name);
    dt__series_rows_free(s->ctx, &r);
    return status;
}

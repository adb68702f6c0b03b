/* Fits typed columns to the training rows, without those held back. For the sorted values v of a
 * column, without missing ones:
 *     mean        the sum in the order of rows / n
 *     quantile q  v_i + (v_i+1 - v_i) (p - i),  p = q (n - 1),  i = floor(p); the median is q = 1/2
 *     frequent    the longest run of equal values, the first of several
 * Categories are the `most` most frequent words; of equally frequent ones the first in byte order.
 * They are sorted as numbers if all are numbers, else by bytes. */
#include "core/block_list.h"
#include "core/comparisons.h"
#include "data/alike.h"
#include "data/columns/columns.h"
#include "data/tables/csv_types.h"
#include "data/tables/merging.h"
#include "data/tables/table_cache.h"
#include "data/value_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUANTILES 101

typedef struct fitting {
    dt__csv_types *t;
    const dt_dataset *train;
    double *v; /* values of a column, in the order of rows, later sorted */
    int64_t n;
} fitting;

/* Rows of recording r that belong to examples of d: the returned number of rows from *from on. */
static int64_t rows_of(const dt_dataset *d, int64_t r, int64_t *from)
{
    const dt__array_store *s = d->arrays;
    const int64_t begin = r == 0 ? 0 : s->recording[r - 1].end;
    const int64_t first = dt__max_i64(begin, d->first);
    const int64_t n = dt__min_i64(s->recording[r].end, d->first + d->count) - first;
    *from = (first - begin) * s->stride;
    if (n <= 0) return 0;
    return dt__min_i64(s->recording[r].rows - *from, (n - 1) * s->stride + s->length);
}

static void gather(fitting *f, int64_t k)
{
    const dt__array_store *s = f->train->arrays;
    f->n = 0;
    for (int64_t r = 0; r < s->n_recordings; r++) {
        int64_t from;
        const int64_t rows = rows_of(f->train, r, &from);
        const double *raw = (const double *)(const void *)s->recording[r].data + from * s->row + k;
        for (int64_t i = 0; i < rows; i++) {
            const bool between = i % s->stride >= s->length; /* the row is between two windows */
            if (!between && !isnan(raw[i * s->row])) f->v[f->n++] = raw[i * s->row];
        }
    }
}

static double quantile(const fitting *f, double q)
{
    const double p = q * (double)(f->n - 1);
    const int64_t i = (int64_t)floor(p);
    if (i + 1 >= f->n) return f->v[f->n - 1];
    return f->v[i] + (f->v[i + 1] - f->v[i]) * (p - (double)i);
}

static double frequent(const fitting *f)
{
    int64_t best = 0, longest = 0;
    for (int64_t i = 0, past; i < f->n; i = past) {
        for (past = i + 1; past < f->n && f->v[past] == f->v[i];) past++;
        if (past - i <= longest) continue;
        longest = past - i;
        best = i;
    }
    return f->v[best];
}

typedef struct word_count {
    const char *word;
    int64_t count;
} word_count;

static int by_count(const void *a, const void *b)
{
    const word_count *x = a, *y = b;
    if (x->count != y->count) return x->count > y->count ? -1 : 1;
    return strcmp(x->word, y->word);
}

static int by_number(const void *a, const void *b)
{
    char x[DT__VALUE_TEXT], y[DT__VALUE_TEXT];
    const word_count *p = a, *q = b;
    dt__value_text(p->word, strlen(p->word), x);
    dt__value_text(q->word, strlen(q->word), y);
    const int order = dt__value_compare(x, y);
    return order != 0 ? order : strcmp(p->word, q->word);
}

static dt_status fit_words(fitting *f, int64_t k)
{
    const dt__csv_types *t = f->t;
    const dt__words *words = &t->words[k];
    dt_column *c = &t->column[k];
    char value[DT__VALUE_TEXT];
    int64_t n = 0, kept;
    bool numbers = true;
    word_count *all = dt__alloc_zero(t->ctx, (size_t)dt__max_i64(1, words->n) * sizeof *all);
    if (all == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < words->n; i++) all[i].word = words->word[i];
    for (int64_t i = 0; i < f->n; i++) all[(int64_t)f->v[i]].count++;
    qsort(all, (size_t)words->n, sizeof *all, by_count);
    while (n < words->n && all[n].count > 0) n++;
    kept = t->rule[k]->most > 0 ? dt__min_i64(n, t->rule[k]->most) : n;
    const char *usual = all[0].word; /* the most frequent */
    for (int64_t i = 0; i < kept; i++) {
        numbers = numbers && dt__value_text(all[i].word, strlen(all[i].word), value);
    }
    qsort(all, (size_t)kept, sizeof *all, numbers ? by_number : dt__by_text);
    const char **names =
        dt__block_list_add(t->ctx, (void **)&f->t->blocks, (size_t)kept * sizeof *names);
    for (int64_t i = 0; names != NULL && i < kept; i++) {
        names[i] = all[i].word;
        if (strcmp(all[i].word, usual) == 0) c->fill = (double)(i + 1);
    }
    c->category = names;
    c->n_categories = kept;
    dt__release(t->ctx, all);
    return names == NULL ? DT_ERR_NOMEM : DT_OK;
}

/* Warns of similar categories of a column. */
static dt_status say_alike(const fitting *f, const dt_column *c)
{
    char where[DT__SHOWN + 40], shown[DT__SHOWN];
    snprintf(where, sizeof where, "data.train: column '%s'", dt__shown(c->name, shown));
    const dt__name_list list = { where, "categories",
                                 "'words' of its rule in data.columns.types says so", c->category,
                                 c->n_categories };
    return dt__say_alike(f->t->ctx, &list);
}

static dt_status fit_constant(const fitting *f, int64_t k)
{
    dt_column *c = &f->t->column[k];
    const char *fill = f->t->rule[k]->fill;
    dt_field value;
    const dt_status s = dt_column_parse(f->t->ctx, c, fill, strlen(fill), &value);
    if (s == DT_ERR_NOMEM) return s;
    const bool unknown = c->type == DT_COLUMN_CATEGORY && value.number == 0;
    c->fill = value.number;
    if (s == DT_OK && !unknown && !isnan(c->fill)) return DT_OK;
    return dt_fail(f->t->ctx, DT_ERR_CONFIG,
                   "data.columns.types: column '%s': fill: '%s' is not a value of type %s", c->name,
                   fill, dt__column_types[c->type]);
}

/* Refuses numbers whose logarithms are equal as f32, such as seconds since 1970 that differ by
 * hours. Overwrites the values. */
static dt_status check_logarithms(const fitting *f, const dt_column *c)
{
    char shown[DT__SHOWN];
    for (int64_t i = 0; i < f->n; i++) f->v[i] = dt__column_scaled(c, f->v[i]);
    const dt__number_run run = { "", DT_ARRAY_F64, (const uint8_t *)f->v, f->n };
    const dt_status s = dt__refuse_merged(f->t->ctx, &run, 1, 1, 1);
    if (s != DT_ERR_FORMAT) return s;
    return dt_fail(f->t->ctx, DT_ERR_CONFIG,
                   "data.columns.types: column '%s': different numbers have one logarithm in f32, "
                   "which models compute with; 'scale: robust' subtracts their median first",
                   dt__shown(c->name, shown));
}

static dt_status fit_scale(const fitting *f, dt_column *c)
{
    if (c->scale == DT_SCALE_LOG) return check_logarithms(f, c);
    if (c->scale == DT_SCALE_ROBUST) {
        const double range = quantile(f, 0.75) - quantile(f, 0.25);
        c->offset = quantile(f, 0.5);
        c->factor = range > 0 ? range : 1;
    }
    if (c->type == DT_COLUMN_TIME) c->offset = f->v[0];
    if (c->scale != DT_SCALE_QUANTILE) return DT_OK;
    double *q = dt__block_list_add(f->t->ctx, (void **)&f->t->blocks, QUANTILES * sizeof *q);
    if (q == NULL) return DT_ERR_NOMEM;
    for (int i = 0; i < QUANTILES; i++) q[i] = quantile(f, (double)i / (QUANTILES - 1));
    c->quantiles = q;
    c->n_quantiles = QUANTILES;
    return DT_OK;
}

/* Whether a setting of the column needs sorted values. */
static bool needs_order(const dt_column *c)
{
    return c->scale != DT_SCALE_NONE || c->type == DT_COLUMN_TIME ||
           (c->missing != DT_MISSING_REFUSED && c->missing != DT_MISSING_MEAN &&
            c->missing != DT_MISSING_CONSTANT);
}

static dt_status fit_values(const fitting *f, dt_column *c)
{
    double sum = 0;
    for (int64_t i = 0; i < f->n; i++) sum += f->v[i];
    if (c->missing == DT_MISSING_MEAN) c->fill = sum / (double)f->n;
    if (!needs_order(c)) return DT_OK;
    qsort(f->v, (size_t)f->n, sizeof *f->v, dt__by_double);
    const bool usual = c->missing == DT_MISSING_FREQUENT || c->type == DT_COLUMN_BOOLEAN;
    if (usual) c->fill = frequent(f);
    else if (c->missing != DT_MISSING_MEAN) c->fill = quantile(f, 0.5);
    return fit_scale(f, c);
}

static dt_status fit_column(fitting *f, int64_t k)
{
    dt_column *c = &f->t->column[k];
    gather(f, k);
    if (f->n == 0) {
        return dt_fail(f->t->ctx, DT_ERR_CONFIG,
                       "data.columns.types: column '%s' has no value in the rows that are trained "
                       "on; type: ignore leaves it out",
                       c->name);
    }
    DT__TRY(c->type == DT_COLUMN_CATEGORY ? fit_words(f, k) : fit_values(f, c));
    if (c->type == DT_COLUMN_CATEGORY) DT__TRY(say_alike(f, c));
    return c->missing == DT_MISSING_CONSTANT ? fit_constant(f, k) : DT_OK;
}

dt_status dt__csv_types_fit(dt__csv_types *t, const dt_dataset *train)
{
    if (t->is_fitted) return DT_OK;
    int64_t rows = 0, from;
    for (int64_t r = 0; r < train->arrays->n_recordings; r++) rows += rows_of(train, r, &from);
    const dt__storage *raw = train->arrays->source[0].storage;
    dt__storage *room;
    DT__TRY(dt__storage_as(t->ctx, raw, &t->cache, (uint64_t)rows * sizeof(double), &room));
    fitting f = { t, train, room->data, 0 };
    dt_status s = DT_OK;
    for (int64_t k = 0; k < t->columns.n && s == DT_OK; k++) {
        if (t->rule[k] != NULL) s = fit_column(&f, k);
    }
    dt__storage_release(room);
    t->is_fitted = s == DT_OK;
    return s;
}

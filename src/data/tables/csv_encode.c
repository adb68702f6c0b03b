/* Encodes raw values of typed columns as the numbers of examples. */
#include "core/block_list.h"
#include "core/text/json.h"
#include "data/tables/column_names.h"
#include "data/tables/csv_types.h"
#include "data/tables/table_cache.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct encoding {
    dt__csv_types *t;
    const char *path;
    const double *raw; /* [rows, columns] */
    /* [rows]: 1: a series begins, so values above are of another; NULL: no series */
    const uint8_t *begins;
    int64_t rows, width;
    void *blocks;
    double **code;     /* [columns]: for a category, the code of each word */
    dt_field *row;     /* [columns] */
    double *last;      /* [columns]: last value above, for missing: last */
    int64_t *unknown;  /* [columns]: number of fields with unknown words, */
    const char **word; /* and the first of these words */
} encoding;

static dt_status begin(encoding *e)
{
    const dt__csv_types *t = e->t;
    const size_t n = (size_t)t->columns.n;
    e->code = dt__block_list_add(t->ctx, &e->blocks, n * sizeof *e->code);
    e->row = dt__block_list_add(t->ctx, &e->blocks, n * sizeof *e->row);
    e->last = dt__block_list_add(t->ctx, &e->blocks, n * sizeof *e->last);
    e->unknown = dt__block_list_add(t->ctx, &e->blocks, n * sizeof *e->unknown);
    e->word = dt__block_list_add(t->ctx, &e->blocks, n * sizeof *e->word);
    if (e->code == NULL || e->row == NULL || e->last == NULL || e->unknown == NULL ||
        e->word == NULL) {
        return DT_ERR_NOMEM;
    }
    for (int64_t k = 0; k < t->columns.n; k++) {
        const dt__words *words = &t->words[k];
        e->last[k] = (double)NAN;
        if (words->n == 0) continue;
        e->code[k] = dt__block_list_add(t->ctx, &e->blocks, (size_t)words->n * sizeof(double));
        if (e->code[k] == NULL) return DT_ERR_NOMEM;
        for (int64_t i = 0; i < words->n; i++) {
            dt_field f;
            DT__TRY(
                dt_column_parse(t->ctx, &t->column[k], words->word[i], strlen(words->word[i]), &f));
            e->code[k][i] = f.number;
        }
    }
    return DT_OK;
}

/* Takes the raw values of a row. */
static void take_row(encoding *e, const double *raw)
{
    for (int64_t k = 0; k < e->t->columns.n; k++) {
        const dt_column *c = &e->t->column[k];
        double v = raw[k];
        if (c->type == DT_COLUMN_CATEGORY && !isnan(v)) {
            const int64_t word = (int64_t)v;
            v = e->code[k][word];
            if (v == 0 && e->unknown[k]++ == 0) e->word[k] = e->t->words[k].word[word];
        }
        if (c->missing == DT_MISSING_LAST) {
            if (isnan(v)) v = e->last[k];
            e->last[k] = v;
        }
        e->row[k].number = v;
    }
}

/* Sets indicators: a field that was filled from the last row counts as missing. */
static void set_indicators(const encoding *e, const double *raw, float *x)
{
    for (int64_t k = 0; k < e->t->columns.n; k++) {
        x += dt_column_width(&e->t->column[k]);
        if (e->t->column[k].indicator && isnan(raw[k])) x[-1] = 1;
    }
}

static dt_status encode_rows(encoding *e, float *x)
{
    dt_ctx *ctx = e->t->ctx;
    for (int64_t i = 0; i < e->rows; i++) {
        const double *raw = e->raw + i * e->t->columns.n;
        for (int64_t k = 0; k < e->t->columns.n && e->begins != NULL && e->begins[i]; k++) {
            e->last[k] = (double)NAN;
        }
        take_row(e, raw);
        const dt_status s = dt_columns_encode(ctx, &e->t->columns, e->row, x + i * e->width);
        if (s == DT_ERR_FORMAT) {
            char words[DT__MESSAGE_SIZE];
            strcpy(words, dt_error(ctx));
            return dt_fail(ctx, s, "'%s': row %lld: %s", e->path, (long long)i + 1, words);
        }
        DT__TRY(s);
        set_indicators(e, raw, x + i * e->width);
    }
    return DT_OK;
}

static void say_unknown(const encoding *e)
{
    char column[DT__SHOWN], word[DT__SHOWN];
    for (int64_t k = 0; k < e->t->columns.n; k++) {
        const dt_column_rule *rule = e->t->rule[k];
        if (e->unknown[k] == 0 || (rule != NULL && rule->most > 0)) continue;
        dt__say(e->t->ctx,
                "'%s': column '%s': %lld of %lld rows have words that the training rows lack, such "
                "as '%s'; they are unknown",
                e->path, dt__shown(e->t->column[k].name, column), (long long)e->unknown[k],
                (long long)e->rows, dt__shown(e->word[k], word));
    }
}

/* Refuses unscaled columns with different numbers that are equal as f32. */
static dt_status check_merged(encoding *e, const dt__storage *from)
{
    dt__storage *room;
    DT__TRY(
        dt__storage_as(e->t->ctx, from, &e->t->cache, (uint64_t)e->rows * sizeof(double), &room));
    double *v = room->data;
    dt_status s = DT_OK;
    for (int64_t k = 0; k < e->t->columns.n && s == DT_OK; k++) {
        const dt_column *c = &e->t->column[k];
        char name[DT__MESSAGE_SIZE / 2], shown[DT__SHOWN];
        if (c->type != DT_COLUMN_NUMBER || c->scale != DT_SCALE_NONE) continue;
        snprintf(name, sizeof name, "'%s': column '%s'", e->path, dt__shown(c->name, shown));
        dt__number_run run = { name, DT_ARRAY_F64, (const uint8_t *)v, 0 };
        for (int64_t i = 0; i < e->rows; i++) {
            const double raw = e->raw[i * e->t->columns.n + k];
            if (!isnan(raw)) v[run.n++] = raw;
        }
        s = dt__refuse_merged(e->t->ctx, &run, 1, 1, 1);
    }
    dt__storage_release(room);
    return s;
}

dt_status dt__csv_types_encode(dt__csv_types *t, const dt__array_source *from, int64_t rows,
                               dt__storage **out)
{
    encoding e = { .t = t, .path = from->name, .raw = from->storage->data, .rows = rows };
    e.begins = from->begins == NULL ? NULL : from->begins->data;
    e.width = dt_columns_width(&t->columns);
    const int64_t sizes[] = { rows, e.width, (int64_t)sizeof(float) };
    int64_t bytes = 0;
    dt_status s = dt__product(3, sizes, &bytes) ? begin(&e) : DT_ERR_NOMEM;
    dt__storage *x = NULL;
    if (s == DT_OK) s = dt__storage_as(t->ctx, from->storage, &t->cache, (uint64_t)bytes, &x);
    if (s == DT_OK) s = check_merged(&e, from->storage);
    if (s == DT_OK) s = encode_rows(&e, x->data);
    if (s == DT_OK) say_unknown(&e);
    dt__block_list_free(t->ctx, &e.blocks);
    if (s == DT_OK) *out = x;
    else dt__storage_release(x);
    return s;
}

static dt_status encode_source(dt__csv_types *t, dt__array_store *s, int64_t source)
{
    int64_t rows = 0;
    dt__array_source *from = &s->source[source];
    const int64_t width = dt_columns_width(&t->columns);
    for (int64_t r = 0; r < s->n_recordings; r++) {
        const dt__recording *in = &s->recording[r];
        if (in->source == source) rows = dt__max_i64(rows, in->first + in->rows);
    }
    dt__storage *x;
    DT__TRY(dt__csv_types_encode(t, from, rows, &x));
    dt__storage_release(from->storage);
    from->storage = x;
    for (int64_t r = 0; r < s->n_recordings; r++) {
        dt__recording *in = &s->recording[r];
        if (in->source != source) continue;
        in->data = (const uint8_t *)((const float *)x->data + in->first * width);
        in->dtype = DT_ARRAY_F32;
    }
    return DT_OK;
}

/* Names of the numbers: "age", "age missing", "city=Paris", "when hour", "when of_day sine". */
static dt_status name_numbers(dt__csv_types *t, dt__array_store *s)
{
    const int64_t width = dt_columns_width(&t->columns);
    void *blocks = NULL;
    char **name = dt__block_list_add(t->ctx, &blocks, (size_t)width * sizeof *name);
    dt_status status = name == NULL ? DT_ERR_NOMEM : DT_OK;
    for (int64_t k = 0, at = 0; status == DT_OK && k < t->columns.n; k++) {
        for (int64_t i = 0; status == DT_OK && i < dt_column_width(&t->column[k]); i++, at++) {
            const char *own = dt__column_number_name(t->ctx, &t->column[k], i, &blocks);
            if (own == NULL) status = DT_ERR_NOMEM;
            else name[at] = (char *)own;
        }
    }
    if (status == DT_OK) status = dt__array_store_columns(s, (const char *const *)name, width);
    dt__block_list_free(t->ctx, &blocks);
    return status;
}

dt_status dt__csv_types_apply(dt__csv_types *t, dt__array_store *s)
{
    if (s->fields.n > 0) return DT_OK;
    for (int64_t i = 0; i < s->n_sources; i++) DT__TRY(encode_source(t, s, i));
    s->row = dt_columns_width(&t->columns);
    s->dims[s->rank - 1] = s->row;
    s->dtype = DT_ARRAY_F32;
    DT__TRY(name_numbers(t, s));
    return dt__array_store_fields(s, &t->columns);
}

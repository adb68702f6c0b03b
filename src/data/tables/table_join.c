/* Rows of a table that consists of several files (table_join.h), one at a time. */
#include "data/tables/table_join.h"

#include "core/text/ending.h"
#include "core/text/json.h"
#include "data/tables/csv_reader.h"
#include "data/tables/tables.h"

#include <detent/experimental/tables.h>

#include <string.h>

typedef struct sensor {
    char *path;
    dt__csv_reader reader;
    int64_t *to;  /* [reader.n]: index in `names` of each column */
    int64_t rows; /* rows read so far */
} sensor;

struct dt__table_join {
    dt_ctx *ctx;
    dt__csv *c; /* lent */
    sensor file[DT__MOST_SENSORS];
    int n, at; /* number of files, and the current one */
    dt__words names;
    dt__csv_field *field; /* [names.n], the fields of a row */
    bool named;           /* the line of names was written */
    dt__chars text;       /* text of a row, */
    size_t taken;         /* and how much of it was read */
};

size_t dt__join_length(const char *name)
{
    for (const char *plus = strchr(name, '+'); plus != NULL; plus = strchr(plus + 1, '+')) {
        char first[DT__MESSAGE_SIZE];
        const size_t n = (size_t)(plus - name);
        if (n >= sizeof first || plus[1] == 0) continue;
        memcpy(first, name, n);
        first[n] = 0;
        if (dt_is_table(first) && dt__database_length(name) == 0) return n;
    }
    return 0;
}

/* ---- columns -------------------------------------------------------------------------------- */

/* Whether columns of this name in several files are the same column. */
static bool is_shared(const dt__table_join *j, const char *name)
{
    const dt_strings *target = &j->c->options->target;
    for (int i = 0; i < target->n; i++) {
        if (dt__csv_means(j->c, target->v[i], name)) return true;
    }
    return dt__words_find(&j->c->keys, name, strlen(name)) >= 0;
}

/* The index in the table of a column of file k. */
static dt_status place_of(dt__table_join *j, int k, const char *name, int64_t *out)
{
    const bool known = dt__words_find(&j->names, name, strlen(name)) >= 0;
    const bool shared = is_shared(j, name);
    char *other = known && !shared ? dt__format_string(j->ctx, "%s.%d", name, k + 1) : NULL;
    if (known && !shared && other == NULL) return DT_ERR_NOMEM;
    const char *const own = other == NULL ? name : other;
    const int64_t before = j->names.n;
    *out = dt__words_add(j->ctx, &j->names, own, strlen(own));
    dt_status s = *out < 0 ? DT_ERR_NOMEM : DT_OK;
    bool twice = s == DT_OK && !shared && j->names.n == before;
    for (const int64_t *to = j->file[k].to; to < out; to++) twice = twice || *to == *out;
    if (twice) {
        char shown[DT__SHOWN];
        s = dt_fail(j->ctx, DT_ERR_FORMAT, "'%s': two columns have the same name, '%s'",
                    j->file[k].path, dt__shown(own, shown));
    }
    dt__release(j->ctx, other);
    return s;
}

static dt_status name_columns(dt__table_join *j, int k)
{
    sensor *s = &j->file[k];
    s->to = dt__alloc_array(j->ctx, dt__max_i64(1, s->reader.n), sizeof *s->to);
    if (s->to == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < s->reader.n; i++) {
        DT__TRY(place_of(j, k, s->reader.name[i], &s->to[i]));
    }
    return DT_OK;
}

/* Checks that all files have the columns that identify series and times. */
static dt_status check_series(const dt__table_join *j, const sensor *s)
{
    const dt_series_options *o = j->c->series;
    char shown[DT__SHOWN];
    for (int i = 0; i <= o->by.n; i++) {
        const char *name = i < o->by.n ? o->by.v[i] : o->time;
        int64_t k = 0;
        while (k < s->reader.n && strcmp(s->reader.name[k], name) != 0) k++;
        if (k < s->reader.n) continue;
        return dt_fail(j->ctx, DT_ERR_CONFIG,
                       "'%s' has no column '%s' of data.series; each of the files that are joined "
                       "needs it",
                       s->path, dt__shown(name, shown));
    }
    return DT_OK;
}

/* ---- files ---------------------------------------------------------------------------------- */

static dt_status open_file(dt__table_join *j, const char *name, size_t n)
{
    if (j->n == DT__MOST_SENSORS) {
        return dt_fail(j->ctx, DT_ERR_CONFIG, "'%s' and more: at most %d files are one table", name,
                       DT__MOST_SENSORS);
    }
    sensor *s = &j->file[j->n++];
    s->path = dt__alloc(j->ctx, n + 1);
    if (s->path == NULL) return DT_ERR_NOMEM;
    memcpy(s->path, name, n);
    s->path[n] = 0;
    s->reader = (dt__csv_reader){ .c = &j->c, .n_c = 1, .ctx = j->ctx, .path = s->path };
    s->reader.input.descriptor = -1;
    if (!dt_is_table(s->path)) {
        return dt_fail(j->ctx, DT_ERR_CONFIG,
                       "'%s' is joined to a table; expected the name of a .csv file", s->path);
    }
    DT__TRY(dt__csv_open(&s->reader));
    if (!dt__csv_has_row(&s->reader)) return dt__csv_no_row(&s->reader);
    DT__TRY(dt__csv_read_names(&s->reader));
    DT__TRY(check_series(j, s));
    return name_columns(j, j->n - 1);
}

static dt_status open_all(dt__table_join *j, const char *name)
{
    const dt_series_options *o = j->c->series;
    if (o == NULL || o->rate == 0 || !j->c->options->header) {
        return dt_fail(j->ctx, DT_ERR_CONFIG,
                       "'%s': several files are joined by the times of their rows; expected files "
                       "with a header and a data.series.rate",
                       name);
    }
    for (const char *at = name; *at != 0;) {
        size_t n = dt__join_length(at);
        if (n == 0) n = strlen(at);
        DT__TRY(open_file(j, at, n));
        at += n + (at[n] == '+');
    }
    j->field = dt__alloc_array(j->ctx, j->names.n, sizeof *j->field);
    return j->field == NULL ? DT_ERR_NOMEM : DT_OK;
}

dt_status dt__table_join_open(dt__csv *c, const char *name, dt__table_join **out)
{
    dt__table_join *j = *out = dt__alloc_zero(c->ctx, sizeof *j);
    if (j == NULL) return DT_ERR_NOMEM;
    j->ctx = j->text.ctx = c->ctx;
    j->c = c;
    return open_all(j, name);
}

void dt__table_join_close(dt__table_join *j)
{
    if (j == NULL) return;
    for (int i = 0; i < j->n; i++) {
        dt__csv_close_reader(&j->file[i].reader);
        dt__release(j->ctx, j->file[i].path);
        dt__release(j->ctx, j->file[i].to);
    }
    dt__words_free(j->ctx, &j->names);
    dt__release(j->ctx, j->field);
    dt__release(j->ctx, j->text.bytes);
    dt__release(j->ctx, j);
}

char dt__table_join_decimal(const dt__table_join *j, char *thousands)
{
    int i = 0;
    while (i + 1 < j->n && j->file[i].reader.is_plain) i++;
    *thousands = j->file[i].reader.thousands;
    return j->file[i].reader.decimal;
}

const char *dt__table_join_file(const dt__table_join *j, int64_t *row)
{
    int i = 0;
    for (; i<j->at && * row> j->file[i].rows; i++) *row -= j->file[i].rows;
    return j->file[i].path;
}

/* ---- rows ----------------------------------------------------------------------------------- */

static void put_field(dt__chars *t, const dt__csv_field *f)
{
    if (f->n == 0) return;
    dt__put(t, "\"", 1);
    for (size_t i = 0; i < f->n; i++) {
        if (f->text[i] == '"') dt__put(t, "\"", 1);
        dt__put(t, &f->text[i], 1);
    }
    dt__put(t, "\"", 1);
}

static dt_status end_row(dt__table_join *j)
{
    for (int64_t i = 0; i < j->names.n; i++) {
        if (i > 0) dt__put(&j->text, ",", 1);
        put_field(&j->text, &j->field[i]);
    }
    dt__put(&j->text, "\n", 1);
    return j->text.failed ? DT_ERR_NOMEM : DT_OK;
}

static dt_status take_row(dt__table_join *j, sensor *s)
{
    dt__csv_reader *r = &s->reader;
    const char *at = r->at;
    const int64_t n = dt__csv_count_fields(r, r->separator, &at);
    if (n != r->n) return dt__csv_wrong_count(r, n, "");
    for (int64_t i = 0; i < j->names.n; i++) j->field[i].n = 0;
    for (r->column = 0; r->column < r->n; r->column++) {
        DT__TRY(dt__csv_take_field(r, &j->field[s->to[r->column]]));
        dt__csv_is_last(r);
    }
    r->line++;
    s->rows++;
    return end_row(j);
}

static dt_status next_row(dt__table_join *j, bool *found)
{
    *found = true;
    if (!j->named) {
        for (int64_t i = 0; i < j->names.n; i++) {
            j->field[i] = (dt__csv_field){ j->names.word[i], strlen(j->names.word[i]) };
        }
        j->named = true;
        return end_row(j);
    }
    for (;;) {
        sensor *s = &j->file[j->at];
        while (dt__csv_has_row(&s->reader)) {
            if (!dt__csv_leaves_out(&s->reader)) return take_row(j, s);
        }
        DT__TRY(s->reader.status);
        dt__csv_say_left_out(&s->reader);
        if (j->at + 1 == j->n) break;
        j->at++;
    }
    *found = false;
    return DT_OK;
}

dt_status dt__table_join_read(dt__table_join *j, uint8_t *to, size_t wanted, size_t *got)
{
    bool found = true;
    *got = 0;
    while (*got < wanted && found) {
        if (j->taken == j->text.used) {
            j->taken = j->text.used = 0;
            DT__TRY(next_row(j, &found));
            continue;
        }
        size_t n = j->text.used - j->taken;
        if (n > wanted - *got) n = wanted - *got;
        memcpy(to + *got, j->text.bytes + j->taken, n);
        j->taken += n;
        *got += n;
    }
    return DT_OK;
}

/* Reads tables in CSV files. A separator ends fields; a field in quotes may hold separators, ends
 * of lines and doubled quotes; lines end in LF or CR LF; a byte order mark and blank lines are
 * skipped. Only requested columns are parsed. Reading continues after errors in fields: all are
 * reported, up to DT__CSV_FAULTS. */
#include "data/tables/csv_types.h"

#include "core/text/json.h"
#include "core/text/number.h"
#include "core/pace.h"
#include "core/text/utf8.h"
#include "data/tables/decimal.h"
#include "data/tables/table_cache.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define FIRST_ROWS 1024 /* rows allocated first */

/* ---- values ------------------------------------------------------------------------------- */

/* Parses a whole field as a number. */
static dt_status number_of(const dt__csv_reader *r, const dt__csv_field *f, dt__decimal *out)
{
    char plain[DT__CSV_NUMBER];
    const char *at = f->text, *end = at + f->n;
    if (f->n == 0)
        return dt__csv_refuse(
            r, f, "is empty; expected a number; data.columns.types says what missing ones become");
    if (!r->is_plain) {
        size_t n;
        if (!dt__csv_plain_number(r, f, plain, &n))
            return dt__csv_refuse(r, f, dt__csv_no_number(r, f));
        at = plain;
        end = plain + n;
    }
    while (at < end && dt__csv_is_blank(r, *at)) at++;
    at = dt__decimal_read(at, end, out);
    while (at != NULL && at < end && dt__csv_is_blank(r, *at)) at++;
    if (at != end) return dt__csv_refuse(r, f, dt__csv_no_number(r, f));
    return out->too_large ? dt__csv_refuse(r, f, "is beyond the range of f32") : DT_OK;
}

/* Parses a number; most end where their field does. */
static dt_status read_number(dt__csv_reader *r, dt__decimal *out)
{
    const char *after = r->is_plain ? dt__decimal_read(r->at, r->end, out) : NULL;
    if (after != NULL && dt__csv_ends_field(r, after) && !out->too_large) {
        r->at += after - r->at;
        return DT_OK;
    }
    dt__csv_field f;
    DT__TRY(dt__csv_take_field(r, &f));
    return number_of(r, &f, out);
}

static dt_status read_class(const dt__csv_reader *r, dt__csv *c, const dt__csv_field *f,
                            int32_t *out)
{
    if (f->n == 0)
        return dt__csv_refuse(
            r, f, "is empty; expected a class: rows without one are to be left out of the file");
    if (!c->labels.is_closed && !dt__is_utf8_of(f->text, f->n)) {
        return dt__csv_refuse(r, f, dt__csv_not_utf8);
    }
    switch (dt__labels_add(r->ctx, &c->labels, f->text, f->n, out)) {
    case DT__LABEL_GOOD: return DT_OK;
    case DT__LABEL_EXCESS:
        return dt__csv_refuse(r, f,
                              "is beyond the 65536 classes that there can be; for numeric targets "
                              "set data.task: regression");
    case DT__LABEL_UNKNOWN: return dt__csv_refuse(r, f, dt__labels_unknown(&c->labels));
    case DT__LABEL_NOMEM: break;
    }
    return DT_ERR_NOMEM;
}

static bool is_class(const dt__csv_reader *r, const dt__csv_place *p)
{
    return p->role == DT__CSV_TARGET && r->c[p->table]->target == DT_TARGET_CLASS;
}

/* Compares a number with earlier ones of its column, `column` [rows, each] in f32. */
static dt_status compare(const dt__csv_reader *r, dt__merging *m, const dt__decimal *v,
                         const float *column, int64_t each)
{
    bool missing;
    DT__TRY(dt__merging_add(r->ctx, m, &v->exact, v->value, &missing));
    for (int64_t i = 0; i < r->rows && missing; i++) {
        if (isnan(column[i * each])) continue;
        const dt__exact before = dt__exact_real((double)column[i * each]);
        DT__TRY(dt__merging_put(r->ctx, m, &before, column[i * each]));
    }
    return DT_OK;
}

/* Stores a number. */
static dt_status put_number(const dt__csv_reader *r, const dt__csv_place *p, const dt__decimal *v)
{
    const dt__csv *c = r->c[p->table];
    const dt__csv_table *t = &r->out[p->table];
    const bool input = p->role == DT__CSV_INPUT;
    const int64_t each = input ? c->inputs.n : c->targets.n, at = p->number;
    float *column = (float *)(input ? t->x : t->y)->data + at;
    column[r->rows * each] = v->value;
    if (input || c->target == DT_TARGET_VALUES) {
        return compare(r, &c->merging[input ? at : c->inputs.n + at], v, column, each);
    }
    if (v->value == 0 || v->value == 1) return DT_OK;
    char digits[32];
    dt__print_real(v->exact.value, digits);
    return dt__csv_refuse(r, &(dt__csv_field){ digits, strlen(digits) }, "is neither 0 nor 1");
}

static dt_status put_key(const dt__csv_reader *r, const dt__csv_place *p, const dt__csv_field *f)
{
    dt__csv *c = r->c[p->table];
    if (!dt__is_utf8_of(f->text, f->n)) return dt__csv_refuse(r, f, dt__csv_not_utf8);
    const int64_t code = dt__words_add(r->ctx, &c->key_words[p->number], f->text, f->n);
    if (code < 0) return DT_ERR_NOMEM;
    if (code > INT32_MAX) return dt__csv_refuse(r, f, "is one text too many");
    int32_t *codes = r->out[p->table].key->data;
    codes[r->rows * c->keys.n + p->number] = (int32_t)code;
    return DT_OK;
}

static bool is_typed(const dt__csv_reader *r, const dt__csv_place *p)
{
    return p->role == DT__CSV_INPUT && r->c[p->table]->types != NULL;
}

/* Reads the text of a column that is a class, a key or typed in some reading. */
static dt_status read_words(dt__csv_reader *r, const dt__csv_place *p, int64_t n)
{
    dt__csv_field f;
    dt__decimal value;
    DT__TRY(dt__csv_take_field(r, &f));
    for (int64_t i = 0; i < n; i++) {
        if (p[i].role == DT__CSV_KEY) {
            DT__TRY(put_key(r, &p[i], &f));
            continue;
        }
        if (is_typed(r, &p[i])) {
            DT__TRY(dt__csv_put_typed(r, &p[i], &f));
            continue;
        }
        if (is_class(r, &p[i])) {
            int32_t *label = (int32_t *)r->out[p[i].table].y->data + r->rows;
            DT__TRY(read_class(r, r->c[p[i].table], &f, label));
            continue;
        }
        DT__TRY(number_of(r, &f, &value));
        DT__TRY(put_number(r, &p[i], &value));
    }
    return DT_OK;
}

/* Whether the field is empty, a missing value; *at moves to its end. */
static bool is_nothing(const dt__csv_reader *r, const char **at)
{
    *at = r->at;
    while (*at < r->end && dt__csv_is_blank(r, **at)) ++*at;
    return dt__csv_ends_field(r, *at);
}

static dt_status put_nothing(dt__csv_reader *r, const dt__csv_place *p)
{
    const dt__csv *c = r->c[p->table];
    const dt__csv_table *t = &r->out[p->table];
    if (p->role == DT__CSV_KEY) return put_key(r, p, &(dt__csv_field){ "", 0 });
    if (is_class(r, p)) {
        ((int32_t *)t->y->data)[r->rows] = -1;
    } else if (is_typed(r, p)) {
        ((double *)t->x->data)[r->rows * c->inputs.n + p->number] = (double)NAN;
    } else {
        const bool input = p->role == DT__CSV_INPUT;
        float *column = (float *)(input ? t->x : t->y)->data;
        column[r->rows * (input ? c->inputs.n : c->targets.n) + p->number] = NAN;
    }
    return DT_OK;
}

/* Reads a field that n > 0 places need. */
static dt_status read_value(dt__csv_reader *r, const dt__csv_place *p, int64_t n)
{
    dt__decimal value;
    const char *end;
    if (dt__csv_may_lack(r->c[0]) && is_nothing(r, &end)) {
        for (int64_t i = 0; i < n; i++) DT__TRY(put_nothing(r, &p[i]));
        r->at += end - r->at;
        return DT_OK;
    }
    if (p->is_text && n == 1 && dt__csv_take_typed(r, p)) return DT_OK;
    if (p->is_text) return read_words(r, p, n);
    DT__TRY(read_number(r, &value));
    for (int64_t i = 0; i < n; i++) DT__TRY(put_number(r, &p[i], &value));
    return DT_OK;
}

static dt_status skip_field(dt__csv_reader *r)
{
    dt__csv_field f;
    return dt__csv_take_field(r, &f);
}

/* ---- rows --------------------------------------------------------------------------------- */

/* Allocates for more rows. `cached`: the reading whose inputs these are, which may be in a file;
 * -1: other data. */
static dt_status grow(dt__csv_reader *r, int cached, dt__storage **s, int64_t each, size_t size)
{
    const int64_t dims[] = { r->rows_room, each, (int64_t)size };
    int64_t bytes;
    if (!dt__product(3, dims, &bytes))
        return dt_fail(r->ctx, DT_ERR_NOMEM, "out of memory for '%s'", r->path);
    if (r->cache != NULL && cached >= 0) {
        return dt__table_cache_grow(r->cache, cached, (uint64_t)bytes, s);
    }
    dt__storage *larger = dt__storage_create(r->ctx, (uint64_t)bytes);
    if (larger == NULL) return DT_ERR_NOMEM;
    if (*s != NULL) memcpy(larger->data, (*s)->data, (*s)->bytes);
    dt__storage_release(*s);
    *s = larger;
    return DT_OK;
}

/* Estimates the file's rows from those read so far; at least twice as many. */
static int64_t expected_rows(const dt__csv_reader *r)
{
    const double unread = (double)(r->filled - (size_t)(r->at - (char *)r->text));
    const double each = ((double)r->input.taken - unread) / (double)r->rows;
    const int64_t twice = 2 * r->rows_room;
    if (r->input.packed || !(each >= 1)) return twice;
    return dt__max_i64(twice, (int64_t)(1.02 * (double)r->input.file_size / each));
}

static dt_status make_room(dt__csv_reader *r)
{
    if (r->rows < r->rows_room) return DT_OK;
    r->rows_room = r->rows_room == 0 ? FIRST_ROWS : expected_rows(r);
    for (int k = 0; k < r->n_c; k++) {
        const dt__csv *c = r->c[k];
        const size_t one = c->types == NULL ? sizeof(float) : sizeof(double);
        if (c->x_of == NULL) DT__TRY(grow(r, k, &r->out[k].x, c->inputs.n, one));
        if (c->y_of == NULL) DT__TRY(grow(r, -1, &r->out[k].y, c->targets.n, sizeof(float)));
        if (c->keys.n > 0) DT__TRY(grow(r, -1, &r->out[k].key, c->keys.n, sizeof(int32_t)));
    }
    return DT_OK;
}

dt_status dt__csv_wrong_count(const dt__csv_reader *r, int64_t n, const char *there)
{
    return dt_fail(r->ctx, DT_ERR_FORMAT, "'%s': line %lld has %s%lld field%s; expected %lld%s",
                   r->path, (long long)r->line, there, (long long)n, DT__S(n), (long long)r->n,
                   dt__csv_advice(r));
}

/* Records the message of an error in a field or row, so that reading continues; FORMAT: too many
 * errors. */
static dt_status note(dt__csv_reader *r, dt_status s)
{
    if (s != DT_ERR_FORMAT) return s;
    char *text = dt__copy_string(r->ctx, dt_error(r->ctx));
    if (text == NULL) return DT_ERR_NOMEM;
    r->fault[r->n_faults++] = text;
    return r->n_faults < DT__CSV_FAULTS ? DT_OK : DT_ERR_FORMAT;
}

static void skip_to(dt__csv_reader *r, const char *at)
{
    for (; r->at < at; r->at++) r->line += *r->at == '\n';
}

static dt_status read_row(dt__csv_reader *r)
{
    DT__TRY(make_room(r));
    const dt__csv_place *p = r->place, *const end = p + r->n_places;
    const int64_t line = r->line;
    bool last = false;
    for (r->column = 0; !last; r->column++) {
        if (r->column == r->n) {
            const char *past = r->at;
            DT__TRY(note(r, dt__csv_wrong_count(r, r->n, "more than ")));
            dt__csv_count_fields(r, r->separator, &past);
            skip_to(r, past);
            dt__csv_is_last(r);
            break;
        }
        const bool wanted = p < end && p->column == r->column;
        const dt_status s = wanted ? read_value(r, p, p->same) : skip_field(r);
        if (wanted) p += p->same;
        if (s != DT_OK) DT__TRY(note(r, s));
        while (s != DT_OK && !dt__csv_ends_field(r, r->at)) r->at++;
        last = dt__csv_is_last(r);
    }
    if (r->column < r->n) {
        const int64_t past = r->line;
        r->line = line;
        DT__TRY(note(r, dt__csv_wrong_count(r, r->column, "")));
        r->line = past;
    }
    r->line++;
    r->rows++;
    return DT_OK;
}

bool dt__csv_leaves_out(dt__csv_reader *r)
{
    const char *at = r->at;
    if (r->c[0]->options->rows != DT_CSV_ROWS_SKIP) return false;
    if (dt__csv_count_fields(r, r->separator, &at) == r->n) return false;
    if (r->left_out++ == 0) r->first_left_out = r->line;
    skip_to(r, at);
    r->at += r->at < r->end;
    r->line++;
    return true;
}

void dt__csv_say_left_out(const dt__csv_reader *r)
{
    if (r->left_out == 0) return;
    dt__say(r->ctx,
            "'%s': %lld row%s not %lld fields %s left out (data.columns.rows), the first in line "
            "%lld",
            r->path, (long long)r->left_out, r->left_out == 1 ? " that has" : "s that have",
            (long long)r->n, r->left_out == 1 ? "is" : "are", (long long)r->first_left_out);
}

/* Reports all errors of the file: the first as the error, the others as lines. */
static dt_status refuse_all(const dt__csv_reader *r)
{
    char count[64] = "";
    if (r->n_faults == 0) return DT_OK;
    for (int i = 1; i < r->n_faults; i++) dt__say(r->ctx, "%s", r->fault[i]);
    if (r->n_faults > 1) {
        snprintf(count, sizeof count, " (the first of %s%d errors in this file)",
                 r->n_faults == DT__CSV_FAULTS ? "at least " : "", r->n_faults);
    }
    return dt_fail(r->ctx, DT_ERR_FORMAT, "%s%s", r->fault[0], count);
}

/* Begins a file: files of one part are compared together. */
static dt_status begin_merging(const dt__csv_reader *r, dt__csv *c)
{
    c->merged = r->path;
    if (c->merging != NULL) return DT_OK;
    const int64_t n = c->inputs.n + c->targets.n;
    c->merging = dt__alloc_array(r->ctx, n, sizeof *c->merging);
    if (c->merging == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < n; i++) c->merging[i] = (dt__merging){ .slot = NULL };
    return DT_OK;
}

static dt_status read_text(dt__csv_reader *r)
{
    if (!dt__csv_has_row(r)) return dt__csv_no_row(r);
    DT__TRY(dt__csv_take_columns(r));
    for (int k = 0; k < r->n_c; k++) DT__TRY(begin_merging(r, r->c[k]));
    dt__pace pace = dt__pace_begin();
    while (dt__csv_has_row(r)) {
        if (dt__csv_leaves_out(r)) continue;
        const dt_status s = read_row(r);
        if (s != DT_OK) return r->n_faults == DT__CSV_FAULTS ? refuse_all(r) : s;
        if (r->rows % 4096 != 0 || !dt__pace_is_due(&pace)) continue;
        char share[40] = "";
        if (r->input.file_size > 0) {
            snprintf(share, sizeof share, ", %.0f %% of the file",
                     100 * (double)r->input.taken / (double)r->input.file_size);
        }
        dt__say(r->ctx, "reading '%s': %lld rows%s", r->path, (long long)r->rows, share);
    }
    DT__TRY(r->status);
    DT__TRY(refuse_all(r));
    dt__csv_say_left_out(r);
    if (r->rows > 0) return DT_OK;
    return dt_fail(r->ctx, DT_ERR_FORMAT, "'%s': no rows below the header", r->path);
}

/* The index of a reading among those of the file. */
static int place_of(const dt__csv_reader *r, const dt__csv *c)
{
    int k = 0;
    while (r->c[k] != c) k++;
    return k;
}

/* Takes the numbers that a reading shares with another one. */
static void share(const dt__csv_reader *r, dt__csv_table *t, const dt__csv *c)
{
    t->rows = r->rows;
    if (c->x_of != NULL) dt__storage_retain(t->x = r->out[place_of(r, c->x_of)].x);
    if (c->y_of != NULL) dt__storage_retain(t->y = r->out[place_of(r, c->y_of)].y);
}

static dt_status read_file(dt__csv_reader *r)
{
    dt_status status = dt__csv_open(r);
    if (status == DT_OK) status = read_text(r);
    if (status == DT_OK && r->cache != NULL) {
        status = dt__table_cache_keep(r->cache, r->rows, r->left_out, r->out);
    }
    dt__csv_close_reader(r);
    return status;
}

static dt_status read_cached(dt__csv_reader *r)
{
    const dt__csv *first = r->c[0];
    dt__table_cache cache = { .ctx = r->ctx, .c = r->c, .n = r->n_c };
    bool found = false;
    dt_status status = dt__table_cache_begin(&cache, &first->cache, r->path);
    if (status == DT_OK) status = dt__table_cache_load(&cache, r->out, &found);
    if (status == DT_OK && !found) { /* another process may have cached it by now */
        dt__table_cache_lock(&cache);
        status = dt__table_cache_load(&cache, r->out, &found);
    }
    if (found) r->rows = r->out[0].rows;
    r->cache = &cache;
    if (status == DT_OK && !found) status = read_file(r);
    for (int k = 0; found && k < r->n_c; k++) r->c[k]->merged = r->path;
    dt__table_cache_end(&cache);
    return status;
}

dt_status dt__csv_read_all(dt__csv *const *c, int n, const char *path, dt__csv_table *out)
{
    for (int k = 0; k < n; k++) out[k] = (dt__csv_table){ .rows = 0 };
    dt__csv_reader r = { .c = c, .out = out, .n_c = n, .ctx = c[0]->ctx, .path = path };
    const dt_status status = (dt__is_cached(&c[0]->cache, path) ? read_cached : read_file)(&r);
    for (int k = 0; k < n && status == DT_OK; k++) share(&r, &out[k], c[k]);
    return status;
}

dt_status dt__csv_read(dt__csv *c, const char *path, dt__csv_table *out)
{
    return dt__csv_read_all(&c, 1, path, out);
}

void dt__csv_table_free(dt__csv_table *t)
{
    dt__storage_release(t->x);
    dt__storage_release(t->y);
    dt__storage_release(t->key);
    dt__storage_release(t->time);
}

/* ---- classes ------------------------------------------------------------------------------ */

dt_status dt__csv_close(dt__csv *c, dt__csv_table *tables, int64_t n)
{
    if (c->labels.is_closed || c->labels.words.n == 0) return DT_OK;
    int64_t *to = dt__alloc_array(c->ctx, c->labels.words.n, sizeof *to);
    if (to == NULL) return DT_ERR_NOMEM;
    const dt_status status = dt__labels_close(c->ctx, &c->labels, to);
    for (int64_t i = 0; status == DT_OK && i < n; i++) {
        int32_t *label = tables[i].y->data;
        for (int64_t k = 0; k < tables[i].rows; k++) {
            if (label[k] >= 0) label[k] = (int32_t)to[label[k]];
        }
    }
    dt__release(c->ctx, to);
    return status;
}

static void end_merging(dt__csv *c)
{
    const int64_t n = c->merging == NULL ? 0 : c->inputs.n + c->targets.n;
    for (int64_t i = 0; i < n; i++) dt__merging_free(c->ctx, &c->merging[i]);
    dt__release(c->ctx, c->merging);
    c->merging = NULL;
}

dt_status dt__csv_check(dt__csv *c)
{
    const int64_t n = c->merging == NULL ? 0 : c->inputs.n + c->targets.n;
    dt_status s = DT_OK;
    for (int64_t i = 0; i < n && s == DT_OK; i++) {
        char where[DT__MESSAGE_SIZE / 2], shown[DT__SHOWN];
        const bool input = i < c->inputs.n;
        const char *name = input ? c->inputs.word[i] : c->targets.word[i - c->inputs.n];
        snprintf(where, sizeof where, "'%s': column '%s'", c->merged, dt__shown(name, shown));
        s = dt__merging_check(c->ctx, &c->merging[i], where);
    }
    end_merging(c);
    return s;
}

void dt__csv_free(dt__csv *c)
{
    end_merging(c);
    dt__csv_types_free(c->types);
    for (int64_t i = 0; c->key_words != NULL && i < c->keys.n; i++) {
        dt__words_free(c->ctx, &c->key_words[i]);
    }
    DT__RELEASE(c->ctx, c->key_words, c->key_form);
    dt__words_free(c->ctx, &c->keys);
    dt__release(c->ctx, c->shown);
    dt__words_free(c->ctx, &c->patterns);
    dt__words_free(c->ctx, &c->inputs);
    dt__words_free(c->ctx, &c->targets);
    dt__labels_free(c->ctx, &c->labels);
}

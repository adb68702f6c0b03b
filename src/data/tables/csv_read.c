/* Reads tables in CSV files. Commas separate fields; a field in quotes may hold commas, ends of
 * lines and doubled quotes; lines end in LF or CR LF; a byte order mark and blank lines are
 * skipped. Numbers are read where they are, other fields are skipped. */
#include "data/tables/csv_reader.h"

#include "core/text/byte_mark.h"
#include "core/text/json.h"
#include "core/text/number.h"
#include "core/pace.h"
#include "core/text/utf8.h"
#include "data/tables/decimal.h"
#include "data/input.h"

#include <stdio.h>
#include <string.h>

#define MOST_BYTES DT__AT_MOST(UINT64_C(1) << 40)
#define FIRST_ROWS 1024 /* room that is made first */

/* ---- values ------------------------------------------------------------------------------- */

/* The number of a whole field. */
static dt_status number_of(const dt__csv_reader *r, const dt__csv_field *f, dt__decimal *out)
{
    const char *end = f->text + f->n, *at = f->text;
    if (f->n == 0) return dt__csv_refuse(r, f, "is empty; expected a number");
    while (at < end && dt__csv_is_blank(*at)) at++;
    at = dt__decimal_read(at, end, out);
    while (at != NULL && at < end && dt__csv_is_blank(*at)) at++;
    const bool comma = at != NULL && at < end && *at == ',' && at + 1 < end;
    if (at != end) {
        return dt__csv_refuse(r, f,
                              comma ? "is not a number: a decimal point is expected, not a comma"
                                    : "is not a number");
    }
    return out->too_large ? dt__csv_refuse(r, f, "is beyond the range of f32") : DT_OK;
}

/* Reads a number; most end where their field does. */
static dt_status read_number(dt__csv_reader *r, dt__decimal *out)
{
    const char *after = dt__decimal_read(r->at, r->end, out);
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
    if (f->n == 0) return dt__csv_refuse(r, f, "is empty; expected a class");
    if (!c->labels.is_closed && !dt__is_utf8_of(f->text, f->n)) {
        return dt__csv_refuse(r, f, "is not UTF-8");
    }
    switch (dt__labels_add(r->ctx, &c->labels, f->text, f->n, out)) {
    case DT__LABEL_GOOD: return DT_OK;
    case DT__LABEL_EXCESS:
        return dt__csv_refuse(r, f,
                              "is beyond the 65536 classes that there can be; for numeric targets "
                              "set data.task: regression");
    case DT__LABEL_UNKNOWN:
        return dt__csv_refuse(r, f,
                              c->labels.known.names != NULL
                                  ? "is not a class of the model"
                                  : "is not a class of the training data");
    case DT__LABEL_NOMEM: break;
    }
    return DT_ERR_NOMEM;
}

static bool is_class(const dt__csv_reader *r, const dt__csv_place *p)
{
    return p->role == DT__CSV_TARGET && r->c[p->table]->target == DT_TARGET_CLASS;
}

/* Compares a number with those before it in its column, `column` [rows, each] in f32. */
static dt_status compare(const dt__csv_reader *r, dt__merging *m, const dt__decimal *v,
                         const float *column, int64_t each)
{
    bool missing;
    DT__TRY(dt__merging_add(r->ctx, m, &v->exact, v->value, &missing));
    for (int64_t i = 0; i < r->rows && missing; i++) {
        const dt__exact before = dt__exact_real((double)column[i * each]);
        DT__TRY(dt__merging_put(r->ctx, m, &before, column[i * each]));
    }
    return DT_OK;
}

/* Puts a number where it goes. */
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
    if (!dt__is_utf8_of(f->text, f->n)) return dt__csv_refuse(r, f, "is not UTF-8");
    const int64_t code = dt__words_add(r->ctx, &c->key_words[p->number], f->text, f->n);
    if (code < 0) return DT_ERR_NOMEM;
    if (code > INT32_MAX) return dt__csv_refuse(r, f, "is one text too many");
    int32_t *codes = r->out[p->table].key->data;
    codes[r->rows * c->keys.n + p->number] = (int32_t)code;
    return DT_OK;
}

static bool is_text(const dt__csv_reader *r, const dt__csv_place *p)
{
    return p->role == DT__CSV_KEY || is_class(r, p);
}

/* A column that is a class or a key somewhere, read as text. */
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

/* Reads a column that goes to n > 0 places. */
static dt_status read_value(dt__csv_reader *r, const dt__csv_place *p, int64_t n)
{
    dt__decimal value;
    for (int64_t i = 0; i < n; i++) {
        if (is_text(r, &p[i])) return read_words(r, p, n);
    }
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

static dt_status grow(dt__csv_reader *r, dt__storage **s, int64_t each)
{
    const int64_t dims[] = { r->rows_room, each, (int64_t)sizeof(float) };
    int64_t bytes;
    if (!dt__product(3, dims, &bytes)) return dt_fail(r->ctx, DT_ERR_NOMEM, "'%s'", r->path);
    dt__storage *larger = dt__storage_create(r->ctx, (uint64_t)bytes);
    if (larger == NULL) return DT_ERR_NOMEM;
    if (*s != NULL) memcpy(larger->data, (*s)->data, (*s)->bytes);
    dt__storage_release(*s);
    *s = larger;
    return DT_OK;
}

static dt_status make_room(dt__csv_reader *r)
{
    if (r->rows < r->rows_room) return DT_OK;
    r->rows_room = r->rows_room == 0 ? FIRST_ROWS : 2 * r->rows_room;
    for (int k = 0; k < r->n_c; k++) {
        if (r->c[k]->x_of == NULL) DT__TRY(grow(r, &r->out[k].x, r->c[k]->inputs.n));
        if (r->c[k]->y_of == NULL) DT__TRY(grow(r, &r->out[k].y, r->c[k]->targets.n));
        if (r->c[k]->keys.n > 0) DT__TRY(grow(r, &r->out[k].key, r->c[k]->keys.n));
    }
    return DT_OK;
}

static dt_status wrong_count(const dt__csv_reader *r, int64_t n, const char *there)
{
    return dt_fail(r->ctx, DT_ERR_FORMAT, "'%s': line %lld has %s%lld fields; expected %lld%s",
                   r->path, (long long)r->line, there, (long long)n, (long long)r->n,
                   dt__csv_advice(r));
}

static dt_status read_row(dt__csv_reader *r)
{
    DT__TRY(make_room(r));
    const dt__csv_place *p = r->place, *const end = p + r->n_places;
    const int64_t line = r->line;
    bool last = false;
    for (r->column = 0; !last; r->column++) {
        if (r->column == r->n) return wrong_count(r, r->n, "more than ");
        const dt__csv_place *const first = p;
        while (p < end && p->column == r->column) p++;
        DT__TRY(p == first ? skip_field(r) : read_value(r, first, p - first));
        last = dt__csv_is_last(r);
    }
    if (r->column < r->n) {
        r->line = line;
        return wrong_count(r, r->column, "");
    }
    r->line++;
    r->rows++;
    return DT_OK;
}

/* Skips lines without a character; false at the end. */
static bool has_row(dt__csv_reader *r)
{
    while (r->at < r->end) {
        if (*r->at == '\r' && r->at + 1 < r->end && r->at[1] == '\n') r->at++;
        else if (*r->at != '\n') return true;
        r->at++;
        r->line++;
    }
    return false;
}

/* Files of a part follow each other. */
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
    size_t mark = 0;
    DT__TRY(dt__skip_mark(r->ctx, r->path, r->at, (size_t)(r->end - r->at), &mark));
    if (memchr(r->at, 0, (size_t)(r->end - r->at)) != NULL) {
        return dt_fail(r->ctx, DT_ERR_FORMAT, "'%s': a NUL byte; expected text in UTF-8", r->path);
    }
    r->at += mark;
    if (!has_row(r)) return dt_fail(r->ctx, DT_ERR_FORMAT, "'%s': an empty table", r->path);
    DT__TRY(dt__csv_take_columns(r));
    for (int k = 0; k < r->n_c; k++) DT__TRY(begin_merging(r, r->c[k]));
    const char *const begin = r->at;
    dt__pace pace = dt__pace_begin();
    while (has_row(r)) {
        DT__TRY(read_row(r));
        if (r->rows % 4096 != 0 || !dt__pace_is_due(&pace)) continue;
        dt__say(r->ctx, "reading '%s': %lld rows, %.0f %% of the file", r->path, (long long)r->rows,
                100 * (double)(r->at - begin) / (double)(r->end - begin));
    }
    if (r->rows > 0) return DT_OK;
    return dt_fail(r->ctx, DT_ERR_FORMAT, "'%s': no rows below the header", r->path);
}

/* The place of a reading among those of the file. */
static int place_of(const dt__csv_reader *r, const dt__csv *c)
{
    int k = 0;
    while (r->c[k] != c) k++;
    return k;
}

/* Numbers that a reading shares with another one. */
static void share(const dt__csv_reader *r, dt__csv_table *t, const dt__csv *c)
{
    t->rows = r->rows;
    if (c->x_of != NULL) dt__storage_retain(t->x = r->out[place_of(r, c->x_of)].x);
    if (c->y_of != NULL) dt__storage_retain(t->y = r->out[place_of(r, c->y_of)].y);
}

dt_status dt__csv_read_all(dt__csv *const *c, int n, const char *path, dt__csv_table *out)
{
    uint8_t *text;
    size_t bytes;
    dt_ctx *ctx = c[0]->ctx;
    for (int k = 0; k < n; k++) out[k] = (dt__csv_table){ .rows = 0 };
    DT__TRY(dt__input_all(ctx, path, MOST_BYTES, &text, &bytes));
    dt__csv_reader r = { .c = c,
                         .out = out,
                         .n_c = n,
                         .ctx = ctx,
                         .path = path,
                         .at = (char *)text,
                         .end = (char *)text + bytes,
                         .line = 1 };
    const dt_status status = read_text(&r);
    for (int k = 0; k < n && status == DT_OK; k++) share(&r, &out[k], c[k]);
    for (int64_t i = 0; i < r.n; i++) dt__release(ctx, r.name[i]);
    dt__release(ctx, r.name);
    dt__release(ctx, r.place);
    dt__release(ctx, text);
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
        for (int64_t k = 0; k < tables[i].rows; k++) label[k] = (int32_t)to[label[k]];
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
    for (int64_t i = 0; c->key_words != NULL && i < c->keys.n; i++) {
        dt__words_free(c->ctx, &c->key_words[i]);
    }
    dt__release(c->ctx, c->key_words);
    dt__words_free(c->ctx, &c->keys);
    dt__words_free(c->ctx, &c->inputs);
    dt__words_free(c->ctx, &c->targets);
    dt__labels_free(c->ctx, &c->labels);
}

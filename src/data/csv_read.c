/* Reads tables in CSV files. Commas separate fields; a field in quotes may hold commas, ends of
 * lines and doubled quotes; lines end in LF or CR LF; a byte order mark and blank lines are
 * skipped. Numbers are read where they are, other fields are skipped. */
#include "data/csv.h"

#include "core/glob.h"
#include "core/json.h"
#include "core/number.h"
#include "data/decimal.h"
#include "data/input.h"

#include <stdio.h>
#include <string.h>

#define MOST_BYTES ((size_t)1 << 40)
#define FIRST_ROWS 1024 /* room that is made first */
#define MOST_COLUMNS 65536

enum { SKIPPED = -1 }; /* a role; from 0 on: an input; below -1: target -2 - role */

typedef struct reader {
    dt__csv *c;
    dt_ctx *ctx;
    const char *path;
    char *at, *end;
    int64_t line, column; /* lines count from 1 */
    char **name;          /* of the file's columns */
    int64_t *role;        /* of each */
    int64_t n, room;
    int64_t rows_room;
    dt__csv_table *t;
} reader;

/* ---- fields ------------------------------------------------------------------------------- */

typedef struct field {
    char *text; /* without quotes */
    size_t n;
} field;

static dt_status refuse(const reader *r, const field *f, const char *why)
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

static bool ends_field(const reader *r, const char *c)
{
    return c == r->end || *c == ',' || *c == '\n' ||
           (*c == '\r' && (c + 1 == r->end || c[1] == '\n'));
}

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

/* Takes a field that begins with a quote. Doubled quotes inside become one. */
static dt_status take_quoted(reader *r, field *f)
{
    char *to = ++r->at;
    *f = (field){ r->at, 0 };
    const int64_t line = r->line;
    for (;; r->at++) {
        if (r->at == r->end) {
            r->line = line;
            f->n = (size_t)(to - f->text);
            return refuse(r, f, "begins with a quote that nothing closes");
        }
        if (*r->at == '"' && (r->at + 1 == r->end || r->at[1] != '"')) break;
        if (*r->at == '"') r->at++;
        r->line += *r->at == '\n';
        *to++ = *r->at;
    }
    f->n = (size_t)(to - f->text);
    r->at++;
    while (r->at < r->end && is_blank(*r->at)) r->at++;
    return ends_field(r, r->at) ? DT_OK : refuse(r, f, "is followed by text behind its quote");
}

static dt_status take_field(reader *r, field *f)
{
    while (r->at < r->end && is_blank(*r->at)) r->at++;
    if (r->at < r->end && *r->at == '"') return take_quoted(r, f);
    *f = (field){ r->at, 0 };
    while (!ends_field(r, r->at)) r->at++;
    f->n = (size_t)(r->at - f->text);
    while (f->n > 0 && is_blank(f->text[f->n - 1])) f->n--;
    return DT_OK;
}

/* After a field: skips a comma, or the end of the line. */
static bool is_last(reader *r)
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

static dt_status add_name(reader *r, const field *f)
{
    if (r->n == MOST_COLUMNS) return refuse(r, f, "is a column too many: at most 65536 are wanted");
    DT__TRY(DT__RESERVE(r->ctx, r->name, r->n, r->room));
    char *name = dt__alloc(r->ctx, f->n + 1);
    if (name == NULL) return DT_ERR_NOMEM;
    memcpy(name, f->text, f->n);
    name[f->n] = '\0';
    r->name[r->n++] = name;
    return DT_OK;
}

/* The names of the first line, or without a header the numbers 0, 1, ... */
static dt_status read_names(reader *r)
{
    char *const begin = r->at;
    const int64_t line = r->line;
    const bool header = r->c->options->header;
    bool last = false;
    for (int64_t i = 0; !last; i++) {
        field f;
        char digits[32];
        r->column = i;
        DT__TRY(take_field(r, &f));
        if (!header) {
            dt__print_real((double)i, digits);
            f = (field){ digits, strlen(digits) };
        }
        DT__TRY(add_name(r, &f));
        last = is_last(r);
    }
    r->line = header ? r->line + 1 : line;
    if (!header) r->at = begin;
    return DT_OK;
}

static dt_status no_column(const reader *r, const char *key, const char *pattern)
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
static dt_status choose(reader *r, const char *key, const char *pattern, dt__words *list)
{
    int64_t found = 0;
    for (int64_t i = 0; i < r->n; i++) {
        const size_t n = strlen(r->name[i]);
        if (!dt__glob_match(pattern, r->name[i])) continue;
        if (list == &r->c->inputs && dt__words_find(&r->c->targets, r->name[i], n) >= 0) {
            if (strcmp(pattern, r->name[i]) != 0) continue;
            return dt_fail(r->ctx, DT_ERR_CONFIG,
                           "data.columns.inputs: '%s' is the target, which no input may be",
                           pattern);
        }
        if (dt__words_add(r->ctx, list, r->name[i], n) < 0) return DT_ERR_NOMEM;
        found++;
    }
    return found > 0 ? DT_OK : no_column(r, key, pattern);
}

/* Of the first file: which columns are read. */
static dt_status choose_columns(reader *r)
{
    const dt_csv_options *o = r->c->options;
    for (int i = 0; i < o->target.n; i++) {
        DT__TRY(choose(r, "target", o->target.v[i], &r->c->targets));
    }
    for (int i = 0; i < o->inputs.n; i++) {
        DT__TRY(choose(r, "inputs", o->inputs.v[i], &r->c->inputs));
    }
    if (o->inputs.n == 0) DT__TRY(choose(r, "inputs", "*", &r->c->inputs));
    if (r->c->target != DT_TARGET_CLASS || r->c->targets.n <= 1) return DT_OK;
    return dt_fail(r->ctx, DT_ERR_CONFIG,
                   "data.columns.target: %lld columns; a class is in one (data.task: regression or "
                   "multi_label takes several)",
                   (long long)r->c->targets.n);
}

/* What each column of the file is; `seen` has a place for every input and target. */
static dt_status find_roles(reader *r, int64_t *seen)
{
    const dt__words *inputs = &r->c->inputs, *targets = &r->c->targets;
    int64_t found = 0;
    for (int64_t i = 0; i < r->n; i++) {
        const size_t n = strlen(r->name[i]);
        const int64_t input = dt__words_find(inputs, r->name[i], n);
        const int64_t target = dt__words_find(targets, r->name[i], n);
        r->role[i] = input >= 0 ? input : target >= 0 ? -2 - target : SKIPPED;
        if (r->role[i] == SKIPPED) continue;
        int64_t *before = &seen[input >= 0 ? input : inputs->n + target];
        if (*before > 0) {
            return dt_fail(r->ctx, DT_ERR_FORMAT, "'%s': columns %lld and %lld have the same name",
                           r->path, (long long)*before, (long long)i + 1);
        }
        *before = i + 1;
        found++;
    }
    const int64_t wanted = inputs->n + targets->n;
    if (found == wanted) return DT_OK;
    return dt_fail(r->ctx, DT_ERR_FORMAT, "'%s' has %lld of the %lld columns of the first file",
                   r->path, (long long)found, (long long)wanted);
}

static dt_status take_roles(reader *r)
{
    const int64_t wanted = r->c->inputs.n + r->c->targets.n;
    r->role = dt__alloc_array(r->ctx, r->n, sizeof *r->role);
    int64_t *seen = dt__alloc_array(r->ctx, wanted, sizeof *seen);
    dt_status status = DT_ERR_NOMEM;
    if (r->role != NULL && seen != NULL) {
        memset(seen, 0, (size_t)wanted * sizeof *seen);
        status = find_roles(r, seen);
    }
    dt__release(r->ctx, seen);
    return status;
}

/* ---- values ------------------------------------------------------------------------------- */

/* The number of a whole field. */
static dt_status number_of(const reader *r, const field *f, float *out)
{
    bool too_large = false;
    const char *end = f->text + f->n, *at = f->text;
    if (f->n == 0) return refuse(r, f, "is empty; a number is wanted");
    while (at < end && is_blank(*at)) at++;
    at = dt__decimal_f32(at, end, out, &too_large);
    while (at != NULL && at < end && is_blank(*at)) at++;
    if (at != end) return refuse(r, f, "is no number");
    return too_large ? refuse(r, f, "is beyond the range of f32") : DT_OK;
}

/* Reads a number; most end where their field does. */
static dt_status read_number(reader *r, float *out)
{
    bool too_large;
    const char *after = dt__decimal_f32(r->at, r->end, out, &too_large);
    if (after != NULL && ends_field(r, after) && !too_large) {
        r->at += after - r->at;
        return DT_OK;
    }
    field f;
    DT__TRY(take_field(r, &f));
    return number_of(r, &f, out);
}

static dt_status read_class(reader *r, int32_t *out)
{
    field f;
    dt__csv *c = r->c;
    DT__TRY(take_field(r, &f));
    if (f.n == 0) return refuse(r, &f, "is empty; a class is wanted");
    int64_t i = dt__words_find(&c->classes, f.text, f.n);
    if (i < 0 && c->is_closed) return refuse(r, &f, "is no class of the training data");
    if (i < 0 && c->classes.n == DT__MOST_WORDS) {
        return refuse(r, &f, "is class 65537; data.task: regression predicts numbers");
    }
    if (i < 0) i = dt__words_add(r->ctx, &c->classes, f.text, f.n);
    if (i < 0) return DT_ERR_NOMEM;
    if (c->is_closed && c->is_integers) dt__parse_int(c->classes.word[i], &i);
    *out = (int32_t)i;
    return DT_OK;
}

static dt_status read_target(reader *r, int64_t target)
{
    dt__csv_table *t = r->t;
    if (r->c->target == DT_TARGET_CLASS) return read_class(r, (int32_t *)t->y->data + t->rows);
    float *value = (float *)t->y->data + t->rows * r->c->targets.n + target;
    DT__TRY(read_number(r, value));
    if (r->c->target == DT_TARGET_VALUES || *value == 0 || *value == 1) return DT_OK;
    char digits[32];
    dt__print_real((double)*value, digits);
    return refuse(r, &(field){ digits, strlen(digits) }, "is neither 0 nor 1");
}

static dt_status skip_field(reader *r)
{
    field f;
    return take_field(r, &f);
}

/* ---- rows --------------------------------------------------------------------------------- */

static dt_status grow(reader *r, dt__storage **s, int64_t each)
{
    const int64_t dims[] = { r->rows_room, each, (int64_t)sizeof(float) };
    int64_t bytes;
    if (!dt__product(3, dims, &bytes)) return dt_fail(r->ctx, DT_ERR_NOMEM, "'%s'", r->path);
    dt__storage *larger = dt__storage_create(r->ctx, (size_t)bytes);
    if (larger == NULL) return DT_ERR_NOMEM;
    if (*s != NULL) memcpy(larger->data, (*s)->data, (*s)->bytes);
    dt__storage_release(*s);
    *s = larger;
    return DT_OK;
}

static dt_status make_room(reader *r)
{
    if (r->t->rows < r->rows_room) return DT_OK;
    r->rows_room = r->rows_room == 0 ? FIRST_ROWS : 2 * r->rows_room;
    DT__TRY(grow(r, &r->t->x, r->c->inputs.n));
    return grow(r, &r->t->y, r->c->targets.n);
}

static dt_status wrong_count(const reader *r, int64_t n, const char *there)
{
    return dt_fail(r->ctx, DT_ERR_FORMAT, "'%s': line %lld has %s%lld fields; %lld are wanted",
                   r->path, (long long)r->line, there, (long long)n, (long long)r->n);
}

static dt_status read_row(reader *r)
{
    DT__TRY(make_room(r));
    float *x = (float *)r->t->x->data + r->t->rows * r->c->inputs.n;
    const int64_t line = r->line;
    bool last = false;
    for (r->column = 0; !last; r->column++) {
        if (r->column == r->n) return wrong_count(r, r->n, "more than ");
        const int64_t role = r->role[r->column];
        if (role >= 0) DT__TRY(read_number(r, &x[role]));
        else if (role == SKIPPED) DT__TRY(skip_field(r));
        else DT__TRY(read_target(r, -2 - role));
        last = is_last(r);
    }
    if (r->column < r->n) {
        r->line = line;
        return wrong_count(r, r->column, "");
    }
    r->line++;
    r->t->rows++;
    return DT_OK;
}

/* Skips lines without a character; false at the end. */
static bool has_row(reader *r)
{
    while (r->at < r->end) {
        if (*r->at == '\r' && r->at + 1 < r->end && r->at[1] == '\n') r->at++;
        else if (*r->at != '\n') return true;
        r->at++;
        r->line++;
    }
    return false;
}

static dt_status read_text(reader *r)
{
    static const char mark[] = "\xef\xbb\xbf";
    if (memchr(r->at, 0, (size_t)(r->end - r->at)) != NULL) {
        return dt_fail(r->ctx, DT_ERR_FORMAT, "'%s': a NUL byte; text in UTF-8 is wanted", r->path);
    }
    if (r->end - r->at >= 3 && memcmp(r->at, mark, 3) == 0) r->at += 3;
    if (!has_row(r)) return dt_fail(r->ctx, DT_ERR_FORMAT, "'%s': an empty table", r->path);
    DT__TRY(read_names(r));
    if (r->c->inputs.n == 0) DT__TRY(choose_columns(r));
    DT__TRY(take_roles(r));
    while (has_row(r)) DT__TRY(read_row(r));
    if (r->t->rows > 0) return DT_OK;
    return dt_fail(r->ctx, DT_ERR_FORMAT, "'%s': no rows below the header", r->path);
}

dt_status dt__csv_read(dt__csv *c, const char *path, dt__csv_table *out)
{
    uint8_t *text;
    size_t bytes;
    *out = (dt__csv_table){ 0, NULL, NULL };
    DT__TRY(dt__input_all(c->ctx, path, MOST_BYTES, &text, &bytes));
    reader r = { .c = c,
                 .ctx = c->ctx,
                 .path = path,
                 .at = (char *)text,
                 .end = (char *)text + bytes,
                 .line = 1,
                 .t = out };
    const dt_status status = read_text(&r);
    for (int64_t i = 0; i < r.n; i++) dt__release(c->ctx, r.name[i]);
    dt__release(c->ctx, r.name);
    dt__release(c->ctx, r.role);
    dt__release(c->ctx, text);
    return status;
}

void dt__csv_table_free(dt__csv_table *t)
{
    dt__storage_release(t->x);
    dt__storage_release(t->y);
}

/* ---- classes ------------------------------------------------------------------------------ */

/* Whether all words are integers from 0 on. */
static bool are_integers(dt__csv *c, int64_t *to)
{
    c->most = -1;
    for (int64_t i = 0; i < c->classes.n; i++) {
        const char *word = c->classes.word[i];
        const bool digits = *word >= '0' && *word <= '9';
        if (!digits || dt__parse_int(word, &to[i]) != DT__NUMBER || to[i] >= INT32_MAX)
            return false;
        c->most = dt__max_i64(c->most, to[i]);
    }
    return true;
}

dt_status dt__csv_close(dt__csv *c, dt__csv_table *tables, int64_t n)
{
    c->is_closed = true;
    if (c->classes.n == 0) return DT_OK;
    int64_t *to = dt__alloc_array(c->ctx, c->classes.n, sizeof *to);
    if (to == NULL) return DT_ERR_NOMEM;
    c->is_integers = are_integers(c, to);
    const dt_status status = c->is_integers ? DT_OK : dt__words_sort(c->ctx, &c->classes, to);
    for (int64_t i = 0; status == DT_OK && i < n; i++) {
        int32_t *label = tables[i].y->data;
        for (int64_t k = 0; k < tables[i].rows; k++) label[k] = (int32_t)to[label[k]];
    }
    dt__release(c->ctx, to);
    return status;
}

void dt__csv_free(dt__csv *c)
{
    dt__words_free(c->ctx, &c->inputs);
    dt__words_free(c->ctx, &c->targets);
    dt__words_free(c->ctx, &c->classes);
}

/* Examines the first rows of a table (dt_csv_look). There is no header if the first row has a
 * number in every column whose next rows are numbers. But it may be a header if these numbers have
 * equal steps, as wavelengths of a spectrum or column numbers 0, 1, ..., or if most are far out of
 * the range of the numbers below, as years are. */
#include "data/tables/csv_types.h"
#include "data/tables/decimal.h"
#include "data/value_text.h"

#include <math.h>
#include <string.h>

#define ROWS 64 /* that are examined */

static bool is_number(const char *text, size_t n)
{
    char value[DT__VALUE_TEXT];
    return dt__value_text(text, n, value);
}

bool dt__csv_is_progression(char *const *name, int64_t n)
{
    double before = 0, step = 0;
    for (int64_t i = 0; i < n; i++) {
        dt__decimal d;
        dt__decimal_read(name[i], name[i] + strlen(name[i]), &d);
        const double v = d.exact.value;
        if (i == 1) step = v - before;
        if (i > 1 && (v - before - step > 1e-6 * step || v - before - step < -1e-6 * step)) {
            return false;
        }
        before = v;
    }
    return n > 2 && step > 0;
}

/* Statistics of a column in the rows below the first. */
typedef struct below {
    bool numeric;
    double low, high;
} below;

static bool read_number(const char *text, size_t n, double *out)
{
    dt__decimal d;
    if (!is_number(text, n)) return false;
    while (n > 0 && (*text == ' ' || *text == '\t')) text++, n--;
    dt__decimal_read(text, text + n, &d);
    *out = d.exact.value;
    return true;
}

static void add_value(below *c, const dt__csv_field *f)
{
    double v = 0;
    c->numeric = c->numeric && read_number(f->text, f->n, &v);
    c->low = v < c->low ? v : c->low;
    c->high = v > c->high ? v : c->high;
}

static dt_status read_rows(dt__csv_reader *r, below *column)
{
    int rows = 0;
    for (; rows < ROWS && r->at < r->end; rows++) {
        bool last = false;
        for (r->column = 0; !last && r->column < r->n; r->column++) {
            dt__csv_field f;
            DT__TRY(dt__csv_take_field(r, &f));
            last = dt__csv_is_last(r);
            if (last && r->column == 0 && f.n == 0 && r->n > 1) continue; /* an empty line */
            add_value(&column[r->column], &f);
        }
        r->line++;
        if (!last) break;
    }
    for (int64_t i = 0; i < r->n && rows == 0; i++) column[i].numeric = false;
    return DT_OK;
}

static dt_first_row row_of(dt__csv_reader *r, const below *column, char **numbers)
{
    int64_t all = 0, near = 0;
    for (int64_t i = 0; i < r->n; i++) {
        double v, range = column[i].high - column[i].low;
        if (!column[i].numeric) continue;
        if (!read_number(r->name[i], strlen(r->name[i]), &v)) return DT_ROW_NAMES;
        numbers[all++] = r->name[i];
        near += v >= column[i].low - range && v <= column[i].high + range;
    }
    if (all == 0) return DT_ROW_NAMES;
    return dt__csv_is_progression(numbers, all) || 2 * near < all ? DT_ROW_UNSURE : DT_ROW_DATA;
}

static dt_status decide(dt__csv_reader *r, dt_first_row *out)
{
    below *columns = dt__alloc_array(r->ctx, r->n, sizeof *columns);
    char **numbers = dt__alloc_array(r->ctx, r->n, sizeof *numbers);
    dt_status s = columns == NULL || numbers == NULL ? DT_ERR_NOMEM : DT_OK;
    for (int64_t i = 0; s == DT_OK && i < r->n; i++) {
        columns[i] = (below){ true, INFINITY, -INFINITY };
    }
    if (s == DT_OK) s = read_rows(r, columns);
    if (s == DT_OK) *out = row_of(r, columns, numbers);
    DT__RELEASE(r->ctx, numbers, columns);
    return s;
}

static void find(const dt__csv_reader *r, const dt_strings *names, int64_t *place)
{
    for (int i = 0; i < names->n; i++) {
        place[i] = -1;
        for (int64_t k = r->n - 1; k >= 0; k--) {
            if (strcmp(r->name[k], names->v[i]) == 0) place[i] = k;
        }
    }
}

dt_status dt_csv_look(dt_ctx *ctx, const char *path, const dt_strings *names, int64_t *place,
                      int64_t *columns, dt_first_row *out)
{
    DT__NEED4(ctx, ctx, path, names, place);
    DT__NEED(ctx, columns);
    DT__NEED(ctx, out);
    static const dt_csv_options header = { .header = true };
    dt__csv csv = { .ctx = ctx, .options = &header }, *one = &csv;
    *columns = 0;
    *out = DT_ROW_NAMES;
    for (int i = 0; i < names->n; i++) place[i] = -1;
    char *first;
    int64_t files;
    DT__TRY(dt__table_first(ctx, path, &first, &files));
    dt__csv_reader r = { .c = &one, .n_c = 1, .ctx = ctx, .path = first };
    dt_status s = dt__csv_open(&r);
    while (r.at < r.end && (*r.at == '\r' || *r.at == '\n')) r.at++;
    if (s == DT_OK && r.at < r.end) s = dt__csv_read_names(&r);
    if (s == DT_OK) find(&r, names, place);
    if (s == DT_OK && r.n > 0) s = decide(&r, out);
    *columns = r.n;
    dt__csv_close_reader(&r);
    dt__csv_free(&csv);
    dt__release(ctx, first);
    return s;
}

/* Format c: rows for the self-test, with all cases of each column: each category, missing if
 * allowed, ends and middle of numbers and times; and the columns in the page. */
#include "data/columns/columns.h"
#include "export/c/c_write.h"

#include <math.h>

#define MOST_ROWS 256
#define MOST_NUMBERS 16384 /* in all rows */
#define GONE 1e308         /* stands for a missing double in the test's table */

/* The number of cases of a column. */
static int64_t count_of(const dt_column *c)
{
    const int64_t gone = c->missing != DT_MISSING_REFUSED;
    switch (c->type) {
    case DT_COLUMN_CATEGORY: return dt__column_codes(c) + gone;
    case DT_COLUMN_BOOLEAN: return 2 + gone;
    case DT_COLUMN_TIME: return 8 + gone;
    case DT_COLUMN_NUMBER: return 8 + gone + (c->scale == DT_SCALE_QUANTILE ? c->n_quantiles : 0);
    default: return 1;
    }
}

static double value_of(const dt_column *c, int64_t k)
{
    static const double numbers[] = { 0, 1, -1, 0.1, 1000.5, -3e-7, 65504, -1e6 };
    static const double times[] = {
        0,  1704067199.75, 951782399.5, DT__TIME_LEAST, DT__TIME_END - 1, 1709164800.015625,
        -1, 4107542400
    };
    const int64_t n = count_of(c);
    if (c->missing != DT_MISSING_REFUSED && k == n - 1) return (double)NAN;
    if (c->type == DT_COLUMN_CATEGORY || c->type == DT_COLUMN_BOOLEAN) return (double)k;
    if (k < 8) return c->type == DT_COLUMN_TIME ? times[k] : numbers[k] + c->offset;
    return c->quantiles[k - 8];
}

/* The numbers of a row as NAME_run reads them; of a window, before standardization. */
static dt_status fill_row(const dt__c_about *a, const dt_field *row, float *x)
{
    const dt_model_data *d = a->row;
    DT__TRY(dt_columns_encode(a->p->ctx, a->table, row, x));
    for (int64_t i = 0; i < d->input.v[0] && d->channels > 0 && !d->series.given; i++) {
        const int64_t c = d->channels == 1 ? 0 : i;
        x[i] = (x[i] - (float)d->mean[c]) / (float)d->deviation[c];
    }
    return DT_OK;
}

dt_status dt__c_make_rows(dt__c_about *a)
{
    const dt_columns *t = a->table;
    const int64_t width = dt_columns_width(t);
    int64_t rows = 1;
    for (int64_t i = 0; i < t->n; i++) rows = dt__max_i64(rows, count_of(&t->column[i]));
    rows = dt__min_i64(rows, dt__max_i64(2, dt__min_i64(MOST_ROWS, MOST_NUMBERS / width)));
    a->cells = dt__alloc_array(a->p->ctx, rows * t->n, sizeof *a->cells);
    a->row_x = dt__alloc_array(a->p->ctx, rows * width, sizeof *a->row_x);
    if (a->cells == NULL || a->row_x == NULL) return DT_ERR_NOMEM;
    for (int64_t r = 0; r < rows; r++) {
        dt_field *row = a->cells + a->n_rows * t->n;
        for (int64_t i = 0; i < t->n; i++) {
            const dt_column *c = &t->column[i];
            row[i].number = value_of(c, r % count_of(c));
        }
        const dt_status s = fill_row(a, row, a->row_x + a->n_rows * width);
        if (s == DT_OK) a->n_rows++;
        else if (s != DT_ERR_FORMAT) return s; /* left out: not representable in f32 */
    }
    return DT_OK;
}

void dt__c_put_rows_test(const dt__c_about *a, dt__chars *to)
{
    if (a->n_rows == 0) return;
    const int64_t n = a->table->n;
    dt__c_put_expected(to, "rows", a->row_x, a->n_rows * dt_columns_width(a->table));
    dt__c_printf(to,
                 "/* Fields; a double of 1e308 is missing. */\n"
                 "static const double row_fields[%lld] = {",
                 (long long)(a->n_rows * n));
    for (int64_t k = 0; k < a->n_rows * n; k++) {
        const double v = a->cells[k].number;
        const bool real = dt__c_is_real(&a->table->column[k % n]);
        dt__c_printf(to, "%s%s,", k % 6 == 0 ? "\n    " : " ",
                     dt__c_double(!isnan(v) ? v
                                  : real    ? GONE
                                            : -1)
                         .text);
    }
    dt__c_put_named(a, to,
                    "\n};\n\nstatic void set_row(@_fields *to, const double *from)\n{\n"
                    "    static volatile double zero = 0;\n"
                    "    const double none = zero / zero;\n"
                    "    (void)none;\n");
    for (int64_t i = 0; i < n; i++) {
        const dt_column *c = &a->table->column[i];
        if (c->type == DT_COLUMN_IGNORE) continue;
        dt__c_printf(to,
                     dt__c_is_real(c) ? "    to->%s = from[%lld] < 1e307 ? from[%lld] : none;\n"
                                      : "    to->%s = (int)from[%lld];\n",
                     a->field[i], (long long)i, (long long)i);
    }
    dt__put_text(to, "}\n\n");
}

void dt__c_put_rows_check(const dt__c_about *a, dt__chars *to)
{
    if (a->n_rows == 0) return;
    const long long width = (long long)dt_columns_width(a->table);
    dt__c_printf(to,
                 "    {\n        static float row[%lld];\n        static %s_fields fields;\n"
                 "        int32_t i, k;\n"
                 "        for (i = 0; i < %lld; i++) {\n"
                 "            set_row(&fields, row_fields + i * %lld);\n"
                 "            wrong += %s_row(&fields, row) != 0;\n"
                 "            for (k = 0; k < %lld; k++) {\n"
                 "                wrong += memcmp(&row[k], &expected_rows[i * %lld + k], 4) != 0;\n"
                 "            }\n        }\n    }\n",
                 width, a->name, (long long)a->n_rows, (long long)a->table->n, a->name, width,
                 width);
}

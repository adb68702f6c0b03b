/* Examines the targets of arrays: how many different numbers there are, whether rows are in order
 * of time, and which columns number them. */
#include "core/text/row_named.h"
#include "core/comparisons.h"
#include "data/arrays.h"
#include "data/index_column.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Whether a column's name is, or contains, a usual name for times. */
static bool is_time(const char *name)
{
    static const char *const parts[] = { "time", "date", "stamp", "epoch" };
    static const char *const whole[] = { "t", "year", "month", "day", "hour", "second", "seconds" };
    char small[64];
    size_t n = 0;
    for (; name[n] != 0 && n + 1 < sizeof small; n++)
        small[n] = (char)tolower((unsigned char)name[n]);
    small[n] = 0;
    for (int i = 0; i < DT__COUNT_OF(parts); i++) {
        if (strstr(small, parts[i]) != NULL) return true;
    }
    return DT__IS_ONE_OF(small, whole);
}

/* Whether a column rises and never falls. `x`: memory for an example. */
static bool rises(const dt_dataset *d, int64_t column, float *x)
{
    float first = 0, before = 0;
    for (int64_t i = 0; i < d->count; i++) {
        dt__array_example(d->arrays, d->first + i, x);
        if (i == 0) first = before = x[column];
        if (x[column] < before) return false;
        before = x[column];
    }
    return before > first;
}

static dt_status find_time(const dt_dataset *d, dt_target_look *out)
{
    const dt__array_store *s = d->arrays;
    if (s->column_name == NULL || s->rank != 1) return DT_OK;
    float *x = dt__alloc_array(d->ctx, dt__array_size(s), sizeof *x);
    if (x == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < s->n_columns && out->time == NULL; i++) {
        if (is_time(s->column_name[i]) && rises(d, i, x)) out->time = s->column_name[i];
    }
    dt__release(d->ctx, x);
    return DT_OK;
}

/* Finds the columns that number the rows, unless all columns do. */
static dt_status find_index(const dt_dataset *d, dt_target_look *out)
{
    const dt__array_store *s = d->arrays;
    const int64_t names = s->column_name == NULL ? 1 : s->n_columns;
    dt_status status = DT_OK;
    if (!s->is_table || s->rank != 1 || s->row < 2) return DT_OK;
    float *x = dt__alloc_array(d->ctx, d->count, (size_t)s->row * sizeof *x);
    if (x == NULL) return DT_ERR_NOMEM;
    dt__array_examples(s, d->first, d->count, x);
    for (int64_t i = 0; status == DT_OK && i < names && out->index.n < DT_MAX_LIST; i++) {
        bool counts = false;
        const char *name = s->column_name == NULL ? NULL : s->column_name[i];
        const dt__column c = { x + i, d->count, s->row };
        status = dt__is_index_column(d->ctx, name, &c, &counts);
        if (counts) out->index.v[out->index.n++] = name == NULL ? "0" : name;
    }
    if (out->index.n == s->row) out->index.n = 0;
    dt__release(d->ctx, x);
    return status;
}

static bool is_one_hot(const float *v, int64_t rows, int64_t columns)
{
    for (int64_t i = 0; i < rows; i++) {
        float sum = 0;
        for (int64_t k = 0; k < columns; k++) sum += v[i * columns + k];
        if (sum != 1) return false;
    }
    return columns > 1;
}

dt_status dt_dataset_look(const dt_dataset *d, dt_target_look *out)
{
    DT__NEED2(d->ctx, d, out);
    if (d->kind != &dt__data_arrays || d->count == 0) {
        return dt_fail(d->ctx, DT_ERR_ARG, "look: expected arrays, not %s", d->kind->examples);
    }
    *out = (dt_target_look){ .time = NULL };
    DT__TRY(find_index(d, out));
    if (d->target != DT_TARGET_VALUES) return find_time(d, out);
    const int64_t n = d->count * d->arrays->outputs;
    float *v = dt__alloc_array(d->ctx, n, sizeof *v);
    if (v == NULL) return DT_ERR_NOMEM;
    memcpy(v, dt__array_target(d, 0), (size_t)n * sizeof *v);
    qsort(v, (size_t)n, sizeof *v, dt__by_float);
    out->columns = d->arrays->outputs;
    out->is_integer = out->is_bits = true;
    out->least = (double)v[0];
    out->most = (double)v[n - 1];
    for (int64_t i = 0; i < n; i++) {
        out->different += i == 0 || v[i] != v[i - 1];
        out->is_integer = out->is_integer && v[i] == floorf(v[i]);
        out->is_bits = out->is_bits && (v[i] == 0 || v[i] == 1);
    }
    memcpy(v, dt__array_target(d, 0), (size_t)n * sizeof *v);
    out->is_one_hot = out->is_bits && is_one_hot(v, d->count, out->columns);
    dt__release(d->ctx, v);
    return find_time(d, out);
}

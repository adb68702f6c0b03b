/* columns.json of a run on a table with typed columns or series: how each column is encoded, in
 * words, and how windows of rows were cut, with the measured gap. */
#include "data/arrays.h"
#include "data/data_options.h"
#include "train/run/run.h"

static void put_columns(dt__chars *t, const dt_columns *c)
{
    static const char *const names[] = { ", \"type\": ", ", \"becomes\": ", ", \"missing\": " };
    for (int64_t i = 0; i < c->n; i++) {
        dt__put_text(t, i == 0 ? "\n {\"name\": " : ",\n {\"name\": ");
        dt__put_quoted(t, c->column[i].name);
        for (int about = DT_COLUMN_ITS_TYPE; about <= DT_COLUMN_IF_MISSING; about++) {
            char words[DT_COLUMN_TEXT];
            dt__put_text(t, names[about]);
            dt__put_quoted(t, dt_column_describe(&c->column[i], (dt_column_about)about, words));
        }
        dt__put_text(t, "}");
    }
}

dt_status dt__run_write_columns(dt__run *r)
{
    const dt_columns *c = dt__array_fields(r->data.train);
    const dt__array_store *a = r->data.train->arrays;
    const bool series = a != NULL && a->series.given;
    dt__chars t = { .ctx = r->ctx };
    if ((c == NULL && !series) || !r->o->run.report || !dt__run_writes(r)) return DT_OK;
    dt__put_text(&t, "{\"columns\": [");
    if (c != NULL) put_columns(&t, c);
    dt__put_text(&t, "\n]");
    if (series) {
        dt__put_text(&t, ",\n\"series\": ");
        dt__put_options(&t, dt__series_keys, &a->series);
        DT__PUT_ALL(&t, ", \"stride\": ", a->stride);
    }
    dt__put_text(&t, "}\n");
    const dt_status s = dt__run_write_shown(r, "columns.json", &t);
    dt__release(r->ctx, t.bytes);
    return s;
}

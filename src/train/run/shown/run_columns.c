/* columns.json of a run on a table with typed columns: what each column becomes, in words. */
#include "data/arrays.h"
#include "train/run/run.h"

dt_status dt__run_write_columns(dt__run *r)
{
    static const char *const names[] = { ", \"type\": ", ", \"becomes\": ", ", \"missing\": " };
    const dt_columns *c = dt__array_fields(r->train);
    dt__chars t = { .ctx = r->ctx };
    if (c == NULL || !r->o->run.report || !dt__run_writes(r)) return DT_OK;
    dt__put_text(&t, "{\"columns\": [");
    for (int64_t i = 0; i < c->n; i++) {
        dt__put_text(&t, i == 0 ? "\n {\"name\": " : ",\n {\"name\": ");
        dt__put_quoted(&t, c->column[i].name);
        for (int about = DT_COLUMN_ITS_TYPE; about <= DT_COLUMN_IF_MISSING; about++) {
            char words[DT_COLUMN_TEXT];
            dt__put_text(&t, names[about]);
            dt__put_quoted(&t, dt_column_describe(&c->column[i], (dt_column_about)about, words));
        }
        dt__put_text(&t, "}");
    }
    dt__put_text(&t, "\n]}\n");
    const dt_status s = dt__run_write_shown(r, "columns.json", &t);
    dt__release(r->ctx, t.bytes);
    return s;
}

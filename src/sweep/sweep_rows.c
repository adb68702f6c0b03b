/* The results of a sweep: rows, the metric, JSON. */
#include "sweep/sweep_plan.h"

int64_t dt_sweep_row_count(const dt_sweep *s) { return s == NULL ? 0 : s->n_trials; }

const dt_sweep_row *dt_sweep_row_at(const dt_sweep *s, int64_t i)
{
    if (s == NULL) return NULL;
    return i < 0 || i >= s->n_trials ? NULL : &s->order[i]->row;
}

int dt_sweep_key_count(const dt_sweep *s) { return s == NULL ? 0 : s->n_keys; }

const char *dt_sweep_key_at(const dt_sweep *s, int i)
{
    if (s == NULL) return NULL;
    return i < 0 || i >= s->n_keys ? NULL : s->path[i];
}

int64_t dt_sweep_run_count(const dt_sweep *s)
{
    if (s == NULL) return 0;
    int64_t n = 0;
    for (int64_t rung = 0; rung < dt__rung_count(s); rung++) n += dt__rung_size(s, rung);
    return n * s->o.seeds;
}

int64_t dt_sweep_excluded(const dt_sweep *s) { return s == NULL ? 0 : s->excluded; }

dt_sweep_metric dt_sweep_metric_of(const dt_sweep *s)
{
    if (s == NULL) return (dt_sweep_metric){ 0 };
    const dt__page_metric m = dt__job_metric(s->ctx, s->metric);
    return (dt_sweep_metric){ m.name,     m.title,      m.unit,      m.scale,
                              m.decimals, s->chosen_on, s->result_on };
}

static void put_row(const dt_sweep *s, dt__chars *t, const dt_sweep_row *row)
{
    dt__put_text(t, "{\"name\": ");
    dt__put_quoted(t, row->name);
    dt__put_text(t, ", \"values\": {");
    for (int k = 0; dt__put_each(t, k, s->n_keys); k++) {
        DT__PUT_ALL(t, DT__QUOTED(s->path[k]), ": ", DT__QUOTED(row->value[k]));
    }
    dt__put_text(t, "}, \"rung\": ");
    dt__put_integer(t, row->rung);
    dt__put_spread_json(t, "chosen", row->chosen);
    dt__put_spread_json(t, "result", row->result);
    DT__PUT_ALL(t, ", \"bytes\": ", row->bytes, ", \"error\": ");
    if (row->error != NULL) dt__put_quoted(t, row->error);
    else dt__put_text(t, "null");
    dt__put_text(t, ", \"refused\": ");
    if (row->refused != NULL) dt__put_quoted(t, row->refused);
    else dt__put_text(t, "null");
    dt__put_text(t, "}");
}

static void put_field(dt__chars *t, const char *name, const char *text)
{
    DT__PUT_ALL(t, name, DT__QUOTED(text));
}

dt_status dt_sweep_json(const dt_sweep *s, dt_sink sink, void *user)
{
    DT__NEED2(NULL, s, sink);
    dt__chars t = { .ctx = s->ctx };
    put_field(&t, "{\"dir\": ", s->o.dir);
    put_field(&t, ", \"metric\": ", s->metric);
    put_field(&t, ", \"chosen_on\": ", s->chosen_on);
    put_field(&t, ", \"result_on\": ", s->result_on);
    dt__put_text(&t, ", \"rows\": [");
    for (int64_t i = 0; i < s->n_trials; i++) {
        dt__put_text(&t, i > 0 ? ",\n  " : "\n  ");
        put_row(s, &t, &s->order[i]->row);
    }
    dt__put_text(&t, "\n]}\n");
    const dt_status status = t.failed ? DT_ERR_NOMEM : sink(user, t.bytes, t.used);
    dt__release(s->ctx, t.bytes);
    return status;
}

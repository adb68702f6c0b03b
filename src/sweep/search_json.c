/* A search as JSON. */
#include "sweep/search.h"

static void put_field(dt__chars *t, const char *name, int64_t value)
{
    DT__PUT_ALL(t, ", \"", name, "\": ", value);
}

static void put_layer(dt__chars *t, const dt_search_layer *l)
{
    dt__put_text(t, "{\"path\": ");
    dt__put_quoted(t, l->path);
    put_field(t, "elements", l->elements);
    put_field(t, "bits", l->bits);
    if (l->group_size >= 0) put_field(t, "group_size", l->group_size);
    put_field(t, "bytes", l->bytes);
    dt__put_field(t, "cost", l->cost);
    put_field(t, "uniform_bits", l->uniform_bits);
    dt__put_field(t, "uniform_cost", l->uniform_cost);
    dt__put_text(t, "}");
}

dt_status dt_search_json(const dt_search_summary *s, dt_sink sink, void *user)
{
    DT__NEED2(NULL, s, s->ctx);
    DT__NEED(s->ctx, sink);
    dt__chars t = { .ctx = s->ctx };
    dt__put_text(&t, "{\"dir\": ");
    dt__put_quoted(&t, s->dir);
    put_field(&t, "least", s->least);
    put_field(&t, "most", s->most);
    put_field(&t, "bytes", s->bytes);
    put_field(&t, "uniform_bits", s->uniform_bits);
    put_field(&t, "uniform_bytes", s->uniform_bytes[s->uniform_bits]);
    DT__PUT_ALL(&t, ", \"metric\": ", DT__QUOTED(s->metric.name));
    dt__put_spread_json(&t, "uniform", s->uniform);
    dt__put_spread_json(&t, "automatic", s->automatic);
    dt__put_text(&t, ", \"layers\": [");
    for (int64_t i = 0; i < s->n_layers; i++) {
        dt__put_text(&t, i > 0 ? ",\n  " : "\n  ");
        put_layer(&t, &s->layer[i]);
    }
    dt__put_text(&t, "\n]}\n");
    const dt_status status = t.failed ? DT_ERR_NOMEM : sink(user, t.bytes, t.used);
    dt__release(s->ctx, t.bytes);
    return status;
}

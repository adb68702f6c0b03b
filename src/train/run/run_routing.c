/* Measures how the validation data are distributed over experts. The share of an expert is its
 * rows, divided by all rows routed in its layer. Hooks count the index of experts that grouped
 * layers are called with. */
#include "autograd/spread.h"
#include "core/ranks.h"
#include "core/tensor.h"
#include "nn/module.h"
#include "train/run/run.h"

#include <detent/ops.h>

typedef struct watched {
    dt_module *m;
    uint64_t hook;
    int64_t n;
    int64_t *rows; /* of each expert */
} watched;

typedef struct routing {
    dt_ctx *ctx;
    watched *layer;
    int64_t n, room;
} routing;

/* Adds the rows of each expert to `user`, int64_t per expert. */
static dt_tensor *count(void *user, dt_tape *t, dt_module *m, dt_tensor *x)
{
    int64_t *rows = user;
    (void)m;
    if (x->dtype != DT_I32) return x; /* x, not the index */
    const dt_tensor *values = dt_contiguous(t, x);
    if (values == NULL) return NULL;
    const int32_t *index = dt__values(values);
    for (int64_t i = 0; i < x->count; i++) {
        if (index[i] >= 0) rows[index[i]]++;
    }
    return x;
}

static dt_status watch(routing *r, dt_module *m)
{
    DT__TRY(DT__RESERVE(r->ctx, r->layer, r->n, r->room));
    watched w = { .m = m, .n = dt__whole_extent(dt__entry_find(m, "weight")->x) };
    w.rows = dt__alloc_zero(r->ctx, (size_t)w.n * sizeof *w.rows);
    if (w.rows == NULL) return DT_ERR_NOMEM;
    const dt_status s = dt_hook_add(m, DT_SITE_INPUT, count, w.rows, NULL, &w.hook);
    if (s == DT_OK) r->layer[r->n++] = w;
    else dt__release(r->ctx, w.rows);
    return s;
}

static void find_extremes(const watched *w, double *busiest, double *idlest)
{
    int64_t all = 0;
    for (int64_t e = 0; e < w->n; e++) all += w->rows[e];
    for (int64_t e = 0; e < w->n && all > 0; e++) {
        const double share = (double)w->rows[e] / (double)all;
        if (share > *busiest) *busiest = share;
        if (share < *idlest) *idlest = share;
    }
}

/* Adds the counts of other ranks. */
static dt_status add_ranks(dt__run *r, const watched *w)
{
    const int ranks = dt__cluster_ranks(r->ranks.cluster);
    int64_t *all = dt__alloc_array(r->ctx, ranks * w->n, sizeof *all);
    dt_status s = all == NULL ? DT_ERR_NOMEM : DT_OK;
    s = dt__cluster_meet(r->ranks.cluster, DT__MEETING, s);
    if (s == DT_OK) {
        s = dt__cluster_gather(r->ranks.cluster, "rows of experts", w->rows,
                               (size_t)w->n * sizeof *all, all);
    }
    for (int64_t i = 0; s == DT_OK && i < ranks * w->n; i++) {
        if (i < w->n) w->rows[i] = 0;
        w->rows[i % w->n] += all[i];
    }
    dt__release(r->ctx, all);
    return s;
}

dt_status dt__run_evaluate(dt__run *r, const dt_evaluation *o, dt_metrics *m, dt__experts *experts)
{
    routing all = { .ctx = r->ctx };
    const dt__evaluation e = {
        .m = r->stage.model, .d = r->data.validation, .options = o, .cluster = r->ranks.cluster
    };
    dt_status s = DT_OK;
    DT__EACH_MODULE(layer, r->stage.model) {
        if (layer->type == &dt__nn_grouped_linear && s == DT_OK) s = watch(&all, layer);
    }
    if (s == DT_OK) s = dt__run_time_evaluation(r, &e, m, NULL);
    *experts = (dt__experts){ .any = all.n > 0, .busiest = 0, .idlest = 1 };
    for (int64_t i = 0; i < all.n; i++) {
        if (s == DT_OK) s = add_ranks(r, &all.layer[i]);
        find_extremes(&all.layer[i], &experts->busiest, &experts->idlest);
        dt_unhook(all.layer[i].m, all.layer[i].hook);
        dt__release(r->ctx, all.layer[i].rows);
    }
    dt__release(r->ctx, all.layer);
    return s;
}

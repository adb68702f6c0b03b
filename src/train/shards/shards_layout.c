/* Layout of a model's gradients for shards: parameters in the order in which backward completes
 * them, buckets of their gradients, memory for reports. It is remade when the module tree changes,
 * as for optimizers: dt_prepare and loading change it. */
#include "core/tensor.h"
#include "nn/module.h"
#include "optim/optimizer.h"
#include "train/shards/shards.h"

#define FIRST_BUCKET ((int64_t)1 << 18) /* elements: 1 MiB */

void dt__gradients_free(const dt__shards *s, dt__gradients *g)
{
    for (int64_t i = 0; i < s->n_params && g->x != NULL; i++) {
        dt_tensor_free(g->x[i]);
        g->x[i] = NULL;
    }
}

void dt__gradients_forget(const dt__shards *s, dt__gradients *g)
{
    dt__gradients_free(s, g);
    DT__RELEASE(s->ctx, g->x, g->data);
    *g = (dt__gradients){ NULL, NULL };
}

void dt__shards_forget(dt__shards *s)
{
    dt__sync_close(s);
    if (s->experts != NULL) s->hooks->forget(s);
    for (int i = 0; i < DT__SHARD_PARTS; i++) {
        dt__gradients_forget(s, &s->part[i]);
        dt__gradients_forget(s, &s->stack[i]);
    }
    dt__buckets_free(&s->buckets);
    void *const lists[] = { s->param,  s->tensor, s->param_state, s->merged,
                            s->before, s->mine,   s->all,         s->packed };
    for (int i = 0; i < DT__COUNT_OF(lists); i++) dt__release(s->ctx, lists[i]);
    s->param = NULL;
    s->tensor = NULL;
    s->param_state = NULL;
    s->learned = 0;
    s->merged = NULL;
    s->before = s->mine = s->all = s->packed = NULL;
    s->n_params = s->n_merged = 0;
    s->model = NULL;
}

static dt_status find_params(dt__shards *s, dt_module *m)
{
    const dt__param *params;
    int64_t n;
    DT__TRY(dt__module_params(m, &params, &n));
    s->param = dt__alloc_array(s->ctx, n, sizeof *s->param);
    s->tensor = dt__alloc_array(s->ctx, n, sizeof *s->tensor);
    s->param_state = dt__alloc_zero(s->ctx, (size_t)n * sizeof *s->param_state);
    if (s->param == NULL || s->tensor == NULL || s->param_state == NULL) return DT_ERR_NOMEM;
    for (int64_t i = n - 1; i >= 0; i--) {
        if (!dt_requires_grad(params[i].x)) continue;
        if (dt__is_spread(params[i].x)) {
            DT__TRY(s->hooks->add(s, params[i].x));
            continue;
        }
        DT__TRY(dt__optimizer_tensor(s->optimizer, params[i].x, &s->tensor[s->n_params]));
        s->param[s->n_params++] = params[i].x;
    }
    return DT_OK;
}

dt_status dt__gradients_make(const dt__shards *s, dt__gradients *g)
{
    g->x = dt__alloc_zero(s->ctx, (size_t)s->n_params * sizeof(dt_tensor *));
    g->data = dt__alloc_zero(s->ctx, (size_t)s->n_params * sizeof *g->data);
    return g->x != NULL && g->data != NULL ? DT_OK : DT_ERR_NOMEM;
}

static dt_status make_nodes(dt__shards *s)
{
    s->n_parts = dt__parts_of_rank(dt__cluster_rank(s->cluster), s->shards, s->own);
    s->n_stack = 0;
    for (int64_t n = s->own; n > 1; n = dt__ceil_div(n, 2)) s->n_stack++;
    for (int i = 0; i < s->n_parts; i++) {
        DT__TRY(dt__gradients_make(s, &s->part[i]));
        s->parts[i] = s->part[i].data;
    }
    for (int i = 0; i < s->n_stack; i++) DT__TRY(dt__gradients_make(s, &s->stack[i]));
    return DT_OK;
}

static dt_status make_buckets(dt__shards *s, double megabytes)
{
    if (s->cluster == NULL) return DT_OK;
    const dt__buckets_plan plan = { .what = "the gradient",
                                    .tensors = s->tensor,
                                    .n_tensors = s->n_params,
                                    .shards = s->shards,
                                    .first = FIRST_BUCKET,
                                    .most = dt__max_i64(1, (int64_t)(megabytes * (1 << 18))),
                                    .part = s->parts };
    return dt__buckets_make(s->cluster, &plan, &s->buckets);
}

static dt_status make_reports(dt__shards *s)
{
    s->report_bytes = sizeof(int64_t) + (size_t)s->own * sizeof(dt__shard_report) +
                      (size_t)dt__round_up(s->n_params, 8) + (size_t)s->own * s->state_bytes;
    const int64_t ranks = dt__cluster_ranks(s->cluster);
    s->mine = dt__alloc_zero(s->ctx, s->report_bytes);
    s->all = dt__alloc_array(s->ctx, ranks, s->report_bytes);
    s->before = dt__alloc(s->ctx, s->state_bytes);
    s->packed = dt__alloc_array(s->ctx, s->shards, s->state_bytes);
    const bool ok = s->mine != NULL && s->all != NULL && s->before != NULL && s->packed != NULL;
    return ok ? DT_OK : DT_ERR_NOMEM;
}

dt_status dt__shards_follow(dt__run *r)
{
    dt__shards *s = r->ranks.shards;
    if (s->model == r->stage.model && s->seen == dt__module_changes(r->stage.model)) return DT_OK;
    dt__shards_forget(s);
    s->optimizer = r->stage.optimizer;
    DT__TRY(find_params(s, r->stage.model));
    DT__TRY(dt__shards_find_merged(r, s));
    DT__TRY(make_nodes(s));
    DT__TRY(make_buckets(s, r->o->cluster.bucket_mb));
    DT__TRY(make_reports(s));
    DT__TRY(dt__sync_open(r, s));
    s->model = r->stage.model;
    s->seen = dt__module_changes(r->stage.model);
    return DT_OK;
}

/* With one shard, bytes of the gradients of all trained parameters; else of all nodes of the tree
 * that are in memory at a time. */
dt_status dt__shards_bytes(const dt__run *r, int64_t *bytes)
{
    const dt__shards *s = r->ranks.shards;
    const dt__param *params;
    int64_t n, elements = 0;
    DT__TRY(dt__module_params(r->stage.model, &params, &n));
    for (int64_t i = 0; i < n; i++) {
        if (dt__is_spread(params[i].x)) continue;
        if (dt_requires_grad(params[i].x)) elements += params[i].x->count;
    }
    const int nodes = s == NULL ? 1 : s->sync != NULL ? (int)s->own : s->n_parts + s->n_stack;
    *bytes = elements * (int64_t)sizeof(float) * nodes + (s == NULL ? 0 : s->experts_most);
    return DT_OK;
}

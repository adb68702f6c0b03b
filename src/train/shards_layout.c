/* What shards keep of a model: the order of its parameters in the flat gradient, buckets, room for
 * reports. It follows the model's tree, as optimizers do: dt_prepare and loading change it. */
#include "core/tensor.h"
#include "nn/module.h"
#include "train/shards.h"

#include <string.h>

#define FIRST_BUCKET ((int64_t)1 << 18) /* elements: 1 MiB */
#define APART 16                        /* elements between which parameters begin: 64 bytes */

void dt__shards_forget(dt__shards *s)
{
    for (int i = 0; i < DT__SHARD_PARTS; i++) {
        if (s->part[i] != NULL) dt__storage_release(s->part[i]);
        if (s->stack[i] != NULL) dt__storage_release(s->stack[i]);
        s->part[i] = s->stack[i] = NULL;
    }
    void *const lists[] = { s->param, s->param_state, s->merged, s->before, s->bucket,
                            s->room,  s->mine,        s->all,    s->packed };
    for (int i = 0; i < DT__COUNT_OF(lists); i++) dt__release(s->ctx, lists[i]);
    s->param = NULL;
    s->param_state = NULL;
    s->learned = 0;
    s->merged = NULL;
    s->before = s->mine = s->all = s->packed = NULL;
    s->bucket = NULL;
    s->room = NULL;
    s->n_params = s->n_merged = s->n_buckets = s->elements = 0;
    s->model = NULL;
}

static dt_status find_params(dt__shards *s, dt_module *m)
{
    const dt__param *params;
    int64_t n;
    DT__TRY(dt__module_params(m, &params, &n));
    s->param = dt__alloc_array(s->ctx, n, sizeof *s->param);
    s->param_state = dt__alloc_zero(s->ctx, (size_t)n * sizeof *s->param_state);
    if (s->param == NULL || s->param_state == NULL) return DT_ERR_NOMEM;
    for (int64_t i = n - 1; i >= 0; i--) {
        if (!dt_requires_grad(params[i].x)) continue;
        s->param[s->n_params++] = (dt__shard_param){ params[i].x, s->elements };
        s->elements += dt__round_up(params[i].x->count, APART);
    }
    return DT_OK;
}

static dt_status make_flat(dt__shards *s, dt__storage **out)
{
    *out = dt__storage_create(s->ctx, (size_t)dt__max_i64(s->elements, 1) * sizeof(float));
    if (*out == NULL) return DT_ERR_NOMEM;
    memset((*out)->data, 0, (size_t)s->elements * sizeof(float));
    return DT_OK;
}

static dt_status make_flats(dt__shards *s)
{
    s->n_parts = dt__parts_of_rank(dt__cluster_rank(s->cluster), s->shards, s->own);
    s->n_stack = 0;
    for (int64_t n = s->own; n > 1; n = dt__ceil_div(n, 2)) s->n_stack++;
    for (int i = 0; i < s->n_parts; i++) {
        DT__TRY(make_flat(s, &s->part[i]));
        s->parts[i] = s->part[i]->data;
    }
    for (int i = 0; i < s->n_stack; i++) DT__TRY(make_flat(s, &s->stack[i]));
    return DT_OK;
}

static dt_status make_buckets(dt__shards *s, double megabytes)
{
    if (s->cluster == NULL) return DT_OK;
    const int64_t most = dt__max_i64(APART, (int64_t)(megabytes * (1 << 18)));
    s->n_buckets = 1 + dt__ceil_div(dt__max_i64(0, s->elements - FIRST_BUCKET), most);
    s->bucket = dt__alloc_array(s->ctx, s->n_buckets, sizeof *s->bucket);
    const int64_t room = dt__bucket_room(s->cluster, s->shards, dt__max_i64(most, FIRST_BUCKET));
    s->room = dt__alloc_array(s->ctx, room, sizeof *s->room);
    if (s->bucket == NULL || s->room == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0, at = 0; i < s->n_buckets; i++) {
        const int64_t n = dt__min_i64(s->elements - at, i == 0 ? FIRST_BUCKET : most);
        s->bucket[i] = (dt__bucket){
            .number = i, .shards = s->shards, .n = n, .part = s->parts, .first = at, .room = s->room
        };
        at += n;
    }
    return DT_OK;
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
    dt__shards *s = r->shards;
    if (s->model == r->model && s->seen == dt__module_changes(r->model)) return DT_OK;
    dt__shards_forget(s);
    DT__TRY(find_params(s, r->model));
    DT__TRY(dt__shards_find_merged(r, s));
    DT__TRY(make_flats(s));
    DT__TRY(make_buckets(s, r->o->cluster.bucket_mb));
    DT__TRY(make_reports(s));
    s->model = r->model;
    s->seen = dt__module_changes(r->model);
    return DT_OK;
}

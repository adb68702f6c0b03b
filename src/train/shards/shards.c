/* The gradient of an update as a sum over shards:
 *     leaf v   the gradient of the examples of shard v, of all batches of the update, in order
 *     node     left child + right child, in f32                       (core/ranks.h)
 * A shard's random numbers come from a key of its own, so that they do not depend on the shards
 * before it. */
#include "train/shards/shards.h"
#include "autograd/spread.h"

#include "core/tensor.h"
#include "data/dataset.h"
#include "kernels/kernels.h"
#include "nn/module.h"
#include "optim/optimizer.h"

#include <string.h>

/* ---- what ranks tell each other -------------------------------------------------------------- */

dt__shard_report *dt__shards_report(const dt__shards *s, char *of_rank, int64_t i)
{
    (void)s;
    return (dt__shard_report *)(void *)(of_rank + sizeof(int64_t)) + i;
}

unsigned char *dt__shards_given(const dt__shards *s, char *of_rank)
{
    return (unsigned char *)dt__shards_report(s, of_rank, s->own);
}

char *dt__shards_state(const dt__shards *s, char *of_rank, int64_t i)
{
    char *given = (char *)dt__shards_given(s, of_rank);
    return given + dt__round_up(s->n_params, 8) + i * (int64_t)s->state_bytes;
}

/* ---- opening and closing ------------------------------------------------------------------- */

dt_status dt__shards_open(dt__run *r)
{
    if (r->ranks.n_shards < 2) return DT_OK;
    dt__shards *s = dt__alloc_zero(r->ctx, sizeof *s);
    if (s == NULL) return DT_ERR_NOMEM;
    s->ctx = r->ctx;
    s->cluster = r->ranks.cluster;
    s->hooks = s->cluster == NULL ? NULL : s->cluster->hooks->experts;
    s->shards = r->ranks.n_shards;
    s->own = r->ranks.n_shards / dt__cluster_ranks(r->ranks.cluster);
    r->ranks.shards = s;
    return DT_OK;
}

void dt__shards_close(dt__run *r)
{
    if (r->ranks.shards == NULL) return;
    dt__shards_forget(r->ranks.shards);
    dt__release(r->ctx, r->ranks.shards);
    r->ranks.shards = NULL;
}

/* ---- a leaf ---------------------------------------------------------------------------------- */

void dt__shards_key(dt__run *r, const dt__batch_range *p, int64_t shard)
{
    for (int i = 0; i < DT__PURPOSES; i++) {
        uint32_t word[4];
        r->ctx->stream[i] = p->stream[i];
        if (shard == 0) continue;
        dt__philox(p->stream[i].key, ~(uint64_t)shard, word);
        r->ctx->stream[i].key = (uint64_t)word[0] << 32 | word[1];
    }
}

static dt_status run_batches(dt__run *r, const dt__batch_range *p, int64_t shard,
                             dt__shard_report *report)
{
    for (int64_t i = 0; i < p->batches; i++) {
        dt_tensor *x, *target;
        dt_tape_reset(r->stage.tape);
        DT__TRY(
            dt__loader_next_shard(r->stage.loader, shard, r->ranks.shards->shards, &x, &target));
        if (x == NULL) continue;
        report->used = 1;
        dt__shards_watch(r, i == p->batches - 1);
        const dt_status status = dt__run_batch(r, x, target, &report->loss);
        dt__shards_watch(r, false);
        DT__TRY(status);
    }
    return DT_OK;
}

dt_status dt__shards_leaf(dt__run *r, const dt__batch_range *p, int64_t shard, dt__gradients *to)
{
    dt__shards *s = r->ranks.shards;
    const int64_t i = shard % s->own;
    dt__shard_report *report = dt__shards_report(s, s->mine, i);
    *report = (dt__shard_report){ 0 };
    dt_tape_reset(r->stage.tape);
    dt__shards_restore(s, s->before);
    dt__shards_key(r, p, shard);
    dt_zero_grad(r->stage.model);
    DT__TRY(dt_loader_seek(r->stage.loader, p->position));
    DT__TRY(dt__spread_begin(r->ctx, r->stage.model));
    if (s->n_experts > 0) s->hooks->watch(r, p, i);
    dt_status status = dt__spread_end(r->ctx, run_batches(r, p, shard, report));
    if (status == DT_ERR_NUMERIC) {
        if (s->words[0] == 0) strcpy(s->words, dt_error(r->ctx));
        report->nonfinite = 1;
        dt_tape_reset(r->stage.tape);
        status = DT_OK;
    }
    for (int64_t k = s->sent; k < s->n_params && status == DT_OK; k++) {
        status = dt__shards_take(s, k, to);
    }
    if (status == DT_OK && s->n_experts > 0) status = s->hooks->take(s);
    for (int k = 0; k < DT__PURPOSES; k++) {
        report->drawn[k] = r->ctx->stream[k].next - p->stream[k].next;
    }
    dt__shards_save(s, dt__shards_state(s, s->mine, i));
    return status;
}

static dt_status leaf(dt__run *r, const dt__batch_range *p, int64_t shard, dt__gradients *to)
{
    dt__shards *s = r->ranks.shards;
    return s->sync == NULL ? dt__shards_leaf(r, p, shard, to)
                           : dt__sync_take(s, shard % s->own, to);
}

/* ---- the tree -------------------------------------------------------------------------------- */

static void add(const dt__shards *s, const dt__gradients *from, dt__gradients *to)
{
    dt__team *const threads = dt__threads_enter(s->ctx);
    const dt__kernels *kernels = dt__kernels_of(s->ctx, DT_F32);
    for (int64_t i = 0; i < s->n_params; i++) {
        kernels->add_into(s->param[i]->count, from->data[i], to->data[i]);
    }
    dt__threads_leave(threads);
}

/* Computes node [a, b) into `to`; nodes below it use stack[level] and later ones. */
static dt_status node(dt__run *r, const dt__batch_range *p, const int64_t range[2],
                      dt__gradients *to, int level)
{
    dt__shards *s = r->ranks.shards;
    const int64_t a = range[0], b = range[1], m = a + (b - a) / 2;
    if (b - a == 1) return leaf(r, p, a, to);
    DT__TRY(node(r, p, (const int64_t[]){ a, m }, to, level));
    DT__TRY(node(r, p, (const int64_t[]){ m, b }, &s->stack[level], level + 1));
    add(s, &s->stack[level], to);
    dt__gradients_free(s, &s->stack[level]);
    return DT_OK;
}

/* Computes the nodes below [a, b) that belong to this rank. */
static dt_status compute(dt__run *r, const dt__batch_range *p, const int64_t range[2], int *part)
{
    dt__shards *s = r->ranks.shards;
    const int64_t a = range[0], b = range[1], m = a + (b - a) / 2;
    const int64_t first = dt__cluster_rank(s->cluster) * s->own;
    if (b <= first || a >= first + s->own) return DT_OK;
    if (dt__is_of_one_rank(a, b, s->own)) return node(r, p, range, &s->part[(*part)++], 0);
    DT__TRY(compute(r, p, (const int64_t[]){ a, m }, part));
    return compute(r, p, (const int64_t[]){ m, b }, part);
}

/* ---- all shards ------------------------------------------------------------------------------ */

void dt__shards_post(dt__shards *s)
{
    const bool shared = dt__optimizer_is_shared(s->optimizer);
    dt__bucket_post(&s->buckets.bucket[s->posted++], shared ? DT__BUCKET_SCATTER : DT__BUCKET_SUM);
}

static dt_status exchange(dt__shards *s)
{
    if (s->cluster == NULL) {
        memcpy(s->all, s->mine, s->report_bytes);
        return DT_OK;
    }
    DT__TRY(dt__shards_check_sent(s));
    while (s->posted < s->buckets.n) dt__shards_post(s);
    return dt__cluster_gather(s->cluster, "the shards' reports", s->mine, s->report_bytes, s->all);
}

/* Sets the gradients of parameters that have one in any shard to the sum. */
static void put_gradients(dt__shards *s)
{
    const int ranks = dt__cluster_ranks(s->cluster);
    dt_zero_grad(s->model);
    for (int64_t i = 0; i < s->n_params; i++) {
        bool given = false;
        for (int k = 0; k < ranks; k++) {
            given |= dt__shards_given(s, s->all + (size_t)k * s->report_bytes)[i] != 0;
        }
        if (!given) continue;
        s->param[i]->grad = s->part[0].x[i];
        s->part[0].x[i] = NULL;
    }
    for (int i = 0; i < s->n_parts; i++) dt__gradients_free(s, &s->part[i]);
    if (s->n_experts > 0) s->hooks->put(s);
}

/* Adds losses in the order of shards, and advances each random stream by the largest number that a
 * shard drew. */
static void add_reports(dt__run *r, const dt__batch_range *p, double *loss, bool *nonfinite)
{
    const dt__shards *s = r->ranks.shards;
    uint64_t most[DT__PURPOSES] = { 0 };
    *nonfinite = false;
    for (int64_t v = 0; v < s->shards; v++) {
        char *of = s->all + (size_t)(v / s->own) * s->report_bytes;
        const dt__shard_report *report = dt__shards_report(s, of, v % s->own);
        *loss += report->loss;
        *nonfinite |= report->nonfinite != 0;
        for (int i = 0; i < DT__PURPOSES; i++) {
            if (report->drawn[i] > most[i]) most[i] = report->drawn[i];
        }
    }
    for (int i = 0; i < DT__PURPOSES; i++) {
        r->ctx->stream[i] = p->stream[i];
        dt__stream_take(&r->ctx->stream[i], most[i]);
    }
}

static void take_flags(dt__run *r)
{
    const dt__shards *s = r->ranks.shards;
    for (int k = 0; k < dt__cluster_ranks(s->cluster); k++) {
        int64_t flags;
        memcpy(&flags, s->all + (size_t)k * s->report_bytes, sizeof flags);
        dt__run_take_flags(r, k, flags);
    }
}

dt_status dt__shards_gradient(dt__run *r, const dt__batch_range *p, double *loss)
{
    dt__shards *s = r->ranks.shards;
    int part = 0;
    bool nonfinite;
    const int64_t flags = dt__run_flags(r);
    DT__TRY(dt__shards_follow(r));
    DT__TRY(dt__shards_begin_ranges(r, p));
    memset(s->mine, 0, s->report_bytes);
    memcpy(s->mine, &flags, sizeof flags);
    s->words[0] = 0;
    s->sent = s->posted = 0;
    if (s->n_experts > 0) s->hooks->begin(s);
    dt__shards_save(s, s->before);
    if (s->sync != NULL) DT__TRY(dt__sync_leaves(r, p));
    DT__TRY(compute(r, p, (const int64_t[]){ 0, s->shards }, &part));
    DT__TRY(exchange(s));
    dt_tape_reset(r->stage.tape);
    put_gradients(s);
    add_reports(r, p, loss, &nonfinite);
    take_flags(r);
    DT__TRY(dt__shards_merge(r, s));
    return nonfinite ? dt_fail(r->ctx, DT_ERR_NUMERIC, "a shard's value is not finite") : DT_OK;
}

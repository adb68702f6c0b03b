/* cluster.sync_norm: batch norms with the statistics of all shards of a batch. The shards of a rank
 * run in step: each has its own tape, thread, gradients and buffers, and runs until its next batch
 * norm (forward, backward, or forward again of a checkpointed segment); there it waits for the sums
 * of the others. One thread runs at a time, on the context's team. When all are there, ranks
 * exchange the sums of their shards, and each adds them up in the tree (core/ranks.h), in double:
 *     forward   n = nl + nr, d = meanr - meanl, mean = meanl + d nr/n,
 *               m2 = m2l + m2r + d^2 nl nr/n       [Chan, Golub and LeVeque 1983]
 *     backward  the sums of g and g (x - mean)
 * A shard that has no examples, or met a value that is not finite, takes no part. A rank whose
 * shards have all ended sends empty messages until the shards of all ranks have. */
#include "train/shards/shards.h"

#include "nn/module.h"
#include "qat/quantizer.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

typedef enum lane_state { LANE_RUNS, LANE_AT_NORM, LANE_DONE } lane_state;

/* A shard of this rank while it runs. */
typedef struct lane {
    struct dt__sync *of;
    int64_t index;
    pthread_t thread;
    lane_state state;
    dt_status status;
    dt__norm_sums *sums;
    /* State of the run and the model while the shard runs. */
    dt_tape *tape;
    dt_loader *loader;
    dt_tensor *part[DT__PARTS];
    dt__stream stream[DT__PURPOSES];
    dt_tensor **grad;
    char *buffers; /* their bytes */
    uint64_t *version;
    dt__gradients node; /* the result */
} lane;

#define NOBODY (-1)

struct dt__sync {
    dt__run *r;
    dt__shards *s;
    const dt__batch_range *p;
    lane *lanes;
    dt_tensor **buffer; /* of the model, lent */
    int64_t n_buffers, room_buffers;
    size_t bytes;     /* of all buffers */
    int64_t channels; /* most channels of a norm */
    int64_t sequence; /* exchanges of this update */
    size_t message;   /* bytes of the longest message */
    char *mine, *all;
    double *sums;
    dt_status status; /* of exchanges */
    pthread_mutex_t mutex;
    pthread_cond_t passed;
    int64_t turn; /* index of the lane that runs */
};

typedef struct dt__sync sync_of;

/* ---- messages -------------------------------------------------------------------------------- */

/* Followed by the count of each shard (0: it takes no part), then by 2 * channels sums of each. */
typedef struct head {
    int64_t sequence; /* -1: all shards of the rank have ended */
    int64_t channels, backward;
} head;

static head *head_of(const sync_of *y, int64_t rank)
{
    return (head *)(void *)(y->all + (size_t)rank * y->message);
}

static double *counts_in(head *h) { return (double *)(void *)(h + 1); }

static double *sums_in(head *h, int64_t shards, int64_t i)
{
    return counts_in(h) + shards + i * 2 * h->channels;
}

static size_t bytes_of(const head *h, int64_t shards)
{
    return sizeof *h + (size_t)(shards + shards * 2 * h->channels) * sizeof(double);
}

static void pieces(void *user, int k, dt__message *send, dt__message *receive)
{
    const sync_of *y = user;
    send->data = y->mine;
    send->bytes = bytes_of((const head *)(const void *)y->mine, y->s->own);
    receive->data = head_of(y, k);
    receive->bytes = y->message;
    receive->at_most = true;
}

static bool run_exchange(dt__cluster *c, void *user)
{
    const dt__exchange x = { "the sums of a batch norm", false, pieces, user };
    return dt__cluster_exchange(c, &x);
}

static void exchange(sync_of *y)
{
    dt__cluster *c = y->s->cluster;
    memcpy(head_of(y, dt__cluster_rank(c)), y->mine, y->message);
    if (c == NULL || y->status != DT_OK) return;
    dt__cluster_job job = { .run = run_exchange, .user = y };
    dt__cluster_post(c, &job);
    y->status = dt__cluster_wait(c, &job);
}

/* ---- sums over all shards -------------------------------------------------------------------- */

typedef struct moments {
    double n, x, y;
} moments;

static moments both(const moments *l, const moments *r, bool backward)
{
    if (l->n == 0) return *r;
    if (r->n == 0) return *l;
    const double n = l->n + r->n;
    if (backward) return (moments){ n, l->x + r->x, l->y + r->y };
    const double d = r->x - l->x;
    return (moments){ n, l->x + d * (r->n / n), l->y + r->y + d * d * (l->n * r->n / n) };
}

static moments leaf_of(const sync_of *y, int64_t shard, int64_t channel)
{
    const int64_t own = y->s->own, i = shard % own;
    head *h = head_of(y, shard / own);
    const double n = h->sequence < 0 ? 0 : counts_in(h)[i];
    if (n == 0) return (moments){ 0, 0, 0 };
    const double *sums = sums_in(h, own, i);
    return (moments){ n, sums[channel], sums[h->channels + channel] };
}

static moments node_of(const sync_of *y, const int64_t range[2], int64_t channel, bool backward)
{
    const int64_t a = range[0], b = range[1], m = a + (b - a) / 2;
    if (b - a == 1) return leaf_of(y, a, channel);
    const moments l = node_of(y, (const int64_t[]){ a, m }, channel, backward);
    const moments r = node_of(y, (const int64_t[]){ m, b }, channel, backward);
    return both(&l, &r, backward);
}

/* Whether all ranks have reached the same norm. */
static bool is_together(const sync_of *y, const head *own)
{
    for (int k = 0; k < dt__cluster_ranks(y->s->cluster); k++) {
        const head *h = head_of(y, k);
        if (h->sequence < 0) continue;
        if (h->sequence != own->sequence || h->channels != own->channels) return false;
        if (h->backward != own->backward) return false;
    }
    return true;
}

/* Writes the sums of a lane that has reached a norm, else zeros. */
static void put_lane(const sync_of *y, head *h, int64_t i)
{
    const dt__norm_sums *from = y->lanes[i].sums;
    if (y->lanes[i].state != LANE_AT_NORM) return;
    counts_in(h)[i] = from->count;
    memcpy(sums_in(h, y->s->own, i), from->own, (size_t)(2 * h->channels) * sizeof(double));
}

/* Adds the sums of the lanes that have reached a norm, and of other ranks; `like` is one of
 * them. */
static void add_up(sync_of *y, const dt__norm_sums *like)
{
    const int64_t whole[2] = { 0, y->s->shards }, n = like->channels;
    const bool backward = like->backward;
    double count = 0;
    head *h = (head *)(void *)y->mine;
    memset(y->mine, 0, y->message);
    *h = (head){ ++y->sequence, n, backward };
    for (int64_t i = 0; i < y->s->own; i++) put_lane(y, h, i);
    exchange(y);
    if (y->status == DT_OK && !is_together(y, h)) {
        y->status = dt_fail(y->r->ctx, DT_ERR_STATE, "ranks are at different batch norms");
    }
    for (int64_t c = 0; c < n && y->status == DT_OK; c++) {
        const moments m = node_of(y, whole, c, backward);
        y->sums[c] = m.x;
        y->sums[n + c] = m.y;
        count = m.n;
    }
    if (y->status == DT_OK && n > 0 && count < 2) {
        y->status = dt_fail(
            y->r->ctx, DT_ERR_SHAPE,
            "batch norm: %g values a channel in all shards; training requires at least 2", count);
    }
    for (int64_t i = 0; i < y->s->own; i++) {
        dt__norm_sums *to = y->lanes[i].sums;
        if (y->lanes[i].state != LANE_AT_NORM) continue;
        const bool ok = y->status == DT_OK;
        to->all_count = ok ? count : to->count;
        memcpy(to->all, ok ? y->sums : to->own, (size_t)(2 * n) * sizeof(double));
    }
}

/* After all shards of this rank have ended: takes part without sums until the others' have. */
static void end_exchanges(sync_of *y)
{
    head *h = (head *)(void *)y->mine;
    for (bool all = false; !all && y->status == DT_OK;) {
        memset(y->mine, 0, y->message);
        *h = (head){ .sequence = -1 };
        exchange(y);
        all = true;
        for (int k = 0; k < dt__cluster_ranks(y->s->cluster); k++) {
            all = all && head_of(y, k)->sequence < 0;
        }
    }
}

/* ---- taking turns ---------------------------------------------------------------------------- */

static void pass_turn(sync_of *y, int64_t to)
{
    pthread_mutex_lock(&y->mutex);
    y->turn = to;
    pthread_cond_broadcast(&y->passed);
    pthread_mutex_unlock(&y->mutex);
}

static void wait_for_turn(sync_of *y, int64_t of)
{
    pthread_mutex_lock(&y->mutex);
    while (y->turn != of) pthread_cond_wait(&y->passed, &y->mutex);
    pthread_mutex_unlock(&y->mutex);
}

/* Called by the tape at each norm, on the lane's thread. */
static void at_norm(void *user, dt__norm_sums *sums)
{
    lane *l = user;
    l->sums = sums;
    l->state = LANE_AT_NORM;
    if (l->of->s->own == 1) {
        add_up(l->of, sums);
    } else {
        pass_turn(l->of, NOBODY);
        wait_for_turn(l->of, l->index);
    }
    l->state = LANE_RUNS;
}

static dt_status run_leaf(lane *l)
{
    const sync_of *y = l->of;
    const int64_t shard = dt__cluster_rank(y->s->cluster) * y->s->own + l->index;
    return dt__shards_leaf(y->r, y->p, shard, &l->node);
}

static void *run_lane(void *user)
{
    lane *l = user;
    wait_for_turn(l->of, l->index);
    l->status = run_leaf(l);
    l->state = LANE_DONE;
    pass_turn(l->of, NOBODY);
    return NULL;
}

/* Loads the lane's state into run and model. */
static void load(lane *l)
{
    sync_of *y = l->of;
    dt__run *r = y->r;
    const char *from = l->buffers;
    r->stage.tape = l->tape;
    r->stage.loader = l->loader;
    memcpy(r->stage.part, l->part, sizeof r->stage.part);
    memcpy(r->ctx->stream, l->stream, sizeof l->stream);
    for (int64_t i = 0; i < y->s->n_params; i++) y->s->param[i]->grad = l->grad[i];
    for (int64_t i = 0; i < y->n_buffers; i++) {
        dt_tensor *x = y->buffer[i];
        const size_t bytes = dt__bytes_of(x);
        if (bytes > 0) memcpy(dt__values_mut(x), from, bytes);
        x->storage->version = l->version[i];
        from += bytes;
    }
}

/* Stores the state of run and model in the lane. */
static void store(lane *l)
{
    sync_of *y = l->of;
    char *to = l->buffers;
    memcpy(l->stream, y->r->ctx->stream, sizeof l->stream);
    for (int64_t i = 0; i < y->s->n_params; i++) {
        l->grad[i] = y->s->param[i]->grad;
        y->s->param[i]->grad = NULL;
    }
    for (int64_t i = 0; i < y->n_buffers; i++) {
        const dt_tensor *x = y->buffer[i];
        const size_t bytes = dt__bytes_of(x);
        if (bytes > 0) memcpy(to, dt__values(x), bytes);
        l->version[i] = x->storage->version;
        to += bytes;
    }
}

static void run_until_norm(lane *l)
{
    load(l);
    pass_turn(l->of, l->index);
    wait_for_turn(l->of, NOBODY);
    store(l);
}

/* Runs all lanes to the end. */
static void run_in_step(sync_of *y)
{
    for (;;) {
        const dt__norm_sums *like = NULL;
        for (int64_t i = 0; i < y->s->own; i++) {
            if (y->lanes[i].state != LANE_DONE) run_until_norm(&y->lanes[i]);
            if (y->lanes[i].state == LANE_AT_NORM) like = y->lanes[i].sums;
        }
        if (like == NULL) return;
        add_up(y, like);
    }
}

/* Starts a thread for each lane, with all signals blocked. */
static int64_t start_threads(sync_of *y)
{
    sigset_t all, before;
    int64_t n = 0;
    sigfillset(&all);
    y->turn = NOBODY;
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (n < y->s->own &&
           pthread_create(&y->lanes[n].thread, NULL, run_lane, &y->lanes[n]) == 0) {
        n++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    for (int64_t i = n; i < y->s->own; i++) {
        y->lanes[i].state = LANE_DONE;
        y->lanes[i].status = dt_fail(y->r->ctx, DT_ERR_STATE,
                                     "the system refuses a thread for a "
                                     "shard");
    }
    return n;
}

/* Runs each lane without the others; the model keeps the buffers of the last. */
static void run_lanes(sync_of *y)
{
    const lane *first = &y->lanes[0];
    const int64_t own = y->s->own;
    for (int64_t i = 0; i < own; i++) store(&y->lanes[i]);
    const int64_t n = start_threads(y);
    run_in_step(y);
    for (int64_t i = 0; i < n; i++) pthread_join(y->lanes[i].thread, NULL);
    load(&y->lanes[own - 1]);
    y->r->stage.tape = first->tape;
    y->r->stage.loader = first->loader;
    memcpy(y->r->stage.part, first->part, sizeof first->part);
    for (int64_t k = 0; k < y->n_buffers; k++) { /* larger than any id that a lane used */
        uint64_t most = 0;
        for (int64_t i = 0; i < own; i++) {
            if (y->lanes[i].version[k] > most) most = y->lanes[i].version[k];
        }
        y->buffer[k]->storage->version = most + 1;
    }
}

dt_status dt__sync_leaves(dt__run *r, const dt__batch_range *p)
{
    sync_of *y = r->ranks.shards->sync;
    const bool watching = r->stage.tape->watching;
    y->p = p;
    y->sequence = 0;
    y->status = DT_OK;
    y->lanes[0].tape = r->stage.tape;
    y->lanes[0].loader = r->stage.loader;
    memcpy(y->lanes[0].part, r->stage.part, sizeof r->stage.part);
    for (int64_t i = 0; i < y->s->own; i++) {
        lane *l = &y->lanes[i];
        l->state = LANE_RUNS;
        l->status = DT_OK;
        l->tape->add_norms = at_norm;
        l->tape->add_norms_user = l;
        l->tape->watching = watching;
    }
    if (y->s->own > 1) run_lanes(y);
    else y->lanes[0].status = run_leaf(&y->lanes[0]);
    y->lanes[0].state = LANE_DONE;
    end_exchanges(y);
    for (int64_t i = 0; i < y->s->own; i++) {
        y->lanes[i].tape->add_norms = NULL;
        dt_tape_reset(y->lanes[i].tape);
        if (y->status == DT_OK) y->status = y->lanes[i].status;
    }
    return y->status;
}

dt_status dt__sync_take(dt__shards *s, int64_t i, dt__gradients *to)
{
    dt__gradients *from = &s->sync->lanes[i].node;
    for (int64_t k = 0; k < s->n_params; k++) {
        to->x[k] = from->x[k];
        to->data[k] = from->data[k];
        from->x[k] = NULL;
    }
    return DT_OK;
}

/* ---- making and freeing ---------------------------------------------------------------------- */

static dt_status add_buffers(sync_of *y)
{
    DT__EACH_ENTRY(m, e, y->r->stage.model) {
        if (e->kind != DT_BUFFER || e->x->kind != NULL || e->x->storage == NULL) continue;
        DT__TRY(DT__RESERVE(y->r->ctx, y->buffer, y->n_buffers, y->room_buffers));
        y->buffer[y->n_buffers++] = e->x;
        y->bytes += dt__bytes_of(e->x);
    }
    return DT_OK;
}

static void remove_buffer(sync_of *y, const dt_tensor *x)
{
    for (int64_t i = 0; i < y->n_buffers && x != NULL; i++) {
        if (y->buffer[i] != x) continue;
        y->bytes -= dt__bytes_of(x);
        y->buffer[i--] = y->buffer[--y->n_buffers];
    }
}

/* Removes ranges of weights, which do not depend on examples: the first shard that reads a weight
 * initializes its range for all. */
static void remove_ranges(sync_of *y)
{
    DT__EACH_MODULE(m, y->r->stage.model) {
        const dt__quantizer *q = dt__quantizer_of(m);
        if (q == NULL || q->quant.activation) continue;
        const dt_tensor *const all[] = { q->scale, q->zero_point, q->count };
        for (int i = 0; i < DT__COUNT_OF(all); i++) remove_buffer(y, all[i]);
    }
}

/* Lane 0 uses tape, loader and other parts of the run; other lanes get their own. */
static dt_status make_own(dt__run *r, lane *l)
{
    dt_loader *const loader = r->stage.loader;
    DT__TRY(dt_tape_create(r->ctx, &l->tape));
    for (int i = 0; i < DT__PARTS; i++) {
        DT__TRY(dt_tensor_create(r->ctx, DT_F32, 0, NULL, &l->part[i]));
    }
    const dt_status status = dt__run_loader(r);
    l->loader = status == DT_OK ? r->stage.loader : NULL;
    r->stage.loader = loader;
    return status;
}

static dt_status make_lane(sync_of *y, int64_t i)
{
    lane *l = &y->lanes[i];
    dt_ctx *ctx = y->r->ctx;
    l->of = y;
    l->index = i;
    l->grad = dt__alloc_zero(ctx, (size_t)y->s->n_params * sizeof(dt_tensor *));
    l->buffers = dt__alloc(ctx, y->bytes);
    l->version = dt__alloc_array(ctx, y->n_buffers, sizeof *l->version);
    if (l->grad == NULL || l->buffers == NULL || l->version == NULL) return DT_ERR_NOMEM;
    DT__TRY(dt__gradients_make(y->s, &l->node));
    return i == 0 ? DT_OK : make_own(y->r, l);
}

static dt_status make(sync_of *y)
{
    dt_ctx *ctx = y->r->ctx;
    const int64_t own = y->s->own, ranks = dt__cluster_ranks(y->s->cluster);
    const head most = { .channels = y->channels };
    DT__TRY(add_buffers(y));
    remove_ranges(y);
    y->message = bytes_of(&most, own);
    y->mine = dt__alloc(ctx, y->message);
    y->all = dt__alloc_array(ctx, ranks, y->message);
    y->sums = dt__alloc_array(ctx, 2 * y->channels, sizeof *y->sums);
    y->lanes = dt__alloc_zero(ctx, (size_t)own * sizeof *y->lanes);
    if (y->mine == NULL || y->all == NULL || y->sums == NULL || y->lanes == NULL) {
        return DT_ERR_NOMEM;
    }
    for (int64_t i = 0; i < own; i++) DT__TRY(make_lane(y, i));
    return DT_OK;
}

dt_status dt__sync_open(dt__run *r, dt__shards *s)
{
    int64_t channels = 0;
    for (int64_t i = 0; i < s->n_merged; i++) {
        if (s->merged[i].how != DT__MERGE_MEAN) continue;
        channels = dt__max_i64(channels, s->merged[i].x->count);
    }
    if (!r->o->cluster.sync_norm || channels == 0) return DT_OK;
    s->sync = dt__alloc_zero(r->ctx, sizeof *s->sync);
    if (s->sync == NULL) return DT_ERR_NOMEM;
    s->sync->r = r;
    s->sync->s = s;
    s->sync->channels = channels;
    pthread_mutex_init(&s->sync->mutex, NULL);
    pthread_cond_init(&s->sync->passed, NULL);
    return make(s->sync);
}

static void free_lane(const sync_of *y, lane *l)
{
    dt_ctx *ctx = y->s->ctx;
    DT__RELEASE(ctx, l->grad, l->buffers, l->version);
    dt__gradients_forget(y->s, &l->node);
    if (l->index == 0) return;
    dt_tape_free(l->tape);
    dt_loader_free(l->loader);
    for (int i = 0; i < DT__PARTS; i++) dt_tensor_free(l->part[i]);
}

void dt__sync_close(dt__shards *s)
{
    sync_of *y = s->sync;
    if (y == NULL) return;
    for (int64_t i = 0; i < s->own && y->lanes != NULL; i++) free_lane(y, &y->lanes[i]);
    void *const lists[] = { y->lanes, y->buffer, y->mine, y->all, y->sums };
    for (int i = 0; i < DT__COUNT_OF(lists); i++) dt__release(s->ctx, lists[i]);
    pthread_mutex_destroy(&y->mutex);
    pthread_cond_destroy(&y->passed);
    dt__release(s->ctx, y);
    s->sync = NULL;
}

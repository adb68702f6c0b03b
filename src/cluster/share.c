/* Blocking messages: what each rank has to all or to one; what rank 0 has to the others; whether
 * all ranks succeeded. */
#include "cluster/cluster.h"

#include <stdio.h>
#include <string.h>

#define PIECE ((size_t)1 << 30) /* bytes of a message */

typedef struct sharing {
    const char *what;
    const char *own; /* NULL: nothing to send */
    char *all;
    size_t bytes;
    int rank, from; /* from -1: each rank sends */
} sharing;

static void pieces(void *user, int k, dt__message *send, dt__message *receive)
{
    const sharing *s = user;
    const bool sends = s->from < 0 || s->rank == s->from;
    const bool receives = s->from < 0 || k == s->from;
    if (sends) *send = (dt__message){ .data = (char *)(uintptr_t)s->own, .bytes = s->bytes };
    if (!receives) return;
    char *at = s->all + (s->from < 0 ? (size_t)k * s->bytes : 0);
    *receive = (dt__message){ .data = at, .bytes = s->bytes };
}

static bool run(dt__cluster *c, void *user)
{
    sharing *s = user;
    const dt__exchange x = { s->what, s->from >= 0, pieces, s };
    return dt__cluster_exchange(c, &x);
}

static dt_status do_now(dt__cluster *c, bool (*work)(dt__cluster *c, void *user), void *user)
{
    dt__cluster_job job = { .run = work, .user = user };
    dt__cluster_post(c, &job);
    return dt__cluster_wait(c, &job);
}

static dt_status share(dt__cluster *c, sharing *s) { return do_now(c, run, s); }

dt_status dt__ranks_gather(dt__cluster *c, const char *what, const void *own, size_t bytes,
                           void *all)
{
    sharing s = { what, own, all, bytes, c->rank, -1 };
    memcpy((char *)all + (size_t)c->rank * bytes, own, bytes);
    return share(c, &s);
}

dt_status dt__ranks_tell(dt__cluster *c, const char *what, void *data, size_t bytes)
{
    char *at = data;
    for (size_t n; bytes > 0; bytes -= n, at += n) {
        n = bytes < PIECE ? bytes : PIECE;
        sharing s = { what, at, at, n, c->rank, 0 };
        DT__TRY(share(c, &s));
    }
    return DT_OK;
}

/* A transfer of at most PIECE bytes of each part, from `at` on. */
typedef struct part_sharing {
    const char *what;
    const dt__segment *part;
    size_t at;
    int rank, to;
} part_sharing;

static dt__message cut(const dt__segment *whole, size_t at)
{
    if (at >= whole->bytes) return (dt__message){ 0 };
    const size_t left = whole->bytes - at;
    return (dt__message){ .data = (char *)whole->data + at, .bytes = left < PIECE ? left : PIECE };
}

static void part_pieces(void *user, int k, dt__message *send, dt__message *receive)
{
    const part_sharing *s = user;
    if (s->to < 0 || s->to == k) *send = cut(&s->part[s->rank], s->at);
    if (s->to < 0 || s->to == s->rank) *receive = cut(&s->part[k], s->at);
}

static bool run_parts(dt__cluster *c, void *user)
{
    part_sharing *s = user;
    const dt__exchange x = { s->what, false, part_pieces, s };
    return dt__cluster_exchange(c, &x);
}

dt_status dt__ranks_gather_parts(dt__cluster *c, const char *what, const dt__segment *part, int to)
{
    size_t most = 0;
    part_sharing s = { what, part, 0, c->rank, to };
    for (int k = 0; k < c->ranks; k++) {
        const bool moves = to < 0 || to == s.rank || k == s.rank;
        if (moves && part[k].bytes > most) most = part[k].bytes;
    }
    for (; s.at < most; s.at += PIECE) DT__TRY(do_now(c, run_parts, &s));
    return DT_OK;
}

typedef struct outcome {
    int32_t status, last;
    char message[DT__MESSAGE_SIZE];
} outcome;

static bool run_meeting(dt__cluster *c, void *user)
{
    const dt__exchange x = { "how the work went", true, pieces, user };
    return dt__cluster_exchange(c, &x);
}

static dt_status conclude(dt__cluster *c, const outcome *all)
{
    const int own = c->rank, ranks = c->ranks;
    int first = ranks;
    for (int k = ranks - 1; k >= 0; k--) {
        if (all[k].status == DT_OK) continue;
        first = k;
        if (all[k].last) c->has_ended = true;
    }
    if (first == ranks) return DT_OK;
    if (all[own].status != DT_OK) return (dt_status)all[own].status;
    const outcome *o = &all[first];
    const dt_status status = (dt_status)o->status;
    if (first == 0) return dt_fail(c->ctx, status, "%s", o->message);
    return dt_fail(c->ctx, status, "rank %d: %s", first, o->message);
}

static dt_status tell_outcome(dt__cluster *c, outcome *all)
{
    const int rank = c->rank;
    sharing s = { NULL, (char *)&all[rank], (char *)all, sizeof *all, rank, -1 };
    DT__TRY(do_now(c, run_meeting, &s));
    return conclude(c, all);
}

dt_status dt__ranks_meet(dt__cluster *c, dt__meeting which, dt_status status)
{
    if (c->has_ended) return status;
    dt_ctx *ctx = c->ctx;
    outcome *all = dt__alloc_array(ctx, c->ranks, sizeof *all);
    if (all == NULL) return DT_ERR_NOMEM;
    outcome *own = &all[c->rank];
    *own = (outcome){ .status = (int32_t)status, .last = which == DT__LAST_MEETING };
    if (status != DT_OK) snprintf(own->message, sizeof own->message, "%s", dt_error(ctx));
    status = tell_outcome(c, all);
    dt__release(ctx, all);
    return status;
}

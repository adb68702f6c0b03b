/* The reduction of a bucket by ranks. Rank k has slice k: its range of each span.
 *     each rank sends slice k of its parts to rank k          (reduce-scatter)
 *     rank k adds the parts of all ranks in the tree, in f32
 *     and sends the sum to all                                (all-gather)
 * A rank sends 2 (P-1)/P of the bucket's bytes if P divides the tree evenly. */
#include "cluster/cluster.h"

#include <stdio.h>
#include <string.h>

/* A bucket while its job runs. */
typedef struct run_of {
    const dt__bucket *b;
    int rank, ranks;
    int64_t own;  /* shards of each rank */
    int64_t size; /* elements of this rank's slice */
    bool gathers;
    dt__segment *next; /* the next free segment */
} run_of;

static int parts_of(const run_of *r, int k)
{
    return dt__parts_of_rank(k, r->b->of->plan.shards, r->own);
}

/* The first of the parts that rank k sent. */
static float *received_from(const run_of *r, int k)
{
    int64_t before = 0;
    for (int i = 0; i < k; i++) before += i == r->rank ? 0 : parts_of(r, i);
    return r->b->of->received + before * r->size;
}

/* Lists slice k of the first n parts of this rank, in place, as segments. */
static dt__message slices(run_of *r, int k, int n)
{
    const dt__bucket *b = r->b;
    dt__message m = { .segment = r->next };
    for (int part = 0; part < n; part++) {
        for (int i = 0; i < b->n_spans; i++) {
            const dt__bucket_piece p = dt__bucket_piece_of(b, i, k);
            if (p.n == 0) continue;
            const size_t bytes = (size_t)p.n * sizeof(float);
            r->next[m.n_segments++] =
                (dt__segment){ b->of->plan.part[part][p.tensor] + p.from, bytes };
            m.bytes += bytes;
        }
    }
    r->next += m.n_segments;
    if (m.n_segments != 1) return m;
    return (dt__message){ .data = m.segment->data, .bytes = m.bytes };
}

static void pieces(void *user, int k, dt__message *send, dt__message *receive)
{
    run_of *r = user;
    if (r->gathers) {
        *send = slices(r, r->rank, 1);
        *receive = slices(r, k, 1);
        return;
    }
    *send = slices(r, k, parts_of(r, r->rank));
    const size_t bytes = (size_t)(parts_of(r, k) * r->size) * sizeof(float);
    *receive = (dt__message){ .data = received_from(r, k), .bytes = bytes };
}

/* Iterates over the parts, in the order of shards, of a piece of this rank's slice. */
typedef struct place {
    const run_of *r;
    dt__bucket_piece piece;
    int64_t at; /* position of the piece in the slice */
    int rank, part;
} place;

static float *own_part(const place *p, int part)
{
    return p->r->b->of->plan.part[part][p->piece.tensor] + p->piece.from;
}

static float *next_part(place *p)
{
    const run_of *r = p->r;
    float *x = p->rank == r->rank ? own_part(p, p->part)
                                  : received_from(r, p->rank) + p->part * r->size + p->at;
    if (++p->part == parts_of(r, p->rank)) {
        p->rank++;
        p->part = 0;
    }
    return x;
}

/* Computes node [a, b) into `to`; NULL: in place of its first part. */
static float *add_up(place *p, int64_t a, int64_t b, float *to)
{
    if (dt__is_of_one_rank(a, b, p->r->own)) return next_part(p);
    const int64_t m = dt__middle(a, b), n = p->piece.n;
    float *x = add_up(p, a, m, NULL);
    const float *y = add_up(p, m, b, NULL);
    if (to == NULL) to = x;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) to[i] = x[i] + y[i];
    return to;
}

/* Adds up every piece of the slice into part[0]. */
static void add_pieces(const run_of *r)
{
    int64_t at = 0;
    for (int i = 0; i < r->b->n_spans; i++) {
        place p = { .r = r, .piece = dt__bucket_piece_of(r->b, i, r->rank), .at = at };
        if (p.piece.n == 0) continue;
        float *to = own_part(&p, 0);
        const float *sum = add_up(&p, 0, r->b->of->plan.shards, to);
        if (sum != to) memcpy(to, sum, (size_t)p.piece.n * sizeof *to);
        at += p.piece.n;
    }
}

static bool exchange(dt__cluster *c, run_of *r)
{
    char what[96];
    snprintf(what, sizeof what, "bucket %lld of %s", (long long)r->b->number, r->b->of->plan.what);
    const dt__exchange x = { what, false, pieces, r };
    r->next = r->b->of->segments;
    return dt__cluster_exchange(c, &x);
}

static bool run(dt__cluster *c, void *user)
{
    const dt__bucket *b = user;
    run_of r = { .b = b, .rank = dt__cluster_rank(c), .ranks = dt__cluster_ranks(c) };
    r.own = b->of->plan.shards / r.ranks;
    for (int i = 0; i < b->n_spans; i++) r.size += dt__bucket_piece_of(b, i, r.rank).n;
    if (b->task != DT__BUCKET_GATHER) {
        if (!exchange(c, &r)) return false;
        add_pieces(&r);
    }
    r.gathers = true;
    return b->task == DT__BUCKET_SCATTER || exchange(c, &r);
}

void dt__ranks_bucket_post(dt__bucket *b, dt__bucket_task task)
{
    b->task = task;
    b->job = (dt__cluster_job){ .run = run, .user = b };
    dt__cluster_post(b->of->cluster, &b->job);
}

/* The sum of a bucket over the shards of all ranks. Rank k sums slice k of P:
 *     each rank sends slice k of its parts to rank k          (reduce-scatter)
 *     rank k adds the parts of all ranks in the tree, in f32
 *     and sends the sum to all                                 (all-gather)
 * A rank sends 2 (P-1)/P of the bucket's bytes where P divides the tree evenly. */
#include "cluster/cluster.h"

#include <stdio.h>
#include <string.h>

static int64_t middle(int64_t a, int64_t b) { return a + (b - a) / 2; }

static int count_parts(int64_t a, int64_t b, int64_t own, int k)
{
    const int64_t first = k * own, past = first + own;
    if (b <= first || a >= past) return 0;
    if (dt__is_of_one_rank(a, b, own)) return 1;
    const int64_t m = middle(a, b);
    return count_parts(a, m, own, k) + count_parts(m, b, own, k);
}

int dt__parts_of_rank(int k, int64_t shards, int64_t shards_of_rank)
{
    return count_parts(0, shards, shards_of_rank, k);
}

/* A bucket while its job runs. */
typedef struct run_of {
    dt__bucket *b;
    int rank, ranks;
    int64_t own; /* shards of a rank */
    bool gathers;
    float *staged, *received; /* in b->room */
} run_of;

static int64_t slice(const run_of *r, int k) { return k * r->b->n / r->ranks; }
static int64_t slice_size(const run_of *r, int k) { return slice(r, k + 1) - slice(r, k); }
static int parts_of(const run_of *r, int k) { return dt__parts_of_rank(k, r->b->shards, r->own); }

/* Where the parts of rank k begin among those that were received. */
static float *received_from(const run_of *r, int k)
{
    int64_t before = 0;
    for (int i = 0; i < k; i++) before += i == r->rank ? 0 : parts_of(r, i);
    return r->received + before * slice_size(r, r->rank);
}

static dt__message piece(float *x, int64_t n) { return (dt__message){ x, (size_t)n * sizeof *x }; }

/* Slice k of all parts in one message: copied together where there are several. */
static float *outgoing(const run_of *r, int k)
{
    const dt__bucket *b = r->b;
    const int n = parts_of(r, r->rank);
    const int64_t size = slice_size(r, k);
    float *to = r->staged + slice(r, k) * n;
    if (n == 1) return b->part[0] + b->first + slice(r, k);
    for (int i = 0; i < n; i++) {
        memcpy(to + i * size, b->part[i] + b->first + slice(r, k), (size_t)size * sizeof *to);
    }
    return to;
}

static void pieces(void *user, int k, dt__message *send, dt__message *receive)
{
    const run_of *r = user;
    float *whole = r->b->part[0] + r->b->first;
    if (r->gathers) {
        *send = piece(whole + slice(r, r->rank), slice_size(r, r->rank));
        *receive = piece(whole + slice(r, k), slice_size(r, k));
    } else {
        *send = piece(outgoing(r, k), parts_of(r, r->rank) * slice_size(r, k));
        *receive = piece(received_from(r, k), parts_of(r, k) * slice_size(r, r->rank));
    }
}

/* The next part in the order of shards. */
typedef struct place {
    int rank, part;
} place;

static float *next_part(const run_of *r, place *p)
{
    const int64_t size = slice_size(r, r->rank);
    float *x = p->rank == r->rank ? r->b->part[p->part] + r->b->first + slice(r, r->rank)
                                  : received_from(r, p->rank) + p->part * size;
    if (++p->part == parts_of(r, p->rank)) *p = (place){ p->rank + 1, 0 };
    return x;
}

static float *add_up(const run_of *r, int64_t a, int64_t b, place *p)
{
    if (dt__is_of_one_rank(a, b, r->own)) return next_part(r, p);
    const int64_t m = middle(a, b), n = slice_size(r, r->rank);
    float *x = add_up(r, a, m, p);
    const float *y = add_up(r, m, b, p);
    for (int64_t i = 0; i < n; i++) x[i] += y[i];
    return x;
}

static bool run(dt__cluster *c, void *user)
{
    dt__bucket *b = user;
    char what[64];
    run_of r = { .b = b, .rank = dt__cluster_rank(c), .ranks = dt__cluster_ranks(c) };
    snprintf(what, sizeof what, "bucket %lld of the gradient", (long long)b->number);
    const dt__exchange x = { what, false, pieces, &r };
    r.own = b->shards / r.ranks;
    const int parts = parts_of(&r, r.rank);
    r.staged = b->room;
    r.received = b->room + (parts > 1 ? parts * b->n : 0);
    if (!dt__cluster_exchange(c, &x)) return false;
    place p = { 0, 0 };
    float *own = b->part[0] + b->first + slice(&r, r.rank);
    const float *sum = add_up(&r, 0, b->shards, &p);
    if (sum != own) memcpy(own, sum, (size_t)slice_size(&r, r.rank) * sizeof *own);
    r.gathers = true;
    return dt__cluster_exchange(c, &x);
}

int64_t dt__bucket_room(const dt__cluster *c, int64_t shards, int64_t n)
{
    const int ranks = dt__cluster_ranks(c);
    const int64_t own = shards / ranks;
    const int parts = dt__parts_of_rank(dt__cluster_rank(c), shards, own);
    int64_t all = 0;
    for (int k = 0; k < ranks; k++) all += dt__parts_of_rank(k, shards, own);
    return (parts > 1 ? parts * n : 0) + all * (n / ranks + 1);
}

void dt__bucket_post(dt__cluster *c, dt__bucket *b)
{
    b->job = (dt__cluster_job){ .run = run, .user = b };
    dt__cluster_post(c, &b->job);
}

/* How tensors are cut into buckets. A bucket is not a range of a flat buffer: gradients and
 * parameters stay in place, and messages are lists of their pieces. A tensor is cut by ranks first,
 * so that a rank has one range of each; large tensors are then cut into several buckets, with a
 * part of each rank's range in each, so that every bucket gives every rank the same work. */
#include "cluster/cluster.h"

#define APART 16 /* a range is cut at multiples of so many elements, 64 bytes */

dt__bucket_piece dt__bucket_piece_of(const dt__bucket *b, int i, int k)
{
    const dt__buckets *of = b->of;
    const dt__bucket_span *s = &of->span[b->first + i];
    int64_t range[2];
    dt__range_of_rank(&of->plan.tensors[s->tensor], k, dt__cluster_ranks(of->cluster), range);
    const int64_t units = dt__ceil_div(range[1] - range[0], APART);
    const int64_t from = range[0] + units * s->i / s->n * APART;
    const int64_t past = range[0] + units * (s->i + 1) / s->n * APART;
    return (dt__bucket_piece){ s->tensor, from, dt__min_i64(past, range[1]) - from };
}

static int most_parts(const dt__buckets *b)
{
    const int ranks = dt__cluster_ranks(b->cluster);
    int most = 1;
    for (int k = 0; k < ranks; k++) {
        const int n = dt__parts_of_rank(k, b->plan.shards, b->plan.shards / ranks);
        if (n > most) most = n;
    }
    return most;
}

/* The bucket that is being filled. */
typedef struct filling {
    dt__buckets *b;
    int64_t left; /* elements */
    int spans;    /* largest number of spans in a bucket */
} filling;

static dt_status open_bucket(filling *f)
{
    dt__buckets *b = f->b;
    DT__TRY(DT__RESERVE(b->ctx, b->bucket, b->n, b->room));
    b->bucket[b->n] = (dt__bucket){ .of = b, .number = b->n, .first = b->n_spans };
    f->left = b->n == 0 ? b->plan.first : b->plan.most;
    b->n++;
    return DT_OK;
}

static dt_status add_span(filling *f, const dt__bucket_span *s, int64_t elements)
{
    dt__buckets *b = f->b;
    dt__bucket *last = b->n == 0 ? NULL : &b->bucket[b->n - 1];
    const bool full =
        last != NULL && last->n_spans > 0 && (elements > f->left || last->n_spans == f->spans);
    if (last == NULL || full) DT__TRY(open_bucket(f));
    last = &b->bucket[b->n - 1];
    DT__TRY(DT__RESERVE(b->ctx, b->span, b->n_spans, b->room_spans));
    b->span[b->n_spans++] = *s;
    last->n_spans++;
    last->past = s->tensor + 1;
    f->left -= elements;
    return DT_OK;
}

static dt_status cut(dt__buckets *b)
{
    filling f = { .b = b, .spans = DT__MOST_SEGMENTS / most_parts(b) };
    for (int64_t t = 0; t < b->plan.n_tensors; t++) {
        const int64_t count = b->plan.tensors[t].count;
        const int64_t n = dt__max_i64(1, dt__ceil_div(count, b->plan.most));
        for (int64_t i = 0; i < n; i++) {
            DT__TRY(add_span(&f, &(dt__bucket_span){ t, i, n }, dt__ceil_div(count, n)));
        }
    }
    return DT_OK;
}

static int64_t slice_of(const dt__bucket *b, int k)
{
    int64_t n = 0;
    for (int i = 0; i < b->n_spans; i++) n += dt__bucket_piece_of(b, i, k).n;
    return n;
}

/* Allocates the parts of other ranks, and the segments of two messages with each. */
static dt_status make_room(dt__buckets *b)
{
    const int ranks = dt__cluster_ranks(b->cluster), rank = dt__cluster_rank(b->cluster);
    int64_t elements = 0, spans = 0, parts = 0;
    for (int k = 0; k < ranks; k++) {
        parts += dt__parts_of_rank(k, b->plan.shards, b->plan.shards / ranks);
    }
    for (int64_t i = 0; i < b->n; i++) {
        elements = dt__max_i64(elements, slice_of(&b->bucket[i], rank));
        spans = dt__max_i64(spans, b->bucket[i].n_spans);
    }
    b->received = dt__alloc_array(b->ctx, parts * elements, sizeof *b->received);
    b->segments = dt__alloc_array(b->ctx, 2 * ranks * spans * most_parts(b), sizeof *b->segments);
    return b->received != NULL && b->segments != NULL ? DT_OK : DT_ERR_NOMEM;
}

dt_status dt__ranks_buckets_make(dt__buckets *b)
{
    DT__TRY(cut(b));
    return make_room(b);
}

void dt__ranks_buckets_free(dt__buckets *b)
{
    DT__RELEASE(b->ctx, b->bucket, b->span, b->received, b->segments);
    *b = (dt__buckets){ .ctx = b->ctx };
}

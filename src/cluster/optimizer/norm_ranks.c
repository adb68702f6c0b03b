/* The norm of the gradient where each rank has a part of it: ranges of parameters (shared), or
 * experts (spread). A rank sends the partial sums of squares of the chunks that lie within its
 * part, and the elements of chunks that span several parts. So all ranks add up the same partial
 * sums as one rank would, in the same order. */
#include "cluster/optimizer/ranks_of_optimizer.h"

#include "kernels/kernels.h"

#include <string.h>

/* A range [a, b) of a parameter: chunks first ... past - 1 lie within it; [a, head) and [tail, b)
 * belong to chunks that are partly outside. */
typedef struct chunks {
    int64_t a, b, first, past, head, tail;
} chunks;

static chunks chunks_of(const dt_optimizer *o, const dt__slot *s, int rank)
{
    int64_t range[2];
    dt__slot_range(o, s, rank, range);
    const int64_t n = dt__whole_count(s->p), a = range[0], b = range[1];
    chunks c = { .a = a, .b = b, .first = dt__ceil_div(a, DT__CHUNK) };
    c.past = b == n ? dt__ceil_div(n, DT__CHUNK) : b / DT__CHUNK;
    c.head = dt__min_i64(b, c.first * DT__CHUNK);
    c.tail = b == n || c.past < c.first ? b : c.past * DT__CHUNK;
    c.past = dt__max_i64(c.first, c.past);
    return c;
}

/* Whether the slot's gradient is divided among ranks. */
static bool is_divided(const dt_optimizer *o, const dt__slot *s)
{
    return s->p->grad != NULL && (o->shared || s->experts > 0);
}

/* What a rank sends: partial sums, then elements. */
typedef struct sent {
    double *sum;
    float *element;
    int64_t sums, elements;
} sent;

static sent count(const dt_optimizer *o, int rank)
{
    sent n = { 0 };
    for (int64_t i = 0; i < o->n; i++) {
        if (!is_divided(o, &o->slots[i])) continue;
        const chunks c = chunks_of(o, &o->slots[i], rank);
        n.sums += c.past - c.first;
        n.elements += c.head - c.a + c.b - c.tail;
    }
    return n;
}

static size_t bytes_of(const sent *p)
{
    return (size_t)p->sums * sizeof(double) + (size_t)p->elements * sizeof(float);
}

static float *put(float *to, const float *from, int64_t n)
{
    if (n > 0) memcpy(to, from, (size_t)n * sizeof *to);
    return to + n;
}

/* Collects what this rank sends. */
static void fill(const dt_optimizer *o, sent to)
{
    for (int64_t i = 0; i < o->n; i++) {
        const dt__slot *s = &o->slots[i];
        if (!is_divided(o, s)) continue;
        const chunks c = chunks_of(o, s, dt__cluster_rank(o->cluster));
        const float *g = (const float *)dt__values(s->p->grad) + dt__slot_first(s);
        const int64_t from = c.first * DT__CHUNK, past = dt__min_i64(c.b, c.past * DT__CHUNK);
        if (past > from) {
            dt__kernels_of(o->ctx, DT_F32)->sum_squares(past - from, g + (from - c.a), to.sum);
        }
        to.sum += c.past - c.first;
        to.element = put(to.element, g, c.head - c.a);
        to.element = put(to.element, g + (c.tail - c.a), c.b - c.tail);
    }
}

/* A chunk whose elements come from several ranks, in order. */
typedef struct joint {
    const dt_optimizer *o;
    float *element; /* [DT__CHUNK] */
    int64_t n, count;
    double *partial; /* the parameter's partial sums */
} joint;

/* Appends elements first ... past - 1 of the parameter, from *from, to the chunk. */
static void join(joint *j, int64_t first, int64_t past, const float **from)
{
    const int64_t n = past - first;
    if (n == 0) return;
    memcpy(j->element + j->n, *from, (size_t)n * sizeof **from);
    *from += n;
    j->n += n;
    if (past % DT__CHUNK != 0 && past != j->count) return;
    dt__kernels_of(j->o->ctx, DT_F32)
        ->sum_squares(j->n, j->element, j->partial + (past - 1) / DT__CHUNK);
    j->n = 0;
}

/* Pops this slot's partial sums from each rank's receive buffer. */
static void place(const dt_optimizer *o, const dt__slot *s, sent *all, joint *j)
{
    j->n = 0;
    j->count = dt__whole_count(s->p);
    for (int k = 0; k < dt__cluster_ranks(o->cluster); k++) {
        const chunks c = chunks_of(o, s, k);
        const int64_t n = c.past - c.first;
        const float *from = all[k].element;
        join(j, c.a, c.head, &from);
        if (n > 0) memcpy(j->partial + c.first, all[k].sum, (size_t)n * sizeof(double));
        join(j, c.tail, c.b, &from);
        all[k].sum += n;
        all[k].element += c.head - c.a + c.b - c.tail;
    }
}

static void place_all(const dt_optimizer *o, sent *all, joint *j)
{
    for (int64_t i = 0; i < o->n; i++) {
        const dt__slot *s = &o->slots[i];
        const dt_tensor *g = s->p->grad;
        if (g == NULL) continue;
        if (is_divided(o, s)) place(o, s, all, j);
        else dt__kernels_of(o->ctx, DT_F32)->sum_squares(g->count, dt__values(g), j->partial);
        j->partial += dt__ceil_div(dt__whole_count(s->p), DT__CHUNK);
    }
}

/* Buffers of the exchange. */
typedef struct work {
    sent *of;          /* [ranks] */
    dt__segment *part; /* [ranks] */
    char *room;
    double *partial;
    float *element;
    int64_t chunks;
} work;

static dt_status make(const dt_optimizer *o, work *w)
{
    const int ranks = dt__cluster_ranks(o->cluster);
    size_t bytes = 0;
    for (int64_t i = 0; i < o->n; i++) {
        if (o->slots[i].p->grad == NULL) continue;
        w->chunks += dt__ceil_div(dt__whole_count(o->slots[i].p), DT__CHUNK);
    }
    w->of = dt__alloc_array(o->ctx, ranks, sizeof *w->of);
    w->part = dt__alloc_array(o->ctx, ranks, sizeof *w->part);
    w->partial = dt__alloc_array(o->ctx, w->chunks, sizeof *w->partial);
    w->element = dt__alloc_array(o->ctx, DT__CHUNK, sizeof *w->element);
    if (w->of == NULL || w->part == NULL || w->partial == NULL || w->element == NULL) {
        return DT_ERR_NOMEM;
    }
    for (int k = 0; k < ranks; k++) {
        w->of[k] = count(o, k);
        bytes += (size_t)dt__round_up((int64_t)bytes_of(&w->of[k]), sizeof(double));
    }
    w->room = dt__alloc(o->ctx, bytes);
    char *at = w->room;
    for (int k = 0; k < ranks && at != NULL; k++) {
        w->part[k] = (dt__segment){ at, bytes_of(&w->of[k]) };
        w->of[k].sum = (double *)(void *)at;
        w->of[k].element = (float *)(void *)(w->of[k].sum + w->of[k].sums);
        at += dt__round_up((int64_t)bytes_of(&w->of[k]), sizeof(double));
    }
    return at == NULL ? DT_ERR_NOMEM : DT_OK;
}

static dt_status find(dt_optimizer *o, work *w, double *norm)
{
    dt__team *const threads = dt__threads_enter(o->ctx);
    fill(o, w->of[dt__cluster_rank(o->cluster)]);
    dt_status s = dt__cluster_gather_parts(o->cluster, "the norm of the gradient", w->part, -1);
    if (s == DT_OK) {
        place_all(o, w->of, &(joint){ .o = o, .element = w->element, .partial = w->partial });
        *norm = dt__norm_of_sums(w->partial, w->chunks);
    }
    dt__threads_leave(threads);
    return s;
}

dt_status dt__norm_of_ranks(dt_optimizer *o, double *norm)
{
    work w = { 0 };
    dt_status s = make(o, &w);
    if (s == DT_OK) s = find(o, &w, norm);
    void *const lists[] = { w.of, w.part, w.room, w.partial, w.element };
    for (int i = 0; i < DT__COUNT_OF(lists); i++) dt__release(o->ctx, lists[i]);
    return s;
}

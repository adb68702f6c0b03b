/* Ranks that share an optimizer. Each rank owns a range of every parameter (dt__range_of_rank), for
 * which it alone has the summed gradient and the state:
 *     every rank updates its ranges by the same in-place ops, on views
 *     and sends them to all; buckets are sent while later parameters are updated
 *     then every rank renews codes and restores constraints, from the same masters
 * Updates are element by element, so the bits are those of one rank. */
#include "cluster/optimizer/ranks_of_optimizer.h"

#include "autograd/tape.h"
#include "autograd/write.h"
#include "kernels/kernels.h"

#include <string.h>

#define FIRST ((int64_t)1 << 18) /* elements of the first bucket */
#define MOST ((int64_t)1 << 20)  /* elements of the others */

/* ---- the exchange of parameters ------------------------------------------------------------- */

static void free_values(dt_optimizer *o)
{
    dt__shared_values *v = &o->values;
    dt__buckets_free(&v->buckets);
    DT__RELEASE(o->ctx, v->tensors, v->value);
    *v = (dt__shared_values){ 0 };
}

static int64_t shared_count(const dt__slot *s)
{
    if (s->experts > 0) return 0; /* no other rank has these experts */
    return s->p->requires_grad || s->step != NULL ? s->p->count : 0;
}

static bool is_current(const dt_optimizer *o)
{
    const dt__shared_values *v = &o->values;
    if (v->tensors == NULL || v->seen != o->seen || v->n != o->n) return false;
    int64_t i = 0;
    while (i < o->n && v->tensors[i].count == shared_count(&o->slots[i])) i++;
    return i == o->n;
}

/* Makes buckets of all trained parameters, and stores the present addresses of their masters. */
static dt_status begin_exchange(dt_optimizer *o)
{
    dt__shared_values *v = &o->values;
    if (!is_current(o)) {
        free_values(o);
        v->buckets.ctx = o->ctx;
        v->tensors = dt__alloc_array(o->ctx, o->n, sizeof *v->tensors);
        v->value = dt__alloc_array(o->ctx, o->n, sizeof *v->value);
        if (v->tensors == NULL || v->value == NULL) return DT_ERR_NOMEM;
        for (int64_t i = 0; i < o->n; i++) {
            v->tensors[i] = (dt__bucket_tensor){ shared_count(&o->slots[i]), o->slots[i].turn };
        }
        v->part = v->value;
        v->n = o->n;
        DT__TRY(dt__buckets_make(o->cluster,
                                 &(dt__buckets_plan){ .what = "the weights",
                                                      .tensors = v->tensors,
                                                      .n_tensors = o->n,
                                                      .shards = dt__cluster_ranks(o->cluster),
                                                      .first = FIRST,
                                                      .most = MOST,
                                                      .part = &v->part },
                                 &v->buckets));
        v->seen = o->seen;
    }
    for (int64_t i = 0; i < o->n; i++) {
        if (v->tensors[i].count == 0) continue;
        v->value[i] = dt__values_mut(dt__kind_of(o->slots[i].p)->inner(o->slots[i].p));
    }
    return DT_OK;
}

/* Posts the buckets whose parameters are all before `past`. */
static void post_until(dt_optimizer *o, int64_t past, int64_t *posted)
{
    dt__buckets *b = &o->values.buckets;
    while (*posted < b->n && b->bucket[*posted].past <= past) {
        dt__bucket_post(&b->bucket[(*posted)++], DT__BUCKET_GATHER);
    }
}

static dt_status end_exchange(dt_optimizer *o, int64_t posted)
{
    const dt__buckets *b = &o->values.buckets;
    post_until(o, o->n, &posted);
    return b->n == 0 ? DT_OK : dt__cluster_wait(o->cluster, &b->bucket[b->n - 1].job);
}

/* ---- a step ---------------------------------------------------------------------------------- */

static void update(const dt_optimizer *o, dt__slot *s, dt_tape *t, dt_parameter_update *u)
{
    const dt_status status = dt__slot_views(s, &u->p, &u->g);
    if (status == DT_OK) dt__slot_update(o, s, t, u);
    else dt__tape_adopt(t, status);
    DT__TENSORS_FREE(u->p, u->g);
}

/* Renews the codes of a parameter that other ranks have written, too. */
static void finish(dt_tensor *p)
{
    dt__write_open(p);
    dt__write_renew(p);
    dt__write_close(p);
    if (p->project != NULL) p->project(p);
}

static dt_status step(dt_optimizer *o, dt_tape *t, double lr, double factor)
{
    int64_t posted = 0;
    dt_status s = begin_exchange(o);
    for (int64_t i = 0; i < o->n && s == DT_OK && t->status == DT_OK; i++) {
        dt__slot *slot = &o->slots[i];
        dt_parameter_update u = { .lr = lr, .factor = factor };
        if (slot->p->grad != NULL && slot->experts > 0) {
            dt__slot_update_whole(o, slot, t, lr, factor);
        } else if (slot->p->grad != NULL) {
            update(o, slot, t, &u);
        }
        if (t->status == DT_OK) post_until(o, i + 1, &posted);
    }
    if (s == DT_OK && t->status == DT_OK) s = end_exchange(o, posted);
    if (s != DT_OK) dt__tape_adopt(t, s);
    for (int64_t i = 0; i < o->n && t->status == DT_OK; i++) {
        const dt__slot *slot = &o->slots[i];
        if (slot->p->grad != NULL && slot->experts == 0) finish(slot->p);
    }
    return t->status;
}

static dt_status swap(dt_tape *t, const dt__slot *s)
{
    dt_tensor *p;
    if (s->experts > 0) return dt__average_swap(t, s->p, s->average);
    const dt_status status = dt__slot_views(s, &p, NULL);
    if (status != DT_OK) return dt__tape_adopt(t, status);
    dt__average_swap(t, p, s->average);
    dt_tensor_free(p);
    return t->status;
}

static dt_status swap_all(dt_optimizer *o, dt_tape *t)
{
    const dt_status begun = begin_exchange(o);
    if (begun != DT_OK) return dt__tape_adopt(t, begun);
    for (int64_t i = 0; i < o->n; i++) {
        if (o->slots[i].average != NULL) DT__TRY(swap(t, &o->slots[i]));
    }
    const dt_status s = end_exchange(o, 0);
    if (s != DT_OK) return dt__tape_adopt(t, s);
    for (int64_t i = 0; i < o->n; i++) {
        if (o->slots[i].average == NULL || o->slots[i].experts > 0) continue;
        dt__write_open(o->slots[i].p);
        dt__write_close(o->slots[i].p);
    }
    return DT_OK;
}

/* ---- what ranks have, for rank 0 ------------------------------------------------------------- */

#define PIECE ((int64_t)1 << 28) /* elements of a message */

/* The request of rank 0: a state by its index; -2 - index of a spread tensor of the module; -1: no
 * more. */
typedef struct wish {
    int64_t number, part[2];
} wish;

enum { NO_MORE = -1, FIRST_TENSOR = -2 };

typedef struct fetching {
    const dt_optimizer *o;
    const dt__slot *s;
    const char *own; /* this rank's range */
    char *to;        /* destination on rank 0 */
    size_t size;     /* bytes of an element */
    wish wish;
    int64_t round; /* number of the message */
} fetching;

/* The elements that rank k sends in this round: *n from the returned one on. */
static int64_t sent_by(const fetching *f, int k, int64_t *from)
{
    int64_t range[2];
    dt__slot_range(f->o, f->s, k, range);
    *from = dt__max_i64(range[0], f->wish.part[0]) + f->round * PIECE;
    return dt__max_i64(0, dt__min_i64(PIECE, dt__min_i64(range[1], f->wish.part[1]) - *from));
}

static void pieces(void *user, int k, dt__message *send, dt__message *receive)
{
    const fetching *f = user;
    const int rank = dt__cluster_rank(f->o->cluster);
    int64_t from;
    if (rank == 0) {
        receive->bytes = (size_t)sent_by(f, k, &from) * f->size;
        if (receive->bytes > 0) receive->data = f->to + (size_t)(from - f->wish.part[0]) * f->size;
    } else if (k == 0) {
        send->bytes = (size_t)sent_by(f, rank, &from) * f->size;
        if (send->bytes > 0) {
            send->data = (char *)(uintptr_t)f->own + (size_t)(from - f->s->range[0]) * f->size;
        }
    }
}

static bool run(dt__cluster *c, void *user)
{
    const dt__exchange x = { "what rank 0 writes", false, pieces, user };
    return dt__cluster_exchange(c, &x);
}

static dt_status exchange(fetching *f)
{
    const int64_t *part = f->wish.part;
    for (; f->round * PIECE < part[1] - part[0]; f->round++) {
        dt__cluster_job job = { .run = run, .user = f };
        dt__cluster_post(f->o->cluster, &job);
        DT__TRY(dt__cluster_wait(f->o->cluster, &job));
    }
    if (dt__cluster_rank(f->o->cluster) > 0) return DT_OK;
    const int64_t from = dt__max_i64(f->s->range[0], part[0]);
    const int64_t n = dt__min_i64(f->s->range[1], part[1]) - from;
    if (n <= 0) return DT_OK;
    memcpy(f->to + (size_t)(from - part[0]) * f->size,
           f->own + (size_t)(from - f->s->range[0]) * f->size, (size_t)n * f->size);
    return DT_OK;
}

static dt_status fetch_state(dt_optimizer *o, const wish *w, void *to)
{
    const dt__slot *s = &o->slots[w->number / DT__STATES];
    const int64_t k = w->number % DT__STATES;
    const dt_tensor *x = k < DT__MOST_STATES ? s->state[k] : s->average;
    fetching f = {
        .o = o, .s = s, .own = dt__values(x), .to = to, .size = sizeof(float), .wish = *w
    };
    return exchange(&f);
}

/* A spread tensor is divided like the slot of a parameter. */
static dt_status fetch_tensor(dt_optimizer *o, const dt_tensor *x, const wish *w, void *to)
{
    dt__slot s = { .p = (dt_tensor *)(uintptr_t)x, .experts = x->spread };
    dt__slot_range(o, &s, dt__cluster_rank(o->cluster), s.range);
    fetching f = { .o = o,
                   .s = &s,
                   .own = dt__values(dt__kind_of(x)->inner(s.p)),
                   .to = to,
                   .size = dt_dtype_size(x->dtype),
                   .wish = *w };
    return exchange(&f);
}

static dt_status tell(dt__cluster *c, wish *w)
{
    return dt__cluster_tell(c, "what rank 0 asks for", w, sizeof *w);
}

static dt_status fetch(dt_optimizer *o, int64_t number, const int64_t part[2], float *to)
{
    wish w = { number, { part[0], part[1] } };
    DT__TRY(tell(o->cluster, &w));
    return fetch_state(o, &w, to);
}

/* The index of x among the spread tensors, in visiting order. */
static int64_t number_of(const dt_optimizer *o, const dt_tensor *x)
{
    int64_t number = 0;
    DT__EACH_ENTRY(m, e, o->m) {
        if (!dt__is_spread(e->x)) continue;
        if (dt__kind_of(e->x)->inner(e->x) == x) return number;
        number++;
    }
    return number;
}

static dt_tensor *spread_of(const dt_optimizer *o, int64_t number)
{
    DT__EACH_ENTRY(m, e, o->m) {
        if (dt__is_spread(e->x) && number-- == 0) return e->x;
    }
    return NULL;
}

static dt_status fetch_spread(dt_optimizer *o, const dt_tensor *x, const int64_t part[2], void *to)
{
    wish w = { FIRST_TENSOR - number_of(o, x), { part[0], part[1] } };
    DT__TRY(tell(o->cluster, &w));
    return fetch_tensor(o, x, &w, to);
}

/* ---- serving --------------------------------------------------------------------------------- */

static dt_status nothing(void *user, const dt__optimizer_state *s)
{
    (void)user;
    (void)s;
    return DT_OK;
}

static dt_status serve(dt_optimizer *o, const wish *w)
{
    if (w->number >= 0 && w->number < o->n * DT__STATES) return fetch_state(o, w, NULL);
    const dt_tensor *x = w->number < 0 ? spread_of(o, FIRST_TENSOR - w->number) : NULL;
    if (x != NULL) return fetch_tensor(o, x, w, NULL);
    return dt_fail(o->ctx, DT_ERR_STATE,
                   "rank 0 requests tensor %lld, which this rank does not have",
                   (long long)w->number);
}

static dt_status serve_rank_0(dt_optimizer *o)
{
    wish w = { 0 };
    DT__TRY(dt__optimizer_visit(o, nothing, NULL)); /* creates missing states, as on rank 0 */
    for (;;) {
        DT__TRY(tell(o->cluster, &w));
        if (w.number == NO_MORE) return DT_OK;
        DT__TRY(serve(o, &w));
    }
}

static dt_status release(dt__cluster *c)
{
    wish w = { .number = NO_MORE };
    return tell(c, &w);
}

const dt__optimizer_hooks dt__ranks_optimizer = {
    .step = step,
    .swap_average = swap_all,
    .free = free_values,
    .norm = dt__norm_of_ranks,
    .serve = serve_rank_0,
    .release = release,
    .fetch = fetch,
    .fetch_tensor = fetch_spread,
};

/* The gradients of grouped_linear by products of integers: an expert is a layer of its own, whose
 * rows of dy are gathered first where they do not lie together. */
#include "ops/grouped_back.h"

#include "ops/back_codes.h"

#include <string.h>

bool dt__grouped_integer_x(const dt__grouped *g)
{
    return g->c->wants[g->x] && dt__back_x(g->c->codes[g->weight]);
}

bool dt__grouped_integer_w(const dt__grouped *g)
{
    return g->c->wants[g->weight] && dt__back_w(g->c->codes[g->x], g->c->codes[g->weight]);
}

static int64_t in_of(const dt__grouped *g) { return g->c->arg[g->weight]->dims[2]; }
static int64_t out_of(const dt__grouped *g) { return g->c->arg[g->weight]->dims[1]; }
static bool is_indexed(const dt__grouped *g) { return g->c->arg[g->index] != NULL; }

/* Parts of the room: rows of dy and of dx by place, scales and zero points of x; then a layer's. */
typedef struct room {
    float *dy, *dx, *sx;
    int32_t *zu;
    void *layer;
    size_t bytes;
} room;

static void *take(room *r, char *base, int64_t count)
{
    const size_t at = r->bytes;
    r->bytes += dt__scratch_part((size_t)count * sizeof(float));
    return base == NULL ? NULL : base + at;
}

static room room_of(const dt__grouped *g, void *base)
{
    room r = { .bytes = 0 };
    const int64_t rows = is_indexed(g) ? g->routing.assignments : 0;
    r.dy = take(&r, base, rows * out_of(g));
    r.dx = take(&r, base, dt__grouped_integer_x(g) ? rows * in_of(g) : 0);
    r.sx = take(&r, base, g->routing.assignments);
    r.zu = take(&r, base, g->routing.assignments);
    r.layer = take(&r, base, 0);
    return r;
}

static dt__q7_layer layer_of(const dt__grouped *g, int64_t rows)
{
    return (dt__q7_layer){ .m = rows,
                           .n = dt__min_i64(out_of(g), DT__Q7_DEPTH),
                           .k = in_of(g),
                           .ldy = out_of(g),
                           .threads = dt_threads(g->c->ctx) };
}

size_t dt__grouped_integer_room(const dt__grouped *g)
{
    float any = 0;
    if (!dt__grouped_integer_x(g) && !dt__grouped_integer_w(g)) return 0;
    dt__q7_layer l = layer_of(g, g->routing.assignments);
    l.dx = dt__grouped_integer_x(g) ? &any : NULL;
    l.dw = dt__grouped_integer_w(g) ? &any : NULL;
    return room_of(g, NULL).bytes + dt__q7_scratch(&l);
}

/* ---- rows by place --------------------------------------------------------------------------- */

typedef struct gather_rows_args {
    const dt__grouped_integers *b;
    const room *r;
    const dt__routing *to;
    const dt__codes *x;
    int64_t n;
    bool copies;
} gather_rows_args;

static void gather_rows_share(const void *args, const dt__share *share)
{
    const gather_rows_args *of = args;
    const dt__grouped_integers *b = of->b;
    const room *r = of->r;
    const dt__routing *to = of->to;
    const dt__codes *x = of->x;
    const int64_t n = of->n;
    const bool copies = of->copies;
    for (int64_t p = share->first; p < share->past; p++) {
        const int64_t from = dt__assignment_at(to, p), row = from / to->per_row;
        if (copies) memcpy(r->dy + p * n, b->dy + from * n, (size_t)n * sizeof *r->dy);
        if (b->dw == NULL) continue;
        r->sx[p] = x->scale[row];
        r->zu[p] = x->zero_u[row];
    }
}

static void gather_rows(const dt__grouped_integers *b, const room *r)
{
    const dt__routing *to = &b->g->routing;
    const dt__codes *x = b->g->c->codes[b->g->x];
    const int64_t n = out_of(b->g), places = to->start[to->experts];
    const bool copies = to->assignment != NULL;
    const gather_rows_args args = { b, r, to, x, n, copies };
    dt__parallel(places, n, gather_rows_share, &args);
}

typedef struct scatter_rows_args {
    const dt__grouped_integers *b;
    const float *from;
    const dt__routing *to;
    int64_t k;
} scatter_rows_args;

static void scatter_rows_share(const void *args, const dt__share *share)
{
    const scatter_rows_args *of = args;
    const dt__grouped_integers *b = of->b;
    const float *from = of->from;
    const dt__routing *to = of->to;
    const int64_t k = of->k;
    for (int64_t p = share->first; p < share->past; p++) {
        memcpy(b->dx + to->assignment[p] * k, from + p * k, (size_t)k * sizeof *from);
    }
}

static void scatter_rows(const dt__grouped_integers *b, const float *from)
{
    const dt__routing *to = &b->g->routing;
    const int64_t k = in_of(b->g), places = to->start[to->experts];
    const scatter_rows_args args = { b, from, to, k };
    dt__parallel(places, k, scatter_rows_share, &args);
}

/* ---- experts --------------------------------------------------------------------------------- */

static void run_expert(const dt__grouped_integers *b, const room *r, int64_t e)
{
    const dt__grouped *g = b->g;
    const dt__routing *to = &g->routing;
    const int64_t first = to->start[e], n = out_of(g), k = in_of(g);
    const bool copied = to->assignment != NULL;
    float *dx = copied && !b->by_place ? r->dx : b->dx;
    for (int64_t n0 = 0; n0 == 0 || n0 < n; n0 += DT__Q7_DEPTH) {
        dt__back_weight weight;
        const dt__back_rows x = { g->c->codes[g->x], first, copied ? to->assignment + first : NULL,
                                  to->per_row };
        dt__q7_layer l = layer_of(g, to->start[e + 1] - first);
        l.n = dt__min_i64(n - n0, DT__Q7_DEPTH);
        l.dy = (copied ? r->dy : b->dy) + first * n + n0;
        dt__back_open_weight(g->c->codes[g->weight], e * n + n0, &weight, &l);
        dt__back_open_any(&x, &l);
        l.sx = r->sx + first;
        l.zu = r->zu + first;
        l.dx = b->dx == NULL ? NULL : dx + first * k;
        l.add_x = n0 > 0;
        l.dw = b->dw == NULL ? NULL : b->dw + (e * n + n0) * k;
        l.scratch = r->layer;
        dt__q7_run(g->c->kernels, &l);
    }
}

void dt__grouped_integer_backward(const dt__grouped_integers *b)
{
    const room r = room_of(b->g, b->room);
    gather_rows(b, &r);
    for (int64_t e = 0; e < b->g->routing.experts; e++) run_expert(b, &r, e);
    if (b->dx != NULL && b->g->routing.assignment != NULL && !b->by_place) scatter_rows(b, r.dx);
}

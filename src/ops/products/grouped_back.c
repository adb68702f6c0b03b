/* The gradients of grouped_linear by products of integers: each expert is a layer of its own, whose
 * rows of dy are gathered first if they are not adjacent. */
#include "ops/products/grouped_back.h"

#include "core/threads.h"
#include "ops/products/back_codes.h"

#include <string.h>

bool dt__grouped_integer_x(const dt__grouped *g)
{
    return g->c->wants[g->x] && dt__back_x(g->c->codes[g->weight]);
}

bool dt__grouped_integer_w(const dt__grouped *g)
{
    return g->c->wants[g->weight] && dt__back_w(g->c->codes[g->x], g->c->codes[g->weight]);
}

/* Parts of scratch: rows of dy and of dx by place, scales and zero points of x; then a layer's
 * scratch. */
typedef struct room {
    float *dy, *dx, *sx;
    int32_t *zu;
    void *layer;
    size_t bytes;
} room;

static void *take(room *r, char *base, int64_t count)
{
    return dt__scratch_take(base, &r->bytes, count, sizeof(float));
}

static room room_of(const dt__grouped *g, void *base)
{
    room r = { .bytes = 0 };
    const int64_t rows = dt__grouped_indexed(g) ? g->routing.assignments : 0;
    r.dy = take(&r, base, rows * dt__grouped_out(g));
    r.dx = take(&r, base, dt__grouped_integer_x(g) ? rows * dt__grouped_in(g) : 0);
    r.sx = take(&r, base, g->routing.assignments);
    r.zu = take(&r, base, g->routing.assignments);
    r.layer = take(&r, base, 0);
    return r;
}

static dt__q7_layer layer_of(const dt__grouped *g, int64_t rows)
{
    return (dt__q7_layer){ .m = rows,
                           .n = dt__min_i64(dt__grouped_out(g), DT__Q7_DEPTH),
                           .k = dt__grouped_in(g),
                           .ldy = dt__grouped_out(g),
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

typedef struct moving {
    const dt__grouped_integers *b;
    const room *r;
} moving;

static void gather(const void *args, const dt__share *s)
{
    const moving *v = args;
    const dt__grouped_integers *b = v->b;
    const dt__routing *to = &b->g->routing;
    const dt__codes *x = b->g->c->codes[b->g->x];
    const int64_t n = dt__grouped_out(b->g);
    for (int64_t p = s->first; p < s->past; p++) {
        const int64_t from = dt__assignment_at(to, p), row = from / to->per_row;
        if (to->assignment != NULL) {
            memcpy(v->r->dy + p * n, b->dy + from * n, (size_t)n * sizeof *b->dy);
        }
        if (b->dw == NULL) continue;
        v->r->sx[p] = x->scale[row];
        v->r->zu[p] = x->zero_u[row];
    }
}

static void scatter(const void *args, const dt__share *s)
{
    const moving *v = args;
    const int64_t k = dt__grouped_in(v->b->g), *assignment = v->b->g->routing.assignment;
    for (int64_t p = s->first; p < s->past; p++) {
        memcpy(v->b->dx + assignment[p] * k, v->r->dx + p * k, (size_t)k * sizeof(float));
    }
}

static void run_expert(const dt__grouped_integers *b, const room *r, int64_t e)
{
    const dt__grouped *g = b->g;
    const dt__routing *to = &g->routing;
    const int64_t first = to->start[e], n = dt__grouped_out(g), k = dt__grouped_in(g);
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
    const moving v = { b, &r };
    const dt__routing *to = &b->g->routing;
    const int64_t places = to->start[to->experts];
    dt__parallel(places, dt__grouped_out(b->g), gather, &v);
    for (int64_t e = 0; e < b->g->routing.experts; e++) run_expert(b, &r, e);
    if (b->dx == NULL || to->assignment == NULL || b->by_place) return;
    dt__parallel(places, dt__grouped_in(b->g), scatter, &v);
}

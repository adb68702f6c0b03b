/* The multiple-choice knapsack problem by dynamic programming [Kellerer, Pferschy, Pisinger 2004,
 * "Knapsack problems", 11.5]: best[b] is the least sum of costs of the layers so far in at most b
 * units of bytes; adding a layer gives
 *
 *     best'[b] = min over its choices of best[b - units(choice)] + cost(choice)
 *
 * A unit is one byte up to a budget of 2^18 bytes for the layers. Above, a layer's bytes are
 * rounded up to whole units, so that the result always fits. */
#include "sweep/search.h"

#include <math.h>
#include <string.h>

#define MOST_UNITS ((int64_t)1 << 18)

typedef struct table {
    int64_t units, unit;
    double *best, *next;
    uint8_t *taken; /* [layers, units + 1]: the choice of a layer */
} table;

static void add_layer(const table *t, const dt__search_layer *l, uint8_t *taken)
{
    for (int64_t b = 0; b <= t->units; b++) {
        t->next[b] = (double)INFINITY;
        for (int k = 0; k < l->n; k++) {
            const int64_t left = b - dt__ceil_div(l->choice[k].bytes, t->unit);
            if (left < 0 || !(t->best[left] + l->choice[k].cost < t->next[b])) continue;
            t->next[b] = t->best[left] + l->choice[k].cost;
            taken[b] = (uint8_t)k;
        }
    }
    memcpy(t->best, t->next, (size_t)(t->units + 1) * sizeof *t->best);
}

static void follow(dt__search *s, const table *t)
{
    int64_t b = t->units;
    for (int64_t i = s->n - 1; i >= 0; i--) {
        dt__search_layer *l = &s->layer[i];
        l->chosen = t->taken[i * (t->units + 1) + b];
        b -= dt__ceil_div(l->choice[l->chosen].bytes, t->unit);
    }
}

/* Takes the smallest choices, if rounding up leaves no room for anything else. */
static void take_least(dt__search *s)
{
    for (int64_t i = 0; i < s->n; i++) {
        dt__search_layer *l = &s->layer[i];
        l->chosen = 0;
        for (int k = 1; k < l->n; k++) {
            if (l->choice[k].bytes < l->choice[l->chosen].bytes) l->chosen = k;
        }
    }
}

dt_status dt__search_choose(dt__search *s, int64_t budget, bool *fits)
{
    table t = { .unit = 1 };
    int64_t least, most;
    dt__search_bounds(s, &least, &most);
    *fits = budget >= least;
    if (!*fits) return DT_OK;
    const int64_t room = dt__min_i64(budget, most) - s->fixed;
    t.unit = dt__max_i64(1, dt__ceil_div(room, MOST_UNITS));
    t.units = room / t.unit;
    t.best = dt__alloc_array(s->ctx, t.units + 1, sizeof *t.best);
    t.next = dt__alloc_array(s->ctx, t.units + 1, sizeof *t.next);
    t.taken = dt__alloc_array(s->ctx, (t.units + 1) * s->n, 1);
    const bool ready = t.best != NULL && t.next != NULL && t.taken != NULL;
    for (int64_t b = 0; ready && b <= t.units; b++) t.best[b] = 0;
    for (int64_t i = 0; ready && i < s->n; i++) {
        add_layer(&t, &s->layer[i], t.taken + i * (t.units + 1));
    }
    if (ready && isfinite(t.best[t.units])) follow(s, &t);
    else take_least(s);
    DT__RELEASE(s->ctx, t.best, t.next, t.taken);
    return ready ? DT_OK : DT_ERR_NOMEM;
}

/* Assigns groups to parts: the largest group first, groups of equal size in random order. A group
 * with g_c units of class c (g in total) goes to the part b, with share f_b, where the distance
 * from the intended numbers grows least. n_c is the number of all units of class c, n of all units,
 * k those of part b so far:
 *
 *     (1 / f_b) (sum over c of g_c (2 (k_c - f_b n_c) + g_c) / n_c + g (2 (k - f_b n) + g) / n)
 *
 * With groups of one unit this is a stratified draw: every part has its share of each class, within
 * one unit. The last groups go to empty parts. */
#include "data/splits/deal.h"

#include "core/shuffle.h"

#include <stdlib.h>

typedef struct group {
    int64_t size, place; /* place: index in the shuffled order */
    int64_t number;
} group;

typedef struct table {
    const dt__dealing *w;
    int64_t *memory;
    int64_t *start; /* [groups + 1]: where the units of each group begin in `unit` */
    int64_t *unit;  /* [n], by group */
    int64_t *all;   /* [classes]: units per class */
    int64_t *own;   /* [classes]: of the group that is being assigned; else 0 */
    int64_t *has;   /* [parts, classes + 1]: units of each class in each part, and in total */
    group *order;   /* [groups] */
} table;

/* Sorts the largest first. */
static int by_size(const void *a, const void *b)
{
    const group *x = a, *y = b;
    if (x->size != y->size) return x->size > y->size ? -1 : 1;
    return x->place < y->place ? -1 : 1;
}

static dt_status make_table(table *t)
{
    const dt__dealing *w = t->w;
    const int64_t parts = w->parts * (w->classes + 1);
    const int64_t numbers = 2 * w->groups + 2 + w->n + 2 * w->classes + parts;
    t->memory = dt__alloc_zero(w->ctx, (uint64_t)numbers * sizeof *t->memory);
    t->order = dt__alloc_array(w->ctx, w->groups, sizeof *t->order);
    if (t->memory == NULL || t->order == NULL) return DT_ERR_NOMEM;
    t->start = t->memory;
    t->unit = t->start + w->groups + 2;
    t->all = t->unit + w->n;
    t->own = t->all + w->classes;
    t->has = t->own + w->classes;
    int64_t *shuffled = t->has + parts;
    for (int64_t i = 0; i < w->n; i++) {
        t->start[w->group[i] + 2]++;
        t->all[w->label[i]]++;
    }
    for (int64_t g = 0; g < w->groups; g++) t->start[g + 2] += t->start[g + 1];
    for (int64_t i = 0; i < w->n; i++) t->unit[t->start[w->group[i] + 1]++] = i;
    for (int64_t g = 0; g < w->groups; g++) shuffled[g] = g;
    dt__stream s = dt__stream_of(w->seed, DT__FOR_SHUFFLE);
    dt__shuffle(&s, w->groups, shuffled);
    for (int64_t i = 0; i < w->groups; i++) {
        const int64_t g = shuffled[i];
        t->order[i] = (group){ t->start[g + 1] - t->start[g], i, g };
    }
    qsort(t->order, (size_t)w->groups, sizeof *t->order, by_size);
    return DT_OK;
}

static double growth(int64_t added, int64_t has, double share, int64_t all)
{
    const double g = (double)added;
    return g * (2 * ((double)has - share * (double)all) + g) / (double)all;
}

/* How much the distance of part b grows by this group, whose units per class are in `own`. */
static double growth_of(const table *t, int b, const group *g)
{
    const dt__dealing *w = t->w;
    const int64_t *units = t->unit + t->start[g->number], *has = t->has + b * (w->classes + 1);
    double sum = growth(g->size, has[w->classes], w->share[b], w->n);
    for (int64_t i = 0; i < g->size; i++) {
        const int64_t c = w->label[units[i]];
        if (t->own[c] < 0) continue; /* count each class once */
        sum += growth(t->own[c], has[c], w->share[b], t->all[c]);
        t->own[c] = -t->own[c];
    }
    for (int64_t i = 0; i < g->size; i++) {
        const int64_t c = w->label[units[i]];
        if (t->own[c] < 0) t->own[c] = -t->own[c];
    }
    return sum / w->share[b];
}

static int choose(const table *t, const group *g, bool only_empty)
{
    int best = -1;
    double least = 0;
    for (int b = 0; b < t->w->parts; b++) {
        if (only_empty && t->has[b * (t->w->classes + 1) + t->w->classes] > 0) continue;
        const double now = growth_of(t, b, g);
        if (best >= 0 && now >= least) continue;
        best = b;
        least = now;
    }
    return best;
}

static void deal(const table *t, uint8_t *part)
{
    const dt__dealing *w = t->w;
    int64_t empty = w->parts;
    for (int64_t i = 0; i < w->groups; i++) {
        const group *g = &t->order[i];
        const int64_t *units = t->unit + t->start[g->number];
        for (int64_t k = 0; k < g->size; k++) t->own[w->label[units[k]]]++;
        const int b = choose(t, g, empty > 0 && w->groups - i <= empty);
        int64_t *has = t->has + b * (w->classes + 1);
        empty -= has[w->classes] == 0;
        has[w->classes] += g->size;
        for (int64_t k = 0; k < g->size; k++) {
            const int64_t c = w->label[units[k]];
            part[units[k]] = (uint8_t)b;
            has[c]++;
            t->own[c] = 0;
        }
    }
}

dt_status dt__deal(const dt__dealing *w, uint8_t *part)
{
    if (w->groups < w->parts) {
        return dt_fail(w->ctx, DT_ERR_CONFIG,
                       "data.split: %lld groups cannot make %d parts; expected at least as many",
                       (long long)w->groups, w->parts);
    }
    table t = { .w = w };
    const dt_status status = make_table(&t);
    if (status == DT_OK) deal(&t, part);
    DT__RELEASE(w->ctx, t.memory, t.order);
    return status;
}

/* The processing order of columns, and dead columns.
 *
 * Columns are sorted by descending H_jj. Neighbours within 1e-6 of each other are tied, and a run
 * of ties is sorted by index. Kernel positions of a convolution that see the same inputs have
 * diagonals that differ by rounding only, which must not affect the order. */
#include "ptq/layer.h"

#include <math.h>
#include <stdlib.h>

#define TIED 1e-6

typedef struct entry {
    double h;
    int32_t column;
} entry;

static int falling(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->h != y->h) return x->h > y->h ? -1 : 1;
    return x->column < y->column ? -1 : x->column > y->column;
}

static int rising_index(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    return x->column < y->column ? -1 : x->column > y->column;
}

static void sort_columns(int64_t n, entry *e)
{
    qsort(e, (size_t)n, sizeof *e, falling);
    for (int64_t first = 0, next = 1; next <= n; next++) {
        if (next < n && e[next - 1].h - e[next].h <= TIED * fabs(e[next - 1].h)) continue;
        qsort(e + first, (size_t)(next - first), sizeof *e, rising_index);
        first = next;
    }
}

static double diagonal(const dt__moments *m, int64_t j) { return m->h[j * m->size + j]; }

/* The mean diagonal of 2/n H, over all columns (dead ones as 1) or over live ones; 1 if none. */
static double mean_of(const dt__moments *m, int rule)
{
    double sum = 0;
    int64_t live = 0;
    for (int64_t j = 0; j < m->size; j++) {
        sum += 2 / (double)m->n * diagonal(m, j);
        live += diagonal(m, j) != 0;
    }
    if (rule == DT_MEAN_ALL) return (sum + (double)(m->size - live)) / (double)m->size;
    return live == 0 ? 1 : sum / (double)live;
}

static void order_group(dt__layer *l, int64_t g, entry *e)
{
    const int64_t columns = l->shape.columns;
    int32_t *order = l->order + g * columns;
    const dt_statistics *s = l->work->statistics;
    const dt__moments *m = s == NULL ? NULL : &s->moments[g];
    for (int64_t j = 0; j < columns; j++) {
        e[j] = (entry){ m == NULL ? 0 : diagonal(m, j), (int32_t)j };
        l->dead[g * columns + j] = m != NULL && e[j].h == 0;
        l->report->dead += m != NULL && e[j].h == 0;
    }
    if (l->options->rounding.order != DT_ORDER_NONE) sort_columns(columns, e);
    for (int64_t j = 0; j < columns; j++) order[j] = e[j].column;
    l->mean[g] = m == NULL ? 1 : mean_of(m, l->options->rounding.damping_mean);
}

dt_status dt__layer_order(dt__layer *l)
{
    const int64_t columns = l->shape.columns;
    const bool permuted = l->options->rounding.order == DT_ORDER_GROUP;
    entry *e = dt__alloc_array(l->ctx, columns, sizeof *e);
    if (e == NULL) return DT_ERR_NOMEM;
    for (int64_t g = 0; g < l->shape.groups; g++) {
        order_group(l, g, e);
        int32_t *group_of = l->group_of + g * columns;
        for (int64_t j = 0; j < columns; j++) {
            group_of[permuted ? l->order[g * columns + j] : j] = (int32_t)(j / l->group);
        }
    }
    dt__release(l->ctx, e);
    return DT_OK;
}

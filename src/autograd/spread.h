/* Experts of which each rank holds a share (cluster.experts: spread). A tensor that is spread has
 * the rows of its rank's experts alone (dt_tensor.spread); an op that multiplies by all experts,
 * and a file that is written, ask the rank that has the others. */
#ifndef DT__AUTOGRAD_SPREAD_H
#define DT__AUTOGRAD_SPREAD_H

#include "core/tensor.h"

#include <detent/experimental/ops.h>

struct dt_module;

/* What a context's ranks do for it. The products cannot fail: whoever gave them knows, and ends. */
typedef struct dt__spread {
    /* The result and the gradients of grouped_linear, whose weight is spread. Of the gradients of
     * weight and bias dx gets this rank's share, from the rows that this call routes to it. */
    void (*forward)(void *user, const dt_call *c);
    void (*backward)(void *user, const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx);
    /* Elements part[0] ... part[1] - 1 of the whole of x, which is spread, to `to`. */
    dt_status (*fetch)(void *user, const dt_tensor *x, const int64_t part[2], void *to);
    /* Among how many experts the first dimension of a parameter of m is divided, which is or may be
     * spread; 0: it is not. */
    int64_t (*experts_of)(void *user, struct dt_module *m, const dt_tensor *p);
    void *user;
    int rank, ranks;
} dt__spread;

/* Experts first ... past - 1 of `all` are those of the rank. */
static inline void dt__experts_of_rank(int64_t all, int rank, int ranks, int64_t range[2])
{
    range[0] = all * rank / ranks;
    range[1] = all * (rank + 1) / ranks;
}

/* Experts that a spread x has. */
static inline int64_t dt__own_count(const dt_tensor *x)
{
    const dt__spread *s = x->ctx->spread;
    int64_t range[2];
    dt__experts_of_rank(x->spread, s->rank, s->ranks, range);
    return range[1] - range[0];
}

/* The first extent, and the elements, that x has with the experts of all ranks. */
static inline int64_t dt__whole_extent(const dt_tensor *x)
{
    return dt__is_spread(x) ? x->dims[0] / dt__own_count(x) * x->spread : x->dims[0];
}
static inline int64_t dt__whole_count(const dt_tensor *x)
{
    return dt__is_spread(x) ? x->count / dt__own_count(x) * x->spread : x->count;
}

#endif

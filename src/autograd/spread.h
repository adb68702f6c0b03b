/* Expert parallelism with a share of the experts per rank (cluster.experts: spread). A spread
 * tensor (dt_tensor.spread) has only the rows of its rank's experts. Ops that multiply by all
 * experts, and writers of files, communicate with the ranks that have the others. */
#ifndef DT__AUTOGRAD_SPREAD_H
#define DT__AUTOGRAD_SPREAD_H

#include "core/tensor.h"

#include <detent/experimental/ops.h>

struct dt_module;

/* How rank 0 gets parts of tensors that other ranks have. */
typedef struct dt__fetching {
    dt_status (*fetch)(void *user, const dt_tensor *x, const int64_t part[2], void *to);
    void *user;
} dt__fetching;

/* Functions by which a context's ranks communicate. The products return no error: the cluster
 * records it and ends the pass. */
typedef struct dt__spread {
    /* The result and the gradients of grouped_linear, whose weight is spread. The gradients of
     * weight and bias get only this rank's share: from the rows that this call routes to its
     * experts. */
    void (*forward)(void *user, const dt_call *c);
    void (*backward)(void *user, const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx);
    /* Writes elements part[0] ... part[1] - 1 of the whole of x, which is spread, to `to`. */
    dt_status (*fetch)(void *user, const dt_tensor *x, const int64_t part[2], void *to);
    /* The number of experts among which the first dimension of a parameter of m is divided, whether
     * it is spread now or not; 0: it is never spread. */
    int64_t (*experts_of)(void *user, struct dt_module *m, const dt_tensor *p);
    /* These are called by the functions below. */
    dt_status (*begin)(void *user, struct dt_module *m);
    dt_status (*end)(void *user, dt_status status);
    bool (*is_cut)(void *user, struct dt_module *m);
    dt_status (*cut)(void *user, struct dt_module *m);
    dt_status (*join)(void *user, struct dt_module *m);
    void (*close)(void *user); /* the context then has no dt__spread */
    void *user;
    int rank, ranks;
} dt__spread;

/* Begin and end a session around every pass of a model whose experts are spread. All ranks call
 * these together; each runs passes of its own, or none, and sends no other messages in between.
 * `end` serves the other ranks until all have finished. It returns the session's error, or else
 * `status`, the status of the rank's own passes; a status other than OK and NUMERIC ends the
 * session at once, with an error on all ranks. A model whose experts are all on this rank has no
 * session. Errors of begin: NOMEM. */
static inline dt_status dt__spread_begin(const dt_ctx *ctx, struct dt_module *m)
{
    return ctx->spread == NULL ? DT_OK : ctx->spread->begin(ctx->spread->user, m);
}
static inline dt_status dt__spread_end(const dt_ctx *ctx, dt_status status)
{
    return ctx->spread == NULL ? status : ctx->spread->end(ctx->spread->user, status);
}

/* Reduces every mixture of m to the experts of this rank. If m is already cut, tensors that were
 * added since have these experts only, and are marked as spread. NOMEM. */
static inline dt_status dt__spread_cut(const dt_ctx *ctx, struct dt_module *m)
{
    return ctx->spread == NULL ? DT_OK : ctx->spread->cut(ctx->spread->user, m);
}
static inline bool dt__is_cut(const dt_ctx *ctx, struct dt_module *m)
{
    return ctx->spread != NULL && ctx->spread->is_cut(ctx->spread->user, m);
}
/* Called by all ranks together: gives every rank all experts. NOMEM, STATE. */
static inline dt_status dt__spread_join(const dt_ctx *ctx, struct dt_module *m)
{
    return ctx->spread == NULL ? DT_OK : ctx->spread->join(ctx->spread->user, m);
}
static inline void dt__spread_close(const dt_ctx *ctx)
{
    if (ctx->spread != NULL) ctx->spread->close(ctx->spread->user);
}

/* Experts range[0] ... range[1] - 1 of `all` belong to the rank. */
static inline void dt__experts_of_rank(int64_t all, int rank, int ranks, int64_t range[2])
{
    range[0] = all * rank / ranks;
    range[1] = all * (rank + 1) / ranks;
}

/* The number of experts that a spread x has. */
static inline int64_t dt__own_count(const dt_tensor *x)
{
    const dt__spread *s = x->ctx->spread;
    int64_t range[2];
    dt__experts_of_rank(x->spread, s->rank, s->ranks, range);
    return range[1] - range[0];
}

/* The first extent, and the number of elements, of x with the experts of all ranks. */
static inline int64_t dt__whole_extent(const dt_tensor *x)
{
    return dt__is_spread(x) ? x->dims[0] / dt__own_count(x) * x->spread : x->dims[0];
}
static inline int64_t dt__whole_count(const dt_tensor *x)
{
    return dt__is_spread(x) ? x->count / dt__own_count(x) * x->spread : x->count;
}

#endif

/* Experts of which each rank holds a share (cluster.experts: spread). A tensor that is spread has
 * the rows of its rank's experts alone (dt_tensor.spread); an op that multiplies by all experts,
 * and a file that is written, ask the rank that has the others. */
#ifndef DT__AUTOGRAD_SPREAD_H
#define DT__AUTOGRAD_SPREAD_H

#include "core/tensor.h"

#include <detent/experimental/ops.h>

struct dt_module;

/* Who gives rank 0 parts of tensors that others have. */
typedef struct dt__fetching {
    dt_status (*fetch)(void *user, const dt_tensor *x, const int64_t part[2], void *to);
    void *user;
} dt__fetching;

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
    /* What the functions below call. */
    dt_status (*begin)(void *user, struct dt_module *m);
    dt_status (*end)(void *user, dt_status status);
    bool (*is_cut)(void *user, struct dt_module *m);
    dt_status (*cut)(void *user, struct dt_module *m);
    dt_status (*join)(void *user, struct dt_module *m);
    void (*close)(void *user); /* then the context has none */
    void *user;
    int rank, ranks;
} dt__spread;

/* Around every pass of a model of which experts are spread; all ranks together, each with passes of
 * its own, or none. Between them nothing else may be sent. end serves the others until all are
 * through, and returns `status`, how the rank's own passes went, or the session's error; with
 * another `status` than OK and NUMERIC the session ends at once, on all ranks with an error. A
 * model whose experts are all here has no session. Errors of begin: NOMEM. */
static inline dt_status dt__spread_begin(const dt_ctx *ctx, struct dt_module *m)
{
    return ctx->spread == NULL ? DT_OK : ctx->spread->begin(ctx->spread->user, m);
}
static inline dt_status dt__spread_end(const dt_ctx *ctx, dt_status status)
{
    return ctx->spread == NULL ? status : ctx->spread->end(ctx->spread->user, status);
}

/* Leaves of each mixture of m the experts of this rank. Of a module that was cut, tensors that were
 * added since have these experts alone, and are told so. NOMEM. */
static inline dt_status dt__spread_cut(const dt_ctx *ctx, struct dt_module *m)
{
    return ctx->spread == NULL ? DT_OK : ctx->spread->cut(ctx->spread->user, m);
}
static inline bool dt__is_cut(const dt_ctx *ctx, struct dt_module *m)
{
    return ctx->spread != NULL && ctx->spread->is_cut(ctx->spread->user, m);
}
/* All ranks together: all experts are everywhere. NOMEM, STATE. */
static inline dt_status dt__spread_join(const dt_ctx *ctx, struct dt_module *m)
{
    return ctx->spread == NULL ? DT_OK : ctx->spread->join(ctx->spread->user, m);
}
static inline void dt__spread_close(const dt_ctx *ctx)
{
    if (ctx->spread != NULL) ctx->spread->close(ctx->spread->user);
}

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

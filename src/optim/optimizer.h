/* The optimizer's interfaces for checkpoints and runs, and for several ranks. */
#ifndef DT__OPTIM_OPTIMIZER_H
#define DT__OPTIM_OPTIMIZER_H

#include "core/ranks.h"

#include <detent/experimental/optim.h>

/* Allocates the state of the parameter at `path`, even if it is not trained now: it was when the
 * checkpoint was saved. Does nothing for an unknown path. Errors: NOMEM. */
dt_status dt__optimizer_want(dt_optimizer *o, const char *path);

/* Whether the rate of such a schedule ends with update T (total_steps). */
bool dt__schedule_ends(const dt_schedule *s);

/* A tensor of the state, as dt_optimizer_visit gives it. */
typedef struct dt__optimizer_state {
    const char *slot, *path;
    dt_tensor *x;
    const dt_tensor *p;
    /* Whether x has only elements range[0] ... range[1]-1 of the parameter. The others are on other
     * ranks; dt__optimizer_fetch gets them by `number`. */
    bool shared;
    int64_t range[2], number;
} dt__optimizer_state;

typedef dt_status dt__visit_state(void *user, const dt__optimizer_state *s);
dt_status dt__optimizer_visit(dt_optimizer *o, dt__visit_state *visit, void *user);

/* ---- several ranks (cluster.shard_optimizer) ------------------------------------------------- */

typedef struct dt__optimizer_ranks {
    dt__cluster *cluster; /* NULL: one rank */
    bool shared;          /* each rank updates a range of each parameter, and has its state only */
} dt__optimizer_ranks;

/* dt_optimizer_create for these ranks. With `shared`, these must be called by all ranks together:
 * dt_optimizer_step, dt_optimizer_step_scaled, dt_optimizer_swap_average. */
dt_status dt__optimizer_create_for(dt_module *m, const dt_optimizer_options *options,
                                   const dt__optimizer_ranks *ranks, dt_optimizer **out);
bool dt__optimizer_is_shared(const dt_optimizer *o); /* false for NULL */
/* Whether ranks have state or parameters that others lack: shared ones, or those of spread experts.
 * False for NULL. */
bool dt__optimizer_has_parts(const dt_optimizer *o);
/* The number of state values per element of a trained parameter: moments, and an average. */
int dt__optimizer_states(const dt_ctx *ctx, const dt_optimizer_options *o);
/* Describes how the parameter is divided among ranks. */
dt_status dt__optimizer_tensor(dt_optimizer *o, const dt_tensor *p, dt__bucket_tensor *out);
/* dt_clip_factor for several ranks. With `shared` each rank has its ranges of the gradients, and of
 * spread experts those that it owns. */
dt_status dt__optimizer_clip(dt_optimizer *o, dt_tape *t, double limit, double *norm,
                             double *factor);

/* The functions of ranks that share an optimizer (cluster/optimizer). */
typedef struct dt__optimizer_hooks {
    dt_status (*step)(dt_optimizer *o, dt_tape *t, double lr, double factor);
    dt_status (*swap_average)(dt_optimizer *o, dt_tape *t);
    void (*free)(dt_optimizer *o);
    dt_status (*norm)(dt_optimizer *o, double *norm); /* the norm of the gradient over all ranks */
    /* If ranks have parts: while rank 0 works alone, the others call serve, which sends what rank 0
     * fetches and returns when rank 0 calls release. */
    dt_status (*serve)(dt_optimizer *o);
    dt_status (*release)(dt__cluster *c);
    /* On rank 0: gets elements part[0] ... part[1]-1 of a shared state, in the parameter's
     * order. */
    dt_status (*fetch)(dt_optimizer *o, int64_t number, const int64_t part[2], float *to);
    /* The same for a tensor of the module that is spread (autograd/spread.h). */
    dt_status (*fetch_tensor)(dt_optimizer *o, const dt_tensor *x, const int64_t part[2], void *to);
} dt__optimizer_hooks;

/* Calls the hook `fetch` of an optimizer that has parts. */
dt_status dt__optimizer_fetch(dt_optimizer *o, int64_t number, const int64_t part[2], float *to);

#endif

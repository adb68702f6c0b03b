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
    /* Whether x has elements range[0] ... range[1]-1 of the parameter alone; then the others are
     * those of other ranks, and dt__optimizer_fetch knows it by its number. */
    bool shared;
    int64_t range[2], number;
} dt__optimizer_state;

typedef dt_status dt__visit_state(void *user, const dt__optimizer_state *s);
dt_status dt__optimizer_visit(dt_optimizer *o, dt__visit_state *visit, void *user);

/* ---- several ranks (cluster.shard_optimizer) ------------------------------------------------- */

typedef struct dt__optimizer_ranks {
    dt__cluster *cluster; /* NULL: one rank */
    bool shared;          /* each rank updates a range of each parameter, and has its state alone */
} dt__optimizer_ranks;

/* dt_optimizer_create for these ranks. With `shared`, these must be called by all ranks together:
 * dt_optimizer_step, dt_optimizer_step_scaled, dt_optimizer_swap_average. */
dt_status dt__optimizer_create_for(dt_module *m, const dt_optimizer_options *options,
                                   const dt__optimizer_ranks *ranks, dt_optimizer **out);
bool dt__optimizer_is_shared(const dt_optimizer *o); /* false of NULL */
/* Whether ranks have state, or parameters, that others lack: shared, or of experts. False of
 * NULL. */
bool dt__optimizer_has_parts(const dt_optimizer *o);
/* Elements of state for each element of a trained parameter: moments, and an average. */
int dt__optimizer_states(const dt_ctx *ctx, const dt_optimizer_options *o);
/* How the parameter is cut. */
dt_status dt__optimizer_tensor(dt_optimizer *o, const dt_tensor *p, dt__bucket_tensor *out);
/* dt_clip_factor. With `shared`, each rank has its ranges of the gradients; of experts that are
 * spread it has its own. */
dt_status dt__optimizer_clip(dt_optimizer *o, dt_tape *t, double limit, double *norm,
                             double *factor);

/* What ranks that share an optimizer do (cluster/optimizer). */
typedef struct dt__optimizer_hooks {
    dt_status (*step)(dt_optimizer *o, dt_tape *t, double lr, double factor);
    dt_status (*swap_average)(dt_optimizer *o, dt_tape *t);
    void (*free)(dt_optimizer *o);
    dt_status (*norm)(dt_optimizer *o, double *norm); /* of the gradient of all ranks */
    /* Of one that has parts: while rank 0 works alone, the others send it what it asks for. They
     * call serve, which returns when rank 0 calls release. */
    dt_status (*serve)(dt_optimizer *o);
    dt_status (*release)(dt__cluster *c);
    /* Of rank 0: elements part[0] ... part[1]-1 of a shared state, in the parameter's order. */
    dt_status (*fetch)(dt_optimizer *o, int64_t number, const int64_t part[2], float *to);
    /* The same of a tensor of the module that is spread (autograd/spread.h). */
    dt_status (*fetch_tensor)(dt_optimizer *o, const dt_tensor *x, const int64_t part[2], void *to);
} dt__optimizer_hooks;

/* fetch of the optimizer's ranks; it has parts. */
dt_status dt__optimizer_fetch(dt_optimizer *o, int64_t number, const int64_t part[2], float *to);

#endif

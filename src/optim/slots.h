/* The insides of an optimizer, for src/optim and src/cluster/optimizer. */
#ifndef DT__OPTIM_SLOTS_H
#define DT__OPTIM_SLOTS_H

#include "autograd/spread.h"
#include "core/ranks.h"
#include "core/tensor.h"
#include "optim/formulas.h"
#include "optim/optimizer.h"

#define DT__STATES (DT__MOST_STATES + 1) /* values of dt__optimizer_state.number per parameter */

/* A parameter's state. If ranks share the parameters, moments and average are those of this rank's
 * range, as tensors of rank 1. */
typedef struct dt__slot {
    dt_tensor *p;                      /* a reference */
    const char *path;                  /* lent by the module until its tree changes */
    dt_tensor *state[DT__MOST_STATES]; /* NULL: not made yet */
    dt_tensor *average;                /* with options.average; NULL: not made yet */
    dt_tensor *step; /* i64: number of updates of this parameter; NULL: not made yet */
    double lr_factor, weight_decay;
    uint64_t turn;    /* dt__bucket_tensor.turn */
    int64_t range[2]; /* elements that this rank updates */
    /* above 0: the parameter has this many experts; the range, and p if it is spread, has those of
     * this rank */
    int64_t experts;
} dt__slot;

typedef struct dt__parameter_factors {
    struct dt__parameter_factors *next; /* in the order of addition */
    char *glob;
    double lr_factor, decay_factor;
} dt__parameter_factors;

/* The buckets in which ranks that share the parameters exchange them. */
typedef struct dt__shared_values {
    dt__bucket_tensor *tensors; /* one per slot; count 0: the parameter is not trained */
    float **value;
    float *const *part;
    dt__buckets buckets;
    int64_t n;
    uint64_t seen; /* the optimizer's `seen` when these were made */
} dt__shared_values;

struct dt_optimizer {
    dt_ctx *ctx;
    dt_module *m;
    dt__update_formula formula;
    dt_optimizer_options options;
    dt__slot *slots;
    int64_t n;
    uint64_t seen; /* the module's counter of changes when the slots were made */
    dt__parameter_factors *groups;
    int64_t updates;
    dt__cluster *cluster;                    /* NULL: one rank */
    const struct dt__optimizer_hooks *hooks; /* the cluster's, which may be closed first */
    bool shared;                             /* each rank has the state of its ranges only */
    dt__shared_values values;
};

/* ---- optimizer.c ---- */

/* Makes the slots again if the module has changed. NOMEM. */
dt_status dt__optimizer_follow(dt_optimizer *o);
/* One update of a slot by u: parameter, gradient, rate and factor. Errors stay on the tape. */
void dt__slot_update(const dt_optimizer *o, dt__slot *s, dt_tape *t, const dt_parameter_update *u);
/* Updates all elements that p has. */
void dt__slot_update_whole(const dt_optimizer *o, dt__slot *s, dt_tape *t, double lr,
                           double factor);

/* Exchanges a parameter and its average; errors stay on the tape. */
dt_status dt__average_swap(dt_tape *t, dt_tensor *p, dt_tensor *average);

/* ---- clip.c ---- */

/* The norm of a gradient from the partial sums of its squares. */
double dt__norm_of_sums(const double *partial, int64_t n);
/* The factor of dt_clip_factor for a norm. */
double dt__factor_of_norm(double limit, double norm);

/* ---- optimizer_parts.c ---- */

/* The range of any rank, in elements of the whole parameter. */
void dt__slot_range(const dt_optimizer *o, const dt__slot *s, int rank, int64_t range[2]);
/* The first element of the range in x, which is the parameter or its gradient. */
static inline int64_t dt__slot_first(const dt__slot *s) { return s->experts > 0 ? 0 : s->range[0]; }
/* Views of the rank's range of the master, and of the gradient unless `g` is NULL. STATE, NOMEM. */
dt_status dt__slot_views(const dt__slot *s, dt_tensor **p, dt_tensor **g);

#endif

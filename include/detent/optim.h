/* optim.h: optimizers, schedules, clipping. An optimizer is a loop of in-place ops over a module's
 * parameters, so it treats plain parameters and FakeQuantTensors alike.
 */
#ifndef DETENT_OPTIM_H
#define DETENT_OPTIM_H

#include <detent/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An optimizer: its options, and the state of each parameter. */
typedef struct dt_optimizer dt_optimizer;

/* dt_optimizer_options.name; DT_OWN_OPTIMIZER: the registered optimizer that `own` names */
enum { DT_SGD, DT_ADAM, DT_ADAMW, DT_LION, DT_OWN_OPTIMIZER };
/* Which parameters decay: those of rank >= 2 (of a grouped parameter, the rank of an expert), or
 * all. */
enum { DT_DECAY_MATRICES, DT_DECAY_ALL };

/* Parameters whose path (the first one, where they are tied) matches the glob `match`: `*` crosses
 * dots, `?` is one character. The last group that matches a parameter counts. */
typedef struct dt_parameter_group {
    const char *match;
    double rate;         /* factor on the learning rate, above 0 unless frozen */
    double weight_decay; /* factor on the weight decay */
    bool frozen;         /* not trained */
} dt_parameter_group;

/* Most groups of parameters with their own settings. */
#define DT_MAX_GROUPS 16

typedef struct dt_optimizer_options {
    int name;
    const char *own; /* for DT_OWN_OPTIMIZER: the name of a dt_own_optimizer */
    double lr;
    /* sgd, adam: added to the gradient; adamw, lion: p *= 1 - lr * decay first */
    double weight_decay;
    int decay;
    double momentum, dampening; /* sgd */
    bool nesterov;
    double beta1, beta2; /* adam, adamw, lion */
    double eps;          /* adam, adamw; at least 1e-30 */
    dt_parameter_group groups[DT_MAX_GROUPS];
    int64_t n_groups;
    bool average; /* allocate an average of each parameter (dt_optimizer_average) */
} dt_optimizer_options;

/* The defaults: adamw with lr 1e-3, decay 0.01 of matrices, betas 0.9 and 0.999, eps 1e-8. */
DT_API dt_optimizer_options dt_optimizer_defaults(void);

/* An optimizer for every parameter of `m`, including those added later, with zero state. It keeps
 * references to `m`'s parameters, not to `m`, which must outlive it. `options` NULL means the
 * defaults. Calls dt_freeze_groups; a group need not match anything yet. Errors: ARG (an option out
 * of its range), NOMEM. */
DT_API dt_status dt_optimizer_create(dt_module *m, const dt_optimizer_options *options,
                                     dt_optimizer **out);
DT_API void dt_optimizer_free(dt_optimizer *o); /* NULL is allowed */

/* One update with rate `lr` (dt_schedule_rate) of every parameter that has a gradient: in-place ops
 * on the tape `t`, not recorded, so after dt_backward. Every parameter is checked and all state
 * allocated before the first parameter is written. Errors, which stay on the tape: its own; ARG
 * (lr); STATE (a converted or frozen parameter, a tape that still needs one); NOMEM. */
DT_API dt_status dt_optimizer_step(dt_optimizer *o, dt_tape *t, double lr);

/* The global norm of all gradients, sqrt(sum g^2), a tied parameter's once; and, if limit > 0,
 * g *= min(1, limit/(norm + 1e-6)). *norm may be not finite: then nothing is scaled. `norm` may be
 * NULL. Errors, which stay on the tape: ARG (limit NaN), NOMEM. */
DT_API dt_status dt_clip_grad_norm(dt_module *m, dt_tape *t, double limit, double *norm);

/* ---- schedules ------------------------------------------------------------------------------- */

/* dt_schedule.name */
enum {
    DT_CONSTANT,
    DT_STEP,
    DT_LINEAR,
    DT_COSINE,
    DT_MULTISTEP,
    DT_COSINE_RESTARTS,
    DT_POLYNOMIAL,
    DT_ONE_CYCLE,
    DT_WARMUP_STABLE_DECAY,
    DT_PLATEAU
};

/* Rate of update t = 0, 1, ...: lr (t+1)/W while t < W; then lr times a factor of a = t-W and of
 * p = a/(T-W) cut at 1. With between(u) = f + (1-f) u and half(u) = (1 + cos(pi u))/2:
 *     constant             1
 *     step                 gamma^floor(a / every)
 *     multistep            gamma^(number of milestones up to t)
 *     linear               between(1 - p)
 *     cosine               between(half(p))
 *     cosine_restarts      between(half(u)), u from 0 to 1 in each cycle; the first has `every`
 *                          updates, each other `growth` times those of the one before
 *     polynomial           between((1-p)^power)
 *     one_cycle            s + (1-s) half(1 - p/rise) while p < rise, s = start;
 *                          then between(half((p-rise)/(1-rise)))
 *     warmup_stable_decay  1, in the last D updates before T between(1 - d/D), d = D - (T-t) cut
 *                          at D
 *     plateau              1; times dt_plateau_factor, which follows evaluations
 */
typedef struct dt_schedule {
    int name;
    int64_t warmup_steps;     /* W */
    int64_t total_steps;      /* T; 0: in a run, its number of updates */
    double floor;             /* f */
    double gamma;             /* step, multistep, plateau */
    int64_t every;            /* step, cosine_restarts */
    dt_ints milestones;       /* multistep: updates, ascending */
    int64_t growth;           /* cosine_restarts; 0 counts as 1 */
    double power;             /* polynomial */
    double rise, start;       /* one_cycle */
    int64_t decay_steps;      /* D; 0: a tenth of T-W, rounded up */
    int64_t patience;         /* plateau: evaluations; 0 counts as 1 */
    double least_improvement; /* plateau: smallest decrease of the loss that counts */
    int64_t cooldown;         /* plateau: evaluations after a reduction that are not counted */
} dt_schedule;

/* lr times the factor of update t; lr itself if s->name is none of these. If T <= W the run counts
 * as ending with its warmup (p = 1). NaN, which dt_optimizer_step refuses, where a field that the
 * schedule needs is 0: T of linear, cosine, polynomial, one_cycle and warmup_stable_decay; gamma;
 * every; power. */
DT_API double dt_schedule_rate(const dt_schedule *s, double lr, int64_t t);

#ifdef __cplusplus
}
#endif

/* Includes the experimental part, unless the program defines DETENT_STABLE_ONLY. */
#ifndef DETENT_STABLE_ONLY
#include <detent/experimental/optim.h>
#endif
#endif

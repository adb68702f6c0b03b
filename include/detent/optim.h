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

/* dt_optimizer_options.name; DT_OWN_OPTIMIZER: the registered one that `own` names */
enum { DT_SGD, DT_ADAM, DT_ADAMW, DT_LION, DT_OWN_OPTIMIZER };
/* Rank >= 2 only (of a grouped parameter, that of its experts), or every parameter. */
enum { DT_DECAY_MATRICES, DT_DECAY_ALL };

/* Parameters whose path (the first one, where they are tied) matches the glob `match`: `*` crosses
 * dots, `?` is one character. The last group that matches a parameter counts. */
typedef struct dt_parameter_group {
    const char *match;
    double rate;         /* factor on the learning rate */
    double weight_decay; /* factor on the weight decay */
    bool frozen;         /* not trained */
} dt_parameter_group;

/* The most groups of parameters with settings of their own. */
#define DT_MAX_GROUPS 16

typedef struct dt_optimizer_options {
    int name;
    const char *own; /* of DT_OWN_OPTIMIZER: the name of a dt_own_optimizer */
    double lr;
    /* sgd, adam: added to the gradient; adamw, lion: p *= 1 - lr * decay first */
    double weight_decay;
    int decay;
    double momentum, dampening; /* sgd */
    bool nesterov;
    double beta1, beta2; /* adam, adamw, lion */
    double eps;          /* adam, adamw */
    dt_parameter_group groups[DT_MAX_GROUPS];
    int64_t n_groups;
    bool average; /* keep room for an average of each parameter (dt_optimizer_average) */
} dt_optimizer_options;

/* The keys of dt_optimizer_options. */
extern DT_API const dt_key dt_optimizer_keys[];

/* The most tensors of state that an optimizer keeps for a parameter. */
#define DT_OPTIMIZER_STATES 2

/* One update of one parameter. */
typedef struct dt_parameter_update {
    dt_tensor *p, *g;        /* the parameter, and its gradient */
    dt_tensor *const *state; /* f32, zeros before the first update */
    double lr, weight_decay; /* of this parameter */
    double factor;           /* that g is multiplied by first */
    int64_t step;            /* 1 for the parameter's first update */
} dt_parameter_update;

/* An optimizer of a program's own: `train.optimizer: {name: own, own: NAME}`. */
typedef struct dt_own_optimizer {
    const char *name;
    const char *text;                       /* one sentence */
    const char *state[DT_OPTIMIZER_STATES]; /* names of its state, as in checkpoints; NULL: none */
    /* Writes p and the state by in-place ops on t (dt_op with role DT_WRITE), which is not
     * recorded. p may be a FakeQuantTensor, whose master an in-place op writes. Errors stay on the
     * tape. momentum, betas and eps of the options are its to read. */
    void (*apply)(dt_tape *t, const dt_optimizer_options *o, const dt_parameter_update *u);
} dt_own_optimizer;

/* Makes an optimizer known to recipes of this context. It must stay where it is until the context
 * is freed. Errors: ARG (no name or function, a name that is taken), NOMEM. */
DT_API dt_status dt_optimizer_register(dt_ctx *ctx, const dt_own_optimizer *optimizer);
/* The registered optimizer of this name; NULL if there is none. */
DT_API const dt_own_optimizer *dt_optimizer_named(const dt_ctx *ctx, const char *name);

/* adamw with lr 1e-3, decay 0.01 of matrices, betas 0.9 and 0.999, eps 1e-8. */
DT_API dt_optimizer_options dt_optimizer_defaults(void);

/* Turns off requires_grad of the parameters of `m` that the groups freeze. Those that join `m`
 * later, such as learned ranges, are trained. Errors: ARG (a group without `match`), NOMEM. */
DT_API dt_status dt_freeze_groups(dt_module *m, const dt_optimizer_options *options);

/* An optimizer of every parameter of `m`, also of those that join later, with zero state. It keeps
 * references on `m`'s parameters, not on `m`, which must outlive it. `options` NULL means the
 * defaults. Calls dt_freeze_groups; a group may match nothing yet. Errors: ARG (an option out of
 * its range), NOMEM. */
DT_API dt_status dt_optimizer_create(dt_module *m, const dt_optimizer_options *options,
                                     dt_optimizer **out);
DT_API void dt_optimizer_free(dt_optimizer *o); /* NULL is allowed */

/* Adds a parameter group behind those of the options. Errors: ARG where nothing matches, or a
 * factor is negative; NOMEM. */
DT_API dt_status dt_optimizer_group(dt_optimizer *o, const char *glob, double lr_factor,
                                    double decay_factor);

/* One update with rate `lr` (dt_schedule_rate) of every parameter that has a gradient: in-place ops
 * on the tape `t`, not recorded, so after dt_backward. Every parameter is looked at and all state
 * made before the first is written. Errors, which stay on the tape: its own; ARG (lr); STATE (a
 * converted or frozen parameter, a tape that still needs one); NOMEM. */
DT_API dt_status dt_optimizer_step(dt_optimizer *o, dt_tape *t, double lr);
/* The same with every gradient multiplied by `factor` first. ARG unless it is above 0. */
DT_API dt_status dt_optimizer_step_scaled(dt_optimizer *o, dt_tape *t, double lr, double factor);
DT_API int64_t dt_optimizer_updates(const dt_optimizer *o);             /* updates done */
DT_API void dt_optimizer_set_updates(dt_optimizer *o, int64_t updates); /* on resuming */

/* Called with a slot of the state of the parameter at `path`. */
typedef dt_status (*dt_visit_slot)(void *user, const char *slot, const char *path, dt_tensor *x);
/* Each state tensor with its parameter's first path, for checkpoints: "momentum" of sgd with
 * momentum, "exp_avg" and "exp_avg_sq" of adam and adamw, "exp_avg" of lion, "average" with
 * options.average, and "step", an i64 scalar, the updates that the parameter has had. Made with
 * zeros first where it does not exist yet; may be written. A parameter that requires no gradient
 * and has had no update has none. */
DT_API dt_status dt_optimizer_visit(dt_optimizer *o, dt_visit_slot visit, void *user);

/* average += weight (p - average) for every trained parameter p, of a FakeQuantTensor its master;
 * weight 1 copies p. Errors, which stay on the tape: its own; STATE (made without
 * options.average), NOMEM. */
DT_API dt_status dt_optimizer_average(dt_optimizer *o, dt_tape *t, double weight);
/* Exchanges parameters and averages; a second call restores every bit. Errors: likewise. */
DT_API dt_status dt_optimizer_swap_average(dt_optimizer *o, dt_tape *t);

/* The global norm of all gradients, sqrt(sum g^2), a tied parameter's once; and, if limit > 0,
 * g *= min(1, limit/(norm + 1e-6)). *norm may be not finite: then nothing is scaled. `norm` may be
 * NULL. Errors, which stay on the tape: ARG (limit NaN), NOMEM. */
DT_API dt_status dt_clip_grad_norm(dt_module *m, dt_tape *t, double limit, double *norm);

/* The same without touching a gradient: *factor = min(1, limit/(norm + 1e-6)), or 1 where nothing
 * is to be scaled. For dt_optimizer_step_scaled, which spares a pass over the gradients; the bits
 * are those of dt_clip_grad_norm and dt_optimizer_step. */
DT_API dt_status dt_clip_factor(dt_module *m, dt_tape *t, double limit, double *norm,
                                double *factor);

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
    int64_t total_steps;      /* T; 0: the run's number of updates */
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

/* The keys of dt_schedule. */
extern DT_API const dt_key dt_schedule_keys[];

/* lr times the factor of update t; lr itself where s->name is none of these. With T = 0 or T <= W
 * the run is taken to end with its warmup (p = 1). */
DT_API double dt_schedule_rate(const dt_schedule *s, double lr, int64_t t);

/* What a plateau schedule knows of the evaluations so far; begins with zeros. */
typedef struct dt_plateau {
    double best;        /* the lowest loss, once `seen` is above 0 */
    int64_t seen;       /* evaluations with a finite loss */
    int64_t waited;     /* evaluations in a row that were not better */
    int64_t cooling;    /* evaluations that are still not counted */
    int64_t reductions; /* of the rate */
} dt_plateau;

/* Takes the loss of an evaluation: better is one below best by more than least_improvement. After
 * `patience` evaluations in a row that were not, the rate is reduced, and the next `cooldown`
 * evaluations are not counted. Returns whether the rate was reduced now. */
DT_API bool dt_plateau_take(const dt_schedule *s, dt_plateau *p, double loss);
/* max(gamma^reductions, floor) of a plateau schedule, else 1. */
DT_API double dt_plateau_factor(const dt_schedule *s, const dt_plateau *p);

#ifdef __cplusplus
}
#endif
#endif

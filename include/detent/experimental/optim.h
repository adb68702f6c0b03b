/* experimental/optim.h: own optimizers, averages of parameters, state for checkpoints, schedules
 * that follow evaluations. */
#ifndef DETENT_EXPERIMENTAL_OPTIM_H
#define DETENT_EXPERIMENTAL_OPTIM_H

#include <detent/optim.h>
#include <detent/experimental/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The keys of dt_optimizer_options. */
extern DT_API const dt_key dt_optimizer_keys[];

/* The largest number of state tensors that an optimizer keeps for a parameter. */
#define DT_OPTIMIZER_STATES 2

/* One update of one parameter. */
typedef struct dt_parameter_update {
    dt_tensor *p, *g;        /* the parameter, and its gradient */
    dt_tensor *const *state; /* f32, zeros before the first update */
    double lr, weight_decay; /* of this parameter */
    double factor;           /* factor by which g is multiplied first */
    int64_t step;            /* 1 for the parameter's first update */
} dt_parameter_update;

/* An own optimizer: `train.optimizer: {name: own, own: NAME}`. */
typedef struct dt_own_optimizer {
    const char *name;
    const char *text;                       /* one sentence */
    const char *state[DT_OPTIMIZER_STATES]; /* names of its state, as in checkpoints; NULL: none */
    /* Writes p and the state by in-place ops on t (dt_op with role DT_WRITE), which does not
     * record. p may be a FakeQuantTensor, whose master in-place ops write. Errors stay on the tape.
     * May use momentum, betas and eps of the options. */
    void (*apply)(dt_tape *t, const dt_optimizer_options *o, const dt_parameter_update *u);
} dt_own_optimizer;

/* Registers an optimizer for recipes of this context. It must stay valid until the context is
 * freed. Errors: ARG (no name or function, a name that is taken), NOMEM. */
DT_API dt_status dt_optimizer_register(dt_ctx *ctx, const dt_own_optimizer *optimizer);
/* The registered optimizer of this name; NULL if there is none. */
DT_API const dt_own_optimizer *dt_optimizer_named(const dt_ctx *ctx, const char *name);

/* Turns off requires_grad of the parameters of `m` that the groups freeze. Parameters added to `m`
 * later, such as learned ranges, are trained. Errors: ARG (a group without `match`), NOMEM. */
DT_API dt_status dt_freeze_groups(dt_module *m, const dt_optimizer_options *options);

/* Adds a parameter group after those of the options. Errors: ARG if nothing matches, or a factor is
 * negative; NOMEM. */
DT_API dt_status dt_optimizer_group(dt_optimizer *o, const char *glob, double lr_factor,
                                    double decay_factor);
/* dt_optimizer_step with every gradient multiplied by `factor` first. ARG unless it is above 0. */
DT_API dt_status dt_optimizer_step_scaled(dt_optimizer *o, dt_tape *t, double lr, double factor);
/* number of updates so far */
DT_API int64_t dt_optimizer_updates(const dt_optimizer *o);
DT_API void dt_optimizer_set_updates(dt_optimizer *o, int64_t updates); /* on resuming */

/* Each state tensor with its parameter's first path, for checkpoints: "momentum" of sgd with
 * momentum, "exp_avg" and "exp_avg_sq" of adam and adamw, "exp_avg" of lion, "average" with
 * options.average, and "step", an i64 scalar, the updates that the parameter has had. State that
 * does not exist yet is first created with zeros; visitors may write it. A parameter that requires
 * no gradient and had no update has no state. */
DT_API dt_status dt_optimizer_visit(dt_optimizer *o, dt_visit_slot visit, void *user);

/* average += weight (p - average) for every trained parameter p (for a FakeQuantTensor its master);
 * weight 1 copies p. Errors, which stay on the tape: its own; STATE (made without options.average),
 * NOMEM. */
DT_API dt_status dt_optimizer_average(dt_optimizer *o, dt_tape *t, double weight);
/* Exchanges parameters and averages; a second call restores every bit. Errors: likewise. */
DT_API dt_status dt_optimizer_swap_average(dt_optimizer *o, dt_tape *t);

/* dt_clip_grad_norm without changing gradients: *factor = min(1, limit/(norm + 1e-6)), or 1 if
 * nothing is scaled. For dt_optimizer_step_scaled, which saves a pass over the gradients; the bits
 * are those of dt_clip_grad_norm and dt_optimizer_step. */
DT_API dt_status dt_clip_factor(dt_module *m, dt_tape *t, double limit, double *norm,
                                double *factor);

/* ---- schedules ------------------------------------------------------------------------------- */

/* The keys of dt_schedule. */
extern DT_API const dt_key dt_schedule_keys[];

/* The state of a plateau schedule; initially zeros. */
typedef struct dt_plateau {
    double best;        /* the lowest loss, if `seen` is above 0 */
    int64_t seen;       /* evaluations with a finite loss */
    int64_t waited;     /* consecutive evaluations without improvement */
    int64_t cooling;    /* evaluations that will still be ignored */
    int64_t reductions; /* of the rate */
} dt_plateau;

/* Updates the state with the loss of an evaluation. An evaluation improves if its loss is below
 * `best` by more than least_improvement. After `patience` consecutive evaluations without
 * improvement the rate is reduced, and the next `cooldown` evaluations are ignored. Returns whether
 * the rate was reduced now. */
DT_API bool dt_plateau_take(const dt_schedule *s, dt_plateau *p, double loss);
/* max(gamma^reductions, floor) of a plateau schedule, else 1. */
DT_API double dt_plateau_factor(const dt_schedule *s, const dt_plateau *p);

#ifdef __cplusplus
}
#endif
#endif

/* experimental/optim.h: optimizers of one's own, averages of parameters, state for checkpoints,
 * schedules that follow evaluations. */
#ifndef DETENT_EXPERIMENTAL_OPTIM_H
#define DETENT_EXPERIMENTAL_OPTIM_H

#include <detent/optim.h>
#include <detent/experimental/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

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

/* Turns off requires_grad of the parameters of `m` that the groups freeze. Those that join `m`
 * later, such as learned ranges, are trained. Errors: ARG (a group without `match`), NOMEM. */
DT_API dt_status dt_freeze_groups(dt_module *m, const dt_optimizer_options *options);

/* Adds a parameter group behind those of the options. Errors: ARG where nothing matches, or a
 * factor is negative; NOMEM. */
DT_API dt_status dt_optimizer_group(dt_optimizer *o, const char *glob, double lr_factor,
                                    double decay_factor);
/* The same with every gradient multiplied by `factor` first. ARG unless it is above 0. */
DT_API dt_status dt_optimizer_step_scaled(dt_optimizer *o, dt_tape *t, double lr, double factor);
DT_API int64_t dt_optimizer_updates(const dt_optimizer *o);             /* updates done */
DT_API void dt_optimizer_set_updates(dt_optimizer *o, int64_t updates); /* on resuming */

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

/* The same without touching a gradient: *factor = min(1, limit/(norm + 1e-6)), or 1 where nothing
 * is to be scaled. For dt_optimizer_step_scaled, which spares a pass over the gradients; the bits
 * are those of dt_clip_grad_norm and dt_optimizer_step. */
DT_API dt_status dt_clip_factor(dt_module *m, dt_tape *t, double limit, double *norm,
                                double *factor);

/* ---- schedules ------------------------------------------------------------------------------- */

/* The keys of dt_schedule. */
extern DT_API const dt_key dt_schedule_keys[];

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

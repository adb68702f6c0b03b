/* optim.h: optimizers, schedules, clipping. An optimizer is a loop of in-place ops over a module's
 * parameters, so it treats plain parameters and FakeQuantTensors alike.
 */
#ifndef DETENT_OPTIM_H
#define DETENT_OPTIM_H

#include <detent/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dt_optimizer dt_optimizer;

enum { DT_SGD, DT_ADAM, DT_ADAMW }; /* dt_optimizer_options.name */
/* Rank >= 2 only (of a grouped parameter, that of its experts), or every parameter. */
enum { DT_DECAY_MATRICES, DT_DECAY_ALL };

typedef struct dt_optimizer_options {
    int name;
    double lr;
    double weight_decay; /* sgd, adam: added to the gradient; adamw: p *= 1 - lr * decay first */
    int decay;
    double momentum, dampening; /* sgd */
    bool nesterov;
    double beta1, beta2, eps; /* adam, adamw */
} dt_optimizer_options;

extern DT_API const dt_key dt_optimizer_keys[];

/* adamw with lr 1e-3, decay 0.01 of matrices, betas 0.9 and 0.999, eps 1e-8. */
DT_API dt_optimizer_options dt_optimizer_defaults(void);

/* An optimizer of every parameter of `m`, also of those that join later, with zero state. It keeps
 * references on `m`'s parameters, not on `m`, which must outlive it. `options` NULL means the
 * defaults. Errors: ARG (an option out of its range), NOMEM. */
DT_API dt_status dt_optimizer_create(dt_module *m, const dt_optimizer_options *options,
                                     dt_optimizer **out);
DT_API void dt_optimizer_free(dt_optimizer *o); /* NULL is allowed */

/* A parameter group: parameters whose path (the first one, where they are tied) matches `glob` (`*`
 * crosses dots, `?` is one character) use these factors on lr and weight decay. The last matching
 * group wins. Errors: ARG where nothing matches, or a factor is negative; NOMEM. */
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

/* Each state tensor with its parameter's first path, for checkpoints: "momentum" of sgd with
 * momentum, "exp_avg" and "exp_avg_sq" of adam and adamw, and "step", an i64 scalar, the updates
 * that the parameter has had. Made with zeros first where it does not exist yet; may be written. A
 * parameter that requires no gradient and has had no update has none. */
typedef dt_status (*dt_visit_slot)(void *user, const char *slot, const char *path, dt_tensor *x);
DT_API dt_status dt_optimizer_visit(dt_optimizer *o, dt_visit_slot visit, void *user);

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

enum { DT_CONSTANT, DT_STEP, DT_LINEAR, DT_COSINE }; /* dt_schedule.name */

/* Rate of update t = 0, 1, ...: lr (t+1)/W while t < W; then, with p = (t-W)/(T-W) cut at 1:
 * constant 1; step gamma^floor((t-W)/every); linear f + (1-f)(1-p);
 * cosine f + (1-f)(1+cos(pi p))/2.
 */
typedef struct dt_schedule {
    int name;
    int64_t warmup_steps; /* W */
    int64_t total_steps;  /* T; 0: the run's number of updates */
    double floor;         /* f */
    double gamma;
    int64_t every;
} dt_schedule;

extern DT_API const dt_key dt_schedule_keys[];

/* lr times the factor of update t; lr itself where s->name is none of these. With T = 0 or T <= W
 * the run is taken to end with its warmup (p = 1). */
DT_API double dt_schedule_rate(const dt_schedule *s, double lr, int64_t t);

#ifdef __cplusplus
}
#endif
#endif

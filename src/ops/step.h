/* What the optimizers' steps share. */
#ifndef DT__OPS_STEP_H
#define DT__OPS_STEP_H

#include "autograd/op.h"

/* Operands least ... most, all floats of the shape of operand 0. */
dt_status dt__step_shape(const dt_call *c, int least, int most);

/* Adam with decay on the gradient, or (decoupled) on the parameter. */
extern const dt_adam_step_options dt__adam_defaults;
extern const dt_key dt__adam_keys[];
dt_status dt__adam_shape(dt_call *c);
void dt__adam_run(const dt_call *c, bool decoupled);

/* Elements first ... first+n-1 of every operand. */
typedef struct dt__part {
    int64_t first, n;
} dt__part;

void *dt__part_of(const dt_call *c, int i, const dt__part *part); /* where it begins in operand i */

/* Runs a step on all parts, which threads share, and tells the kind of operand 0 of each one. */
typedef void dt__step_part(const dt_call *c, const void *step, const dt__part *part);
void dt__step_run(const dt_call *c, dt__step_part *run, const void *step);

/* Options that were not filled in say 0. */
static inline double dt__step_factor(double given) { return given == 0 ? 1 : given; }

#endif

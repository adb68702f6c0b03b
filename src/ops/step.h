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

#endif

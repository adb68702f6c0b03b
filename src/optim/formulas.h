/* Update formulas of optimizers: the state tensors that a formula keeps for a parameter, and the
 * in-place op that uses them. */
#ifndef DT__OPTIM_FORMULAS_H
#define DT__OPTIM_FORMULAS_H

#include "nn/module.h"

#include <detent/experimental/optim.h>

#define DT__MOST_STATES DT_OPTIMIZER_STATES

typedef struct dt__update_formula {
    const char *name;
    const char *state[DT__MOST_STATES]; /* names, as in checkpoints */
    /* How many state tensors a formula needs with these options. */
    int (*states)(const dt_optimizer_options *o);
    dt_status (*check)(dt_ctx *ctx, const dt_optimizer_options *o);
    void (*apply)(dt_tape *t, const dt_optimizer_options *o, const dt_parameter_update *u);
} dt__update_formula;

/* The formula that the options name, or that is registered as `own`; out->name is NULL if there is
 * none. */
void dt__update_formula_of(const dt_ctx *ctx, const dt_optimizer_options *o,
                           dt__update_formula *out);

#endif

/* Update formulas of optimizers: how many state tensors it keeps for a parameter and the in-place
 * op that uses them. */
#ifndef DT__OPTIM_FORMULAS_H
#define DT__OPTIM_FORMULAS_H

#include "nn/module.h"

#include <detent/optim.h>

#define DT__MOST_STATES 2

/* One update of one parameter. */
typedef struct dt__parameter_update {
    dt_tensor *p, *g;
    dt_tensor *const *state;
    double lr, factor, weight_decay; /* factor: of the gradient */
    int64_t step;                    /* 1 for the parameter's first update */
} dt__parameter_update;

typedef struct dt__update_formula {
    const char *name;
    const char *state[DT__MOST_STATES]; /* names, as in checkpoints */
    /* How many of them these options need. */
    int (*states)(const dt_optimizer_options *o);
    dt_status (*check)(dt_ctx *ctx, const dt_optimizer_options *o);
    void (*apply)(dt_tape *t, const dt_optimizer_options *o, const dt__parameter_update *u);
} dt__update_formula;

/* In the order of DT_SGD, DT_ADAM, DT_ADAMW, DT_LION; NULL outside. */
const dt__update_formula *dt__update_formula_of(int name);

#endif

/* The optimizer's interface for checkpoints. */
#ifndef DT__OPTIM_OPTIMIZER_H
#define DT__OPTIM_OPTIMIZER_H

#include <detent/optim.h>

/* Allocates the state of the parameter at `path`, even if it is not trained now: it was when the
 * checkpoint was saved. Does nothing for an unknown path. Errors: NOMEM. */
dt_status dt__optimizer_want(dt_optimizer *o, const char *path);

#endif

/* What checkpoints need of an optimizer besides optim.h. */
#ifndef DT__OPTIM_OPTIMIZER_H
#define DT__OPTIM_OPTIMIZER_H

#include <detent/optim.h>

/* Makes the state of the parameter at `path`, though it may not be trained now: it was, where the
 * state comes from. Nothing where there is none of this path. Errors: NOMEM. */
dt_status dt__optimizer_want(dt_optimizer *o, const char *path);

#endif

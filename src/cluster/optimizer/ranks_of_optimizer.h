/* An optimizer of several ranks. */
#ifndef DT__CLUSTER_RANKS_OF_OPTIMIZER_H
#define DT__CLUSTER_RANKS_OF_OPTIMIZER_H

#include "optim/slots.h"

extern const dt__optimizer_hooks dt__ranks_optimizer; /* optimizer_ranks.c */

/* The norm of the gradient over all ranks, from the same partial sums as on one (norm_ranks.c). */
dt_status dt__norm_of_ranks(dt_optimizer *o, double *norm);

#endif

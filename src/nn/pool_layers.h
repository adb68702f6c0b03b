/* The common part of the pooling layers. */
#ifndef DT__NN_POOL_LAYERS_H
#define DT__NN_POOL_LAYERS_H

#include "nn/module.h"

#include <detent/ops.h>

/* A module of `type` whose state is the options; NULL: the defaults. Of each option `axes` numbers
 * are read: 2, or 1 for lines. */
dt_status dt__pool_create(dt_ctx *ctx, const dt_module_type *type, const dt_pool_options *options,
                          int axes, dt_module **out);

#endif

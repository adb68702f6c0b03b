/* The common part of the pooling layers. */
#ifndef DT__NN_POOL_LAYERS_H
#define DT__NN_POOL_LAYERS_H

#include "nn/lists/layer_type.h"

#include <detent/ops.h>

/* A module of `type` whose state is the options; NULL: the defaults. Of each option `axes` numbers
 * are read: 2, or 1 for lines. */
dt_status dt__pool_create(dt_ctx *ctx, const dt_module_type *type, const dt_pool_options *options,
                          int axes, dt_module **out);

/* Keys of pooling; TYPE is DT_KEY_PAIR, or DT_KEY_INT for lines. */
#define DT__POOL_EXTENT(field, low, first, about)                                                  \
    .offset = offsetof(dt_pool_layer, pool.field), .least = low, .most = 1 << 16,                  \
    .fallback = first, .text = about
#define DT__POOL_KEYS(kind, TYPE)                                                                  \
    DT__LAYER_HEAD(kind, dt_pool_layer),                                                           \
        { "kernel", TYPE, DT__POOL_EXTENT(kernel, 1, "2", "extent of a window") },                 \
        { "stride", TYPE, DT__POOL_EXTENT(stride, 0, "0", "step; 0: the kernel") },                \
        { "padding", TYPE,                                                                         \
          DT__POOL_EXTENT(padding, 0, "0", "before and after x; at most half a window") },         \
    {                                                                                              \
        "ceil_mode", DT_KEY_BOOL, offsetof(dt_pool_layer, pool.ceil_mode),                         \
            .fallback = "false", .text = "whether the last window may reach past the padded image" \
    }

#endif

/* The common part of the pooling layers. */
#ifndef DT__NN_POOL_LAYERS_H
#define DT__NN_POOL_LAYERS_H

#include "nn/lists/layer_cases.h"
#include "nn/lists/layer_type.h"

#include <detent/experimental/ops.h>

/* A module of `type` whose state is the options; NULL: the defaults. `axes` numbers of each option
 * are used: 2, or 1 for lines. */
dt_status dt__pool_create(dt_ctx *ctx, const dt_module_type *type, const dt_pool_options *options,
                          int axes, dt_module **out);

/* A module of `type` whose state is the size of its result, of planes or of lines. */
dt_status dt__adaptive_create(dt_ctx *ctx, const dt_module_type *type, int axes,
                              const int64_t *size, dt_module **out);

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
            .fallback = "false", .text = "the last window may reach past the padded image"         \
    }

#define DT__POOL_DILATION(TYPE)                                                                    \
    {                                                                                              \
        "dilation", TYPE, DT__POOL_EXTENT(dilation, 0, "0", "distance of elements; 0: 1")          \
    }
#define DT__POOL_COUNT                                                                             \
    {                                                                                              \
        "count_include_pad", DT_KEY_BOOL, offsetof(dt_pool_layer, pool.count_include_pad),         \
            .fallback = "true", .text = "padding counts in the divisor"                            \
    }

/* Defines a pooling layer whose op is `call` of t, m and x: its type, its create function,
 * and its kind in recipes, whose keys follow. */
#define DT__POOL_LAYER(layer, axes, call, about, ...)                                              \
    DT__LAYER_FORWARD(call)                                                                        \
    const dt_module_type dt__nn_##layer = { .name = #layer, .forward = forward };                  \
    dt_status dt_##layer##_create(dt_ctx *ctx, const dt_pool_options *options, dt_module **out)    \
    {                                                                                              \
        DT__NEED2(ctx, ctx, out);                                                                  \
        return dt__pool_create(ctx, &dt__nn_##layer, options, axes, out);                          \
    }                                                                                              \
    static const dt_key layer_keys[] = { __VA_ARGS__, { 0 } };                                     \
    DT__LAYER_CREATE(dt_pool_layer, dt_##layer##_create(ctx, &o->pool, out))                       \
    DT__LAYER_TYPE(layer, about, dt_pool_layer, layer_keys, 1, 1, .create = layer_create);

/* Defines a global pooling layer and its cases: a single example of two channels of four elements,
 * and others. */
#define DT__GLOBAL_POOL_LAYER(layer, about, single, others)                                        \
    DT__LAYER_FORWARD(dt_##layer(t, x))                                                            \
    const dt_module_type dt__nn_##layer = { .name = #layer, .forward = forward };                  \
    dt_status dt_##layer##_create(dt_ctx *ctx, dt_module **out)                                    \
    {                                                                                              \
        DT__NEED2(ctx, ctx, out);                                                                  \
        return dt_module_create(ctx, &dt__nn_##layer, 0, out);                                     \
    }                                                                                              \
    static const dt_key layer_keys[] = { DT__LAYER_HEAD(#layer, dt_plain_layer), { 0 } };          \
    DT__LAYER_CREATE(dt_plain_layer, dt_##layer##_create(ctx, out))                                \
    DT__LAYER_TYPE(layer, about, dt_plain_layer, layer_keys, 1, 1, .create = layer_create);        \
    static const dt__layer_case cases[] = {                                                        \
        { "values", dt_##layer##_create,                                                           \
          .in = { { single, .given = true, .values = { 1, 2, 3, 6, -1, 0, 0, 2 } } }, .n_y = 2,    \
          .y = { 3, 0.25 } },                                                                      \
        { "several examples", dt_##layer##_create, .in = { { others } } },                         \
        { "no example", dt_##layer##_create, .in = { { { 3, 4 } } }, .fails = DT_ERR_SHAPE,        \
          .says = #layer },                                                                        \
    };

/* Defines an adaptive pooling layer, whose op is `call` of t, x and a size, and its kind in
 * recipes, with a size of `axes` numbers of type TYPE. */
#define DT__ADAPTIVE_POOL_LAYER(layer, axes, call, about, TYPE, largest, what)                     \
    static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out, \
                        int n_out)                                                                 \
    {                                                                                              \
        const int64_t *size = dt_module_state(m);                                                  \
        dt_tensor *const x = in[0];                                                                \
        (void)n_in;                                                                                \
        (void)n_out;                                                                               \
        out[0] = call;                                                                             \
    }                                                                                              \
    const dt_module_type dt__nn_##layer = { .name = #layer, .forward = forward };                  \
    static const dt_key layer_keys[] = {                                                           \
        DT__LAYER_HEAD(#layer, dt_size_layer),                                                     \
        { "size", TYPE, offsetof(dt_size_layer, size), .least = 1, .most = largest,                \
          .fallback = "!", .text = what " of the result" },                                        \
        { 0 },                                                                                     \
    };                                                                                             \
    DT__LAYER_CREATE(dt_size_layer, dt__adaptive_create(ctx, &dt__nn_##layer, axes, o->size, out)) \
    DT__LAYER_TYPE(layer, about, dt_size_layer, layer_keys, 1, 1, .create = layer_create);

#endif

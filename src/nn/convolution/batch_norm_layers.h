/* The common part of the layers batch_norm1d and batch_norm2d: everything but the op. */
#ifndef DT__NN_BATCH_NORM_LAYERS_H
#define DT__NN_BATCH_NORM_LAYERS_H

#include "nn/lists/layer_cases.h"
#include "nn/lists/layer_type.h"
#include "nn/module.h"

#include <detent/experimental/ops.h>

typedef dt_tensor *dt__batch_norm_op(dt_tape *t, dt_tensor *x,
                                     const dt_batch_norm_operands *operands,
                                     const dt_batch_norm_options *options);

typedef struct dt__batch_norm_layer {
    dt__batch_norm_op *op;
    double momentum, eps;
} dt__batch_norm_layer;

bool dt__is_batch_norm(const dt_module *m);
/* dt_module_type.fusion and .forward of both types. A norm that is folded into the convolution
 * before it divides its input by the fold factor while batch statistics are used, and returns its
 * input while running statistics are used. */
extern const dt_fusion dt__batch_norm_fusion;
void dt__batch_norm_run(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                        int n_out);
dt_status dt__batch_norm_create(dt_ctx *ctx, const dt_module_type *type, int64_t channels,
                                const dt__batch_norm_layer *layer, dt_module **out);

/* Defines a batch norm layer: its type, its create function, and its kind in recipes, which checks
 * an example x by the function `want`. */
#define DT__BATCH_NORM_LAYER(layer, about, want)                                                   \
    const dt_module_type dt__nn_##layer = {                                                        \
        .name = #layer,                                                                            \
        .forward = dt__batch_norm_run,                                                             \
        .fusion = &dt__batch_norm_fusion,                                                          \
    };                                                                                             \
    dt_status dt_##layer##_create(dt_ctx *ctx, int64_t channels, double momentum, double eps,      \
                                  dt_module **out)                                                 \
    {                                                                                              \
        DT__NEED2(ctx, ctx, out);                                                                  \
        const dt__batch_norm_layer of = { dt_##layer, momentum, eps };                             \
        return dt__batch_norm_create(ctx, &dt__nn_##layer, channels, &of, out);                    \
    }                                                                                              \
    static const dt_key layer_keys[] = { DT__LAYER_HEAD(#layer, dt_norm_layer),                    \
                                         DT__LAYER_MOMENTUM(dt_norm_layer, norms),                 \
                                         DT__LAYER_EPS(dt_norm_layer, norms),                      \
                                         { 0 } };                                                  \
    static dt_status layer_create(dt_ctx *ctx, const void *options, const dt_shape *x, int n_in,   \
                                  dt_module **out)                                                 \
    {                                                                                              \
        const dt_norm_options *o = &((const dt_norm_layer *)options)->norms;                       \
        (void)n_in;                                                                                \
        DT__TRY(want);                                                                             \
        return dt_##layer##_create(ctx, x->dims[0], o->momentum, o->eps, out);                     \
    }                                                                                              \
    DT__LAYER_TYPE(layer, about, dt_norm_layer, layer_keys, 1, 1, .create = layer_create);

/* Cases of both: a batch of two channels, {1, 3, 1, 3} and {5, 5, 7, 7}, in the order of its
 * elements; its outputs with batch statistics, and with running ones; extents of an example, and
 * extents with another number of channels. */
#define DT__BATCH_NORM_CASES(layer, batch, by_batch, by_running, example, other)                   \
    DT__MAKE(make, dt_##layer##_create(ctx, 2, 0.1, 0.0, out))                                     \
    DT__MAKE(make_usual, dt_##layer##_create(ctx, 2, 0.1, 1e-5, out))                              \
    DT__MAKE(make_none, dt_##layer##_create(ctx, 0, 0.1, 1e-5, out))                               \
    DT__MAKE(make_heavy, dt_##layer##_create(ctx, 2, 1.1, 1e-5, out))                              \
    DT__MAKE(make_negative, dt_##layer##_create(ctx, 2, 0.1, -1e-5, out))                          \
    static const char state[] = "weight bias !running_mean !running_var";                          \
    static const dt__layer_case cases[] = {                                                        \
        { "the batch's moments", make, .in = { batch }, .state = state,                            \
          .given = { { "weight", { 2, 3 } }, { "bias", { 1, -1 } } }, .n_y = 8, .y = by_batch,     \
          .training = true },                                                                      \
        { "running moments", make, .in = { batch }, .state = state,                                \
          .given = { { "weight", { 2, 3 } },                                                       \
                     { "bias", { 1, -1 } },                                                        \
                     { "running_mean", { 1, 5 } },                                                 \
                     { "running_var", { 4, 1 } } },                                                \
          .n_y = 8, .y = by_running },                                                             \
        { "more dimensions", make_usual, .in = { { example } }, .state = state,                    \
          .first = { { "weight", 1, 1 },                                                           \
                     { "bias", 0, 0 },                                                             \
                     { "running_mean", 0, 0 },                                                     \
                     { "running_var", 1, 1 } } },                                                  \
        { "no channels", make_none, .fails = DT_ERR_ARG,                                           \
          .says = #layer ": the number of channels" },                                             \
        { "too much momentum", make_heavy, .fails = DT_ERR_ARG, .says = "momentum is 1.1" },       \
        { "eps below 0", make_negative, .fails = DT_ERR_ARG, .says = "eps" },                      \
        { "other channels", make, .in = { { other } }, .state = state, .fails = DT_ERR_SHAPE,      \
          .says = #layer },                                                                        \
    };

#endif

/* The common part of the four convolution layers: everything but the op. */
#ifndef DT__NN_CONV_LAYERS_H
#define DT__NN_CONV_LAYERS_H

#include "nn/lists/layer_cases.h"
#include "nn/lists/layer_type.h"
#include "nn/module.h"

#include <detent/experimental/ops.h>

typedef dt_tensor *dt__conv_op(dt_tape *t, dt_tensor *x, dt_tensor *weight, dt_tensor *bias,
                               const dt_conv_options *options);

typedef struct dt__conv_kind {
    const dt_module_type *type;
    dt__conv_op *op;
    int axes; /* spatial dimensions: 2 or 1 */
    bool transposed;
} dt__conv_kind;

/* The state of such a layer. */
typedef struct dt__conv_state {
    const dt__conv_kind *kind;
    dt_conv_layer layer;
} dt__conv_state;

/* The state of m; NULL if m is not a convolution. */
const dt__conv_state *dt__conv_state_of(const dt_module *m);

/* dt_module_type.transposed_groups of the transposed types. */
int64_t dt__conv_groups(const dt_module *m);
/* dt_module_type.forward of all four. */
void dt__conv_run(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                  int n_out);
dt_status dt__conv_create(dt_ctx *ctx, const dt__conv_kind *kind, const dt_conv_layer *layer,
                          dt_module **out);

/* ---- in recipes ----------------------------------------------------------------------------- */

#define DT__CONV_EXTENT(field, low, first, about)                                                  \
    .offset = offsetof(dt_conv_item, field), .least = low, .most = 1 << 16, .fallback = first,     \
    .text = about

/* Keys of a convolution; `type` is DT_KEY_INT in one dimension and DT_KEY_PAIR in two. */
#define DT__CONV_KEYS(kind, type)                                                                  \
    DT__LAYER_HEAD(kind, dt_conv_item),                                                            \
        { "out", DT_KEY_INT, DT__CONV_EXTENT(out, 1, "!", "output channels") },                    \
        { "kernel", type, DT__CONV_EXTENT(kernel, 1, "3", "extent of the kernel") },               \
        { "stride", type, DT__CONV_EXTENT(stride, 1, "1", "step of the kernel") },                 \
        { "padding", type, DT__CONV_EXTENT(padding, 0, "0", "zeros before and after x") },         \
        { "dilation", type,                                                                        \
          DT__CONV_EXTENT(dilation, 1, "1", "distance of the kernel's elements") },                \
    {                                                                                              \
        "groups", DT_KEY_INT,                                                                      \
            DT__CONV_EXTENT(groups, 1, "1", "groups of channels; as many as channels: depthwise")  \
    }

/* dt_layer_type.create of a kind of convolution. */
dt_status dt__conv_layer_create(dt_ctx *ctx, const dt__conv_kind *kind, const void *options,
                                const dt_shape *in, dt_module **out);

/* Defines a convolution layer with one or two axes: its type, its create function, and its kind in
 * recipes, whose keys are the last argument. */
#define DT__CONV_LAYER(id, n_axes, is_transposed, about, ...)                                      \
    const dt_module_type dt__nn_##id = {                                                           \
        .name = #id,                                                                               \
        .forward = dt__conv_run,                                                                   \
        .quantizable = DT_QUANTIZED_BY_PRESET,                                                     \
        .samples = true,                                                                           \
        .transposed_groups = (is_transposed) ? dt__conv_groups : NULL,                             \
    };                                                                                             \
    static const dt__conv_kind id##_kind = { &dt__nn_##id, dt_##id, n_axes, is_transposed };       \
    dt_status dt_##id##_create(dt_ctx *ctx, const dt_conv_layer *layer, dt_module **out)           \
    {                                                                                              \
        DT__NEED3(ctx, ctx, layer, out);                                                           \
        return dt__conv_create(ctx, &id##_kind, layer, out);                                       \
    }                                                                                              \
    static const dt_key id##_keys[] = { __VA_ARGS__, DT__LAYER_AFTER(dt_conv_item), { 0 } };       \
    static dt_status id##_of(dt_ctx *ctx, const void *options, const dt_shape *in, int n_in,       \
                             dt_module **out)                                                      \
    {                                                                                              \
        (void)n_in;                                                                                \
        return dt__conv_layer_create(ctx, &id##_kind, options, in, out);                           \
    }                                                                                              \
    DT__LAYER_TYPE(id, about, dt_conv_item, id##_keys, 1, 1, .create = id##_of,                    \
                   .after = offsetof(dt_conv_item, after), .part = "conv");

/* Cases of all: zeros added at the end of the result, the range of initial values, and the extents
 * of an example after its channels. */
#define DT__CONV_CASES(id, at_end, bound, ...)                                                     \
    static const dt_conv_layer usual = { .in = 4,                                                  \
                                         .out = 6,                                                 \
                                         .kernel = { 4, 2 },                                       \
                                         .bias = true,                                             \
                                         .conv = { .stride = { 2, 3 },                             \
                                                   .padding = { 1, 0 },                            \
                                                   .dilation = { 1, 1 },                           \
                                                   .groups = 2,                                    \
                                                   .output_padding = at_end } };                   \
    DT__MAKE(make, dt_##id##_create(ctx, &usual, out))                                             \
    DT__MAKE_OF(make_plain, dt_##id##_create, dt_conv_layer, .in = 4, .out = 3,                    \
                .kernel = { 3, 3 }, .conv = dt_conv_defaults())                                    \
    static dt_status make_bad(dt_ctx *ctx, dt_module **out)                                        \
    {                                                                                              \
        dt_conv_layer l = usual;                                                                   \
        l.conv.groups = 4;                                                                         \
        return dt_##id##_create(ctx, &l, out);                                                     \
    }                                                                                              \
    static dt_tensor *plain(dt_tape *t, dt_module *m, dt_tensor *const *in)                        \
    {                                                                                              \
        return dt_##id(t, in[0], dt_param(m, "weight"), dt_param(m, "bias"), &usual.conv);         \
    }                                                                                              \
    static const dt__layer_case cases[] = {                                                        \
        { "all options", make, .in = { { { 2, 4, __VA_ARGS__ } } }, .state = "weight bias",        \
          .plain = plain,                                                                          \
          .first = { { "weight", -(bound), bound }, { "bias", -(bound), bound } } },               \
        { "no bias", make_plain, .in = { { { 2, 4, __VA_ARGS__ } } }, .state = "weight" },         \
        { "groups that do not divide", make_bad, .fails = DT_ERR_ARG,                              \
          .says = #id ": 4 groups do not divide 4 and 6" },                                        \
        { "other channels", make, .in = { { { 2, 3, __VA_ARGS__ } } }, .state = "weight bias",     \
          .fails = DT_ERR_SHAPE, .says = #id },                                                    \
    };

#endif

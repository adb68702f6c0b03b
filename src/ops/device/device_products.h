/* The common part of device_linear and the device convolutions: device_products.c. */
#ifndef DT__OPS_DEVICE_PRODUCTS_H
#define DT__OPS_DEVICE_PRODUCTS_H

#include "ops/convolution/conv_ops.h"
#include "ops/device/device_ops.h"

enum { DT__DEVICE_SCALE = 3, DT__DEVICE_ZERO, DT__DEVICE_ENDS };
#define DT__DEVICE_ACTIVATION_KEY(type)                                                            \
    {                                                                                              \
        "activation", DT_KEY_CHOICE, .offset = offsetof(type, activation),                         \
                                     .choices = dt__device_activation_names, .fallback = "none"    \
    }

dt_status dt__device_conv_shape(dt_call *c);
void dt__device_conv_forward(const dt_call *c);
void dt__device_conv_forward_codes(const dt_call *c);
size_t dt__device_conv_scratch(const dt_call *c);
void dt__device_conv_backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx);

/* Fields of all three ops. Operands are x, weight, bias, scale, zero_point, ends. */
#define DT__DEVICE_PRODUCT                                                                         \
    .in_name = { "x", "weight", "bias", "scale", "zero_point", "ends" },                           \
    .out_name = { "y", "residual", "integers" }, .role = { DT_CODES, DT_CODES },                   \
    .optional = { [2] = true, [5] = true }, .undifferentiable = { [3] = true, [4] = true },        \
    .ungrouped = true, .takes_codes = dt__device_takes_codes,                                      \
    .saves = { .arg = { DT_VALUE, DT_VALUE }, .y = DT_VALUE },                                     \
    .saves_coded = { .arg = { DT_SAVE_CODES, DT_SAVE_CODES }, .out = { DT_NOTHING, DT_VALUE } },   \
    .shape = dt__device_conv_shape, .forward = dt__device_conv_forward,                            \
    .forward_codes = dt__device_conv_forward_codes, .backward = dt__device_conv_backward,          \
    .scratch = dt__device_conv_scratch

dt_tensor *dt__device_apply(dt_tape *t, const dt_op *op, dt_tensor *x, dt_tensor *weight,
                            dt_tensor *bias, const dt_device_range *range, const void *options);

/* Defines a convolution of codes and its public function; further keys follow those of all
 * convolutions. Its cases have the options `relu6` and `tanh_after`. */
#define DT__DEVICE_CONV_OP(id, about, ...)                                                         \
    static const dt_key keys[] = { DT__CONV_KEYS(DT_KEY_PAIR, "1, 1", "0, 0"),                     \
                                   __VA_ARGS__,                                                    \
                                   { 0 } };                                                        \
    static const dt_device_conv_options defaults = {                                               \
        .conv = { .stride = { 1, 1 }, .dilation = { 1, 1 }, .groups = 1 },                         \
    };                                                                                             \
    const dt_op dt__op_device_##id = {                                                             \
        .name = "device_" #id,                                                                     \
        .text = about,                                                                             \
        DT__DEVICE_PRODUCT,                                                                        \
        DT__OP_OPTIONS(dt_device_conv_options, defaults, keys),                                    \
    };                                                                                             \
    dt_tensor *dt_device_##id(dt_tape *t, dt_tensor *x, dt_tensor *weight, dt_tensor *bias,        \
                              const dt_device_range *range, const dt_device_conv_options *options) \
    {                                                                                              \
        return dt__device_apply(t, &dt__op_device_##id, x, weight, bias, range, options);          \
    }                                                                                              \
    static const dt_device_conv_options relu6 = {                                                  \
        .conv = { .stride = { 2, 1 }, .padding = { 1, 0 }, .dilation = { 1, 1 }, .groups = 2 },    \
        .activation = DT_ACT_RELU6                                                                 \
    };                                                                                             \
    static const dt_device_conv_options tanh_after = {                                             \
        .conv = { .stride = { 1, 1 }, .dilation = { 1, 1 }, .groups = 1 },                         \
        .activation = DT_ACT_TANH                                                                  \
    };

#endif

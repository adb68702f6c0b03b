/* The common part of device_add, device_sub, device_mul and device_prelu: device_zip.c. */
#ifndef DT__OPS_DEVICE_ZIP_H
#define DT__OPS_DEVICE_ZIP_H

#include "ops/device/device_ops.h"

/* a, b, scale, zero_point, ends. */
#define DT__DEVICE_ZIP_OPERANDS                                                                    \
    .in_name = { "a", "b", "scale", "zero_point", "ends" }, .out_name = { "y", "residual" },       \
    .role = { DT_CODES, DT_CODES }, .optional = { [4] = true },                                    \
    .undifferentiable = { [2] = true, [3] = true }, .ungrouped = true,                             \
    .takes_codes = dt__device_takes_codes, .options_size = sizeof(dt_device_zip_options),          \
    .defaults = &dt__device_zip_defaults, .keys = dt__device_zip_keys,                             \
    .shape = dt__device_zip_shape, .forward = dt__device_zip_forward,                              \
    .forward_codes = dt__device_zip_forward_codes, .backward = dt__device_zip_backward,            \
    .scratch = dt__device_zip_scratch

extern const dt_device_zip_options dt__device_zip_defaults;
extern const dt_key dt__device_zip_keys[];

dt_status dt__device_zip_shape(dt_call *c);
void dt__device_zip_forward(const dt_call *c);
void dt__device_zip_forward_codes(const dt_call *c);
size_t dt__device_zip_scratch(const dt_call *c);
void dt__device_zip_backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx);

dt_tensor *dt__device_zip_apply(dt_tape *t, const dt_op *op, dt_tensor *a, dt_tensor *b,
                                const dt_device_range *range, const dt_device_zip_options *options);

/* Defines the op, its public function and its cases, whose operands are (1, 2) and (2, -1); `...`
 * is what the op saves. */
#define DT__DEVICE_ZIP_OP(id, about, known, ...)                                                   \
    const dt_op dt__op_##id = {                                                                    \
        .name = #id,                                                                               \
        .text = about,                                                                             \
        DT__DEVICE_ZIP_OPERANDS,                                                                   \
        __VA_ARGS__,                                                                               \
    };                                                                                             \
    dt_tensor *dt_##id(dt_tape *t, dt_tensor *a, dt_tensor *b, const dt_device_range *range,       \
                       const dt_device_zip_options *options)                                       \
    {                                                                                              \
        return dt__device_zip_apply(t, &dt__op_##id, a, b, range, options);                        \
    }                                                                                              \
    static const dt_device_zip_options relu6 = { .activation = DT_ACT_RELU6 };                     \
    static const dt_device_zip_options tanh_after = { .activation = DT_ACT_TANH };                 \
    static const dt__case cases[] = {                                                              \
        { "values",                                                                                \
          .in = { { { 2 }, .given = true, .values = { 1, 2 } },                                    \
                  { { 2 }, .given = true, .values = { 2, -1 } },                                   \
                  DT__CASE_SCALE,                                                                  \
                  DT__CASE_ZERO,                                                                   \
                  DT__CASE_ENDS },                                                                 \
          .n_y = 2, .y = known },                                                                  \
        { "relu6", .in = { { { 2, 3, 4 } }, { { 2, 3, 4 } }, DT__CASE_SCALE, DT__CASE_ZERO },      \
          .options = &relu6, .rough = true },                                                      \
        { "empty", .in = { { { 0, 3 } }, { { 0, 3 } }, DT__CASE_SCALE, DT__CASE_ZERO } },          \
        { "broadcast", .in = { { { 2, 3, 4 } }, { { 3, 1 } }, DT__CASE_SCALE, DT__CASE_ZERO } },   \
        { "both broadcast",                                                                        \
          .in = { { { 3, 1, 4 } }, { { 5, 1 } }, DT__CASE_SCALE, DT__CASE_ZERO } },                \
        { "misfit", .in = { { { 2, 3 } }, { { 2 } }, DT__CASE_SCALE, DT__CASE_ZERO },              \
          .fails = DT_ERR_SHAPE },                                                                 \
        { "activation", .in = { { { 2 } }, { { 2 } }, DT__CASE_SCALE, DT__CASE_ZERO },             \
          .options = &tanh_after, .fails = DT_ERR_ARG, .says = "not none, relu or relu6" },        \
    };

#endif

/* The common part of device_add and device_mul: device_zip.c. */
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
    .scratch = dt__device_mask_bytes

extern const dt_device_zip_options dt__device_zip_defaults;
extern const dt_key dt__device_zip_keys[];

dt_status dt__device_zip_shape(dt_call *c);
void dt__device_zip_forward(const dt_call *c);
void dt__device_zip_forward_codes(const dt_call *c);
void dt__device_zip_backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx);

dt_tensor *dt__device_zip_apply(dt_tape *t, const dt_op *op, dt_tensor *a, dt_tensor *b,
                                const dt_device_range *range, const dt_device_zip_options *options);

#endif

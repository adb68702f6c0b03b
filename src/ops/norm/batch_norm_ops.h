/* The common part of the ops batch_norm1d and batch_norm2d: everything but the rank of x. */
#ifndef DT__OPS_BATCH_NORM_OPS_H
#define DT__OPS_BATCH_NORM_OPS_H

#include "autograd/op.h"

extern const dt_batch_norm_options dt__batch_norm_defaults;
extern const dt_key dt__batch_norm_keys[];

bool dt__batch_norm_writes(const void *options);
/* The shape function; x must have a rank of least...most. */
dt_status dt__batch_norm_shape(dt_call *c, int least, int most);
void dt__batch_norm_forward(const dt_call *c);
size_t dt__batch_norm_scratch(const dt_call *c);
void dt__batch_norm_backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx);

void dt__batch_norm_lower(dt_tape *t, dt_tensor *const *in, const void *options, dt_tensor **out);

/* Defines the op; the file must define the shape function `shape`. */
#define DT__BATCH_NORM(op_name)                                                                    \
    const dt_op dt__op_##op_name = {                                                               \
        .name = #op_name,                                                                          \
        .text =                                                                                    \
            "y = activation((x / factor - mean) / sqrt(var + eps) * weight + bias + residual) "    \
            "per channel",                                                                         \
        .in_name = { "x", "weight", "bias", "running_mean", "running_var", "residual", "factor" }, \
        .out_name = { "y", "stats", "positive" },                                                  \
        .role = { DT_READ, DT_READ, DT_READ, DT_WRITE, DT_WRITE, DT_READ, DT_READ },               \
        .writes = dt__batch_norm_writes,                                                           \
        .undifferentiable = { false, false, false, true, true, false, false },                     \
        .optional = { false, true, true, false, false, true, true },                               \
        .over_dy = { true, false, false, false, false, true, false },                              \
        .saves = { .arg = { [0] = DT_VALUE, [1] = DT_VALUE, [6] = DT_VALUE },                      \
                   .out = { DT_NOTHING, DT_VALUE, DT_VALUE } },                                    \
        DT__OP_OPTIONS(dt_batch_norm_options, dt__batch_norm_defaults, dt__batch_norm_keys),       \
        .shape = shape,                                                                            \
        .forward = dt__batch_norm_forward,                                                         \
        .backward = dt__batch_norm_backward,                                                       \
        .scratch = dt__batch_norm_scratch,                                                         \
        .lower = dt__batch_norm_lower,                                                             \
    };

#endif

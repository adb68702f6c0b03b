/* Convolutions of operands that are integer codes. conv_ops.c has those of floats. */
#ifndef DT__OPS_CONV_CODES_H
#define DT__OPS_CONV_CODES_H

#include "autograd/codes.h"
#include "ops/convolution/conv_ops.h"

/* dt_op.takes_codes: whether rows of operand i's codes are samples of x, or output channels of the
 * weight. */
bool dt__conv_takes_codes(const dt_call *c, int i);

/* The op's functions for a call with codes. The plan sets the bytes of scratch for forward. */
dt_status dt__conv_codes_plan(dt_call *c);
void dt__conv_forward_codes(const dt_call *c);
size_t dt__conv_codes_backward_scratch(const dt_call *c);
/* The same for shape functions: makes the plans of backward, which cannot fail later. */
dt_status dt__conv_codes_backward_plan(const dt_call *c, size_t *bytes);
/* dx from dy and w^, dw from dy and x^, which are dequantized values; either may be NULL. */
void dt__conv_backward_codes(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx);

/* Defines the op and its public function. `meaning` is its `lower`, or NULL. */
#define DT__CONV_OP(op_name, formula, key_table, meaning)                                          \
    const dt_op dt__op_##op_name = {                                                               \
        .name = #op_name,                                                                          \
        .text = formula,                                                                           \
        .in_name = { "x", "weight", "bias" },                                                      \
        .out_name = { "y" },                                                                       \
        .role = { DT_CODES, DT_CODES, DT_READ },                                                   \
        .ungrouped = true,                                                                         \
        .optional = { [DT__CONV_BIAS] = true },                                                    \
        .saves = { .arg = { DT_VALUE, DT_VALUE } },                                                \
        .saves_coded = { .arg = { DT_SAVE_CODES, DT_SAVE_CODES } },                                \
        DT__OP_OPTIONS(dt_conv_options, dt__conv_default, key_table),                              \
        .shape = dt__conv_shape,                                                                   \
        .forward = dt__conv_forward,                                                               \
        .forward_codes = dt__conv_forward_codes,                                                   \
        .takes_codes = dt__conv_takes_codes,                                                       \
        .precision = dt__conv_precision,                                                           \
        .backward = dt__conv_backward,                                                             \
        .scratch = dt__conv_backward_scratch,                                                      \
        .lower = meaning,                                                                          \
    };                                                                                             \
    dt_tensor *dt_##op_name(dt_tape *t, dt_tensor *x, dt_tensor *weight, dt_tensor *bias,          \
                            const dt_conv_options *options)                                        \
    {                                                                                              \
        return dt__conv_apply(t, &dt__op_##op_name, (dt_tensor *[]){ x, weight, bias }, options);  \
    }

/* ---- gradients by products of integers (conv_back.c; numerics, "Integer backward") ----------- */

/* Whether a gradient of a call, if it is needed, is such a product. */
bool dt__conv_integer_x(const dt_call *c);
bool dt__conv_integer_w(const dt_call *c);

/* Bytes of scratch for those that are needed; 0: none. */
size_t dt__conv_integer_scratch(const dt_call *c);
/* dx from dy and W^, dw from dy and the codes of x; NULL: not computed. */
void dt__conv_integer_backward_x(const dt_call *c, const float *dy, float *dx);
void dt__conv_integer_backward_w(const dt_call *c, const float *dy, float *dw);

#endif

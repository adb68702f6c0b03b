/* The common part of the four convolutions, op_conv1d.c, op_conv2d.c and op_conv_transpose*.c.
 * Operands are x [N, in, ...], weight [out, in/groups, ...] (transposed: [in, out/groups, ...]),
 * bias [out] or NULL. */
#ifndef DT__OPS_CONV_OPS_H
#define DT__OPS_CONV_OPS_H

#include "autograd/op.h"

enum { DT__CONV_X, DT__CONV_WEIGHT, DT__CONV_BIAS };

extern const dt_conv_options dt__conv_default;

/* Whether the op is a transposed one. */
bool dt__conv_is_transposed(const dt_call *c);
/* The geometry of a call whose shapes were checked, as conv_geometry.h defines it. For a transposed
 * convolution x and y are swapped. */
dt__conv dt__conv_of(const dt_call *c);

/* Parts of the shape function, for a call with context, op, options and operands but without a
 * tape: checks options and weight; also checks x, and computes the dims of y. */
dt_status dt__conv_check_weight(const dt_call *c);
dt_status dt__conv_extents(const dt_call *c, int64_t dims[4]);
dt_status dt__conv_shape(dt_call *c);
/* For shape functions, which alone can fail: makes the plans of forward and, if the call is
 * recorded, of backward. */
dt_status dt__conv_float_plan(const dt_call *c, size_t *scratch_bytes);
void dt__conv_forward(const dt_call *c);
dt_precision dt__conv_precision(const dt_call *c, int i);
size_t dt__conv_backward_scratch(const dt_call *c);
void dt__conv_backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx);

typedef dt_tensor *dt__conv_function(dt_tape *t, dt_tensor *x, dt_tensor *weight, dt_tensor *bias,
                                     const dt_conv_options *options);
/* dt_op.lower of a 1d op, by the 2d op. */
void dt__conv_lower_line(dt_tape *t, dt_tensor *const *in, const void *given, dt_tensor **out,
                         dt__conv_function *plane);

dt_tensor *dt__conv_apply(dt_tape *t, const dt_op *op, dt_tensor *const *in,
                          const dt_conv_options *options);

/* The keys of dt_conv_options; TYPE is DT_KEY_PAIR, or DT_KEY_INT for 1d convolutions. */
#define DT__CONV_AT(field) .offset = offsetof(dt_conv_options, field)
#define DT__CONV_MOST 2147483647.0 /* largest stride, padding, dilation and extent */
#define DT__CONV_KEYS(TYPE, one, none)                                                             \
    { "stride", TYPE, DT__CONV_AT(stride), .least = 1, .most = DT__CONV_MOST, .fallback = one },   \
        { "padding", TYPE, DT__CONV_AT(padding), .most = DT__CONV_MOST, .fallback = none },        \
        { "dilation",     TYPE, DT__CONV_AT(dilation), .least = 1, .most = DT__CONV_MOST,          \
          .fallback = one },                                                                       \
    {                                                                                              \
        "groups", DT_KEY_INT, DT__CONV_AT(groups), .least = 1, .most = DT__CONV_MOST,              \
                                                   .fallback = "1"                                 \
    }
#define DT__CONV_OUTPUT_PADDING(TYPE, none)                                                        \
    {                                                                                              \
        "output_padding", TYPE, DT__CONV_AT(output_padding), .most = DT__CONV_MOST,                \
                                                             .fallback = none                      \
    }

#endif

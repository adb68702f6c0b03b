/* The common part of ops whose result has planes, or lines, of a size given by options. */
#ifndef DT__OPS_RESIZE_OPS_H
#define DT__OPS_RESIZE_OPS_H

#include "autograd/op.h"

typedef struct dt__size_options {
    int64_t size[2]; /* height and width; 1d ops use the first only */
} dt__size_options;

extern const dt__size_options dt__size_defaults;
extern const dt_key dt__size_keys2d[], dt__size_keys1d[];

/* Shape functions: x [N, C, H, W] or [N, C, L] with at least one pixel per plane; the options begin
 * with the size of the result. */
dt_status dt__size_shape2d(dt_call *c);
dt_status dt__size_shape1d(dt_call *c);
/* The extents of a call; a line is a plane of one row. */
dt__resize dt__resize_of(const dt_call *c);

typedef dt_tensor *dt__resize_function(dt_tape *t, dt_tensor *x, int64_t height, int64_t width);
/* dt_op.lower of a 1d op, by the 2d op. */
void dt__resize_lower_line(dt_tape *t, dt_tensor *const *in, const void *given, dt_tensor **out,
                           dt__resize_function *plane);

/* Defines the op of kernels `kernel` and <kernel>_backward; `axes` is 1d or 2d, `copies` is the
 * field `ungrouped`, `meaning` the field `lower` or NULL. The public function calls `apply`. */
#define DT__RESIZE_OP(op_name, about, axes, kernel, copies, meaning)                               \
    static void forward(const dt_call *c)                                                          \
    {                                                                                              \
        const dt__resize r = dt__resize_of(c);                                                     \
        c->kernels->kernel(&r, dt__data(c->arg[0]), dt__data_mut(c->y));                           \
    }                                                                                              \
    static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)              \
    {                                                                                              \
        const dt__resize r = dt__resize_of(c);                                                     \
        c->kernels->kernel##_backward(&r, dt__data(dy), dt__data_mut(dx[0]));                      \
    }                                                                                              \
    const dt_op dt__op_##op_name = {                                                               \
        .name = #op_name,                                                                          \
        .text = about,                                                                             \
        .in_name = { "x" },                                                                        \
        .out_name = { "y" },                                                                       \
        .ungrouped = copies,                                                                       \
        DT__OP_OPTIONS(dt__size_options, dt__size_defaults, dt__size_keys##axes),                  \
        .shape = dt__size_shape##axes,                                                             \
        .forward = forward,                                                                        \
        .backward = backward,                                                                      \
        .lower = meaning,                                                                          \
    };                                                                                             \
    static dt_tensor *apply(dt_tape *t, dt_tensor *x, int64_t height, int64_t width)               \
    {                                                                                              \
        const dt__size_options o = { { height, width } };                                          \
        return dt_apply(t, &dt__op_##op_name, DT__CALL_WITH(&o, x));                               \
    }

/* The options of a case: the size. */
#define DT__TO(...) DT__WITH(dt__size_options, { __VA_ARGS__ })

#endif

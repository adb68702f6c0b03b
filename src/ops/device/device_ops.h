/* The common part of the ops of integer networks, op_device_*.c (numerics §8).
 *
 * With coded operands an op computes integers and its result is coded (`coded` of the call). With
 * plain operands it computes the same function in floats, without codes and ranges; backward is the
 * gradient of this function. */
#ifndef DT__OPS_DEVICE_OPS_H
#define DT__OPS_DEVICE_OPS_H

#include "autograd/op.h"
#include "ops/device/device_layer.h"
#include "ops/shape/view.h"

#include <detent/experimental/device.h>

/* takes_codes: uses the codes of operand i if it is a coded tensor, and those of a weight
 * (`weight`) if x, operand 0, has codes. */
bool dt__device_takes_codes(const dt_call *c, int i);

/* Checks the operands of a range from operand `at` on: scale, zero point, and ends, which may be
 * missing. Reads the range if the call is coded. Errors: DTYPE, SHAPE, NUMERIC. */
dt_status dt__device_range_of(const dt_call *c, int at, dt__coding_range *out);

/* Makes result 0 with these dims: in a coded call a coded tensor, with the residuals for backward
 * as result 1; else a dense tensor. */
dt_status dt__device_result(dt_call *c, int rank, const int64_t *dims, dt__coding_range r);
/* Where forward writes the residuals of result 0; NULL: backward needs none. */
int8_t *dt__device_residual(const dt_call *c);
enum { DT__DEVICE_RESIDUAL = 1 };
/* Places in a call's `state`: how many outputs have a larger scale than the weight's; whether the
 * result has a larger scale than the operand `scale`. */
enum { DT__DEVICE_WIDENED = 2, DT__DEVICE_COARSER };

/* The functions of a dt_op that computes codes; the file names them shape, forward, forward_codes
 * and backward. */
#define DT__DEVICE_FUNCTIONS                                                                       \
    .takes_codes = dt__device_takes_codes, .shape = shape, .forward = forward,                     \
    .forward_codes = forward_codes, .backward = backward

extern const char *const dt__device_activation_names[]; /* none to relu6, indexed by DT_ACT_... */
/* ARG for activations other than none, relu and relu6. */
dt_status dt__device_check_activation(const dt_call *c, int activation);
/* y = activation(y), for floats. */
void dt__device_activate(const dt_call *c, int activation);

/* The first step of backward: writes d = dy where the result was not clamped, else 0, to `to`; and
 * the gradient of the ends (operand `ends`), if it is needed. */
typedef struct dt__device_back {
    int activation;
    int ends; /* index of that operand */
    int most; /* upper clamp of the codes */
} dt__device_back;
void dt__device_mask(const dt_call *c, const dt__device_back *b, const dt_tensor *dy, void *to,
                     dt_tensor *const *dx);
/* Bytes of d, rounded up so that more scratch can follow. */
size_t dt__device_mask_bytes(const dt_call *c);

/* A tensor with the shape of `like` on memory that it does not own, for calls of other ops'
 * functions. */
typedef struct dt__borrowed {
    dt__storage storage;
    dt_tensor x;
} dt__borrowed;
dt_tensor *dt__borrow(dt__borrowed *b, const dt_tensor *like, void *data);

/* Bytes of the elements of x as floats, rounded up so that what follows is aligned. */
size_t dt__device_number_bytes(const dt_tensor *x);

/* For ops that copy or select codes, by the functions of a float op, `base`: base gets the
 * differences of codes and zero point as floats, which are exact, and the options of the call. The
 * result has the range `r`; all operands must have the zero point of operand 0. */
dt__coding_range dt__device_range_of_x(const dt_call *c); /* range of operand 0, if it is coded */
dt_status dt__device_through_shape(dt_call *c, const dt_op *base, dt__coding_range r);
void dt__device_through(const dt_call *c, const dt_op *base);
/* The same if base's results are codes divided by `scale`: multiplies them by it. */
void dt__device_through_scaled(const dt_call *c, const dt_op *base, double scale);

/* Define the functions of such an op: forward and backward for floats, which are base's; or all
 * four. */
#define DT__DEVICE_FLOATS(base)                                                                    \
    static void forward(const dt_call *c) { base.forward(c); }                                     \
    static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)              \
    {                                                                                              \
        base.backward(c, dy, dx);                                                                  \
    }
#define DT__DEVICE_THROUGH(base)                                                                   \
    static dt_status shape(dt_call *c)                                                             \
    {                                                                                              \
        return dt__device_through_shape(c, &base, dt__device_range_of_x(c));                       \
    }                                                                                              \
    DT__DEVICE_FLOATS(base)                                                                        \
    static void forward_codes(const dt_call *c) { dt__device_through(c, &base); }

/* The forward of ops that return the floats of operand 0 unchanged. */
void dt__device_copy_forward(const dt_call *c);

/* Functions of ops that copy a view of operand 0, of its floats or its codes. */
dt_status dt__device_view_shape(dt_call *c, dt__view_part_of *of);
void dt__device_view_forward(const dt_call *c, dt__view_part_of *of);
void dt__device_view_codes(const dt_call *c, dt__view_part_of *of);
void dt__device_view_backward(const dt_call *c, dt__view_part_of *of, const dt_tensor *dy,
                              dt_tensor *dx);
#define DT__DEVICE_VIEW(of)                                                                        \
    static dt_status shape(dt_call *c) { return dt__device_view_shape(c, of); }                    \
    static void forward(const dt_call *c) { dt__device_view_forward(c, of); }                      \
    static void forward_codes(const dt_call *c) { dt__device_view_codes(c, of); }                  \
    static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)              \
    {                                                                                              \
        dt__device_view_backward(c, of, dy, dx[0]);                                                \
    }

/* Operands of cases: the scale 1, the zero point 0, and the ends of int8. */
#define DT__CASE_SCALE DT__GIVEN(DT__LIST(1), 1)
#define DT__CASE_ZERO                                                                              \
    {                                                                                              \
        { 1 }, .given = true, .values = { 0 }, .dtype = DT_I8                                      \
    }
#define DT__CASE_ENDS DT__GIVEN(DT__LIST(2), -128, 127)

#endif

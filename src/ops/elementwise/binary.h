/* The common part of ops with two operands that broadcast. */
#ifndef DT__OPS_BINARY_H
#define DT__OPS_BINARY_H

#include "autograd/op.h"

/* Shape function: two operands of one float dtype; the result has the dims that both broadcast
 * to. */
dt_status dt__binary_shape(dt_call *c);

/* a and b, both broadcast to the dims of `like`; y is contiguous. */
dt__zip dt__zip_of(const dt_tensor *a, const dt_tensor *b, const dt_tensor *like, void *y);

/* y = kernel(a, b) */
void dt__zip_run(void (*kernel)(const dt__zip *), const dt_tensor *a, const dt_tensor *b,
                 const dt_tensor *like, void *y);

/* to = (x summed over the dimensions along which `to` broadcasts to `like`) / divisor; x is
 * contiguous and has the dims of `like`. */
void dt__sum_to(const dt_call *c, const void *x, const dt_tensor *like, double divisor,
                dt_tensor *to);

/* Scratch of backward: one value per element of the result if an operand broadcasts. */
size_t dt__binary_scratch(const dt_call *c);

/* Where backward writes an operand's gradient, of dy's dims: dx itself, or scratch if the operand
 * was broadcast. */
static inline void *dt__binary_target(const dt_call *c, const dt_tensor *dy, dt_tensor *dx)
{
    return dt__same_dims(dy, dx) ? dt__data_mut(dx) : c->scratch;
}

/* Afterwards: sums that scratch over the broadcast dimensions into dx. */
static inline void dt__binary_finish(const dt_call *c, const dt_tensor *dy, dt_tensor *dx)
{
    if (!dt__same_dims(dy, dx)) dt__sum_to(c, c->scratch, dy, 1, dx);
}

/* Defines op `op_name` of a and b, whose forward is the kernel of the same name, and its public
 * function; `backward` must be defined before. More fields of dt_op may follow the formula. */
#define DT__BINARY(op_name, ...)                                                                   \
    static void forward(const dt_call *c)                                                          \
    {                                                                                              \
        dt__zip_run(c->kernels->op_name, c->arg[0], c->arg[1], c->y, dt__data_mut(c->y));          \
    }                                                                                              \
    const dt_op dt__op_##op_name = {                                                               \
        .name = #op_name,                                                                          \
        .in_name = { "a", "b" },                                                                   \
        .out_name = { "y" },                                                                       \
        .strided = true,                                                                           \
        .shape = dt__binary_shape,                                                                 \
        .forward = forward,                                                                        \
        .backward = backward,                                                                      \
        .text = __VA_ARGS__,                                                                       \
    };                                                                                             \
    dt_tensor *dt_##op_name(dt_tape *t, dt_tensor *a, dt_tensor *b)                                \
    {                                                                                              \
        return dt_apply(t, &dt__op_##op_name, DT__CALL(a, b));                                     \
    }

/* ---- in place -------------------------------------------------------------------------------- */

typedef struct dt__factor_options {
    double factor;
} dt__factor_options;

extern const dt__factor_options dt__factor_defaults;
extern const dt_key dt__factor_keys[];

/* Shape function: operand 1, if given, broadcasts to operand 0. */
dt_status dt__inplace_shape(dt_call *c);

/* Defines an op of that shape and its public function. */
#define DT__INPLACE_OP(op_name, formula)                                                           \
    const dt_op dt__op_##op_name = {                                                               \
        .name = #op_name,                                                                          \
        .text = formula,                                                                           \
        .in_name = { "x", "other" },                                                               \
        .role = { DT_WRITE, DT_READ },                                                             \
        DT__OP_OPTIONS(dt__factor_options, dt__factor_defaults, dt__factor_keys),                  \
        .shape = dt__inplace_shape,                                                                \
        .forward = forward,                                                                        \
    };                                                                                             \
    dt_tensor *dt_##op_name(dt_tape *t, dt_tensor *x, dt_tensor *other, double factor)             \
    {                                                                                              \
        return dt_apply(t, &dt__op_##op_name, (dt_tensor *[]){ x, other }, other != NULL ? 2 : 1,  \
                        &(dt__factor_options){ factor });                                          \
    }

#endif

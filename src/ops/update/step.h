/* The common part of the optimizers' in-place step ops. */
#ifndef DT__OPS_STEP_H
#define DT__OPS_STEP_H

#include "autograd/op.h"

/* Checks operands: least ... most of them, all floats of the shape of operand 0. */
dt_status dt__step_shape(const dt_call *c, int least, int most);

/* Checks betas, the decay rates of running means. DT__BELOW_ONE is their largest value in tables of
 * keys. */
#define DT__BELOW_ONE 0.9999999
dt_status dt__step_betas(const dt_call *c, double beta1, double beta2);

/* Adam with weight decay added to the gradient, or (decoupled) applied to the parameter. */
extern const dt_adam_step_options dt__adam_defaults;
extern const dt_key dt__adam_keys[];
dt_status dt__adam_shape(dt_call *c);
void dt__adam_run(const dt_call *c, bool decoupled);

/* Elements first ... first+n-1 of every operand. */
typedef struct dt__part {
    int64_t first, n;
} dt__part;

/* The address of the part in operand i. */
void *dt__part_of(const dt_call *c, int i, const dt__part *part);

/* Runs a step on all parts, in parallel. After each part calls dt__written for operand 0, so that a
 * FakeQuantTensor can re-encode it. */
typedef void dt__step_part(const dt_call *c, const void *step, const dt__part *part);
void dt__step_run(const dt_call *c, dt__step_part *run, const void *step);

/* A grad_factor of 0, as in zeroed options, means 1. */
static inline double dt__step_factor(double given) { return given == 0 ? 1 : given; }

/* Defines adam_step_ or adamw_step_, and its public function. */
#define DT__ADAM_OP(op_name, formula, decoupled)                                                   \
    static void forward(const dt_call *c) { dt__adam_run(c, decoupled); }                          \
    const dt_op dt__op_##op_name = {                                                               \
        .name = #op_name,                                                                          \
        .text = formula,                                                                           \
        .in_name = { "p", "g", "m", "v" },                                                         \
        .role = { DT_WRITE, DT_READ, DT_WRITE, DT_WRITE },                                         \
        DT__OP_OPTIONS(dt_adam_step_options, dt__adam_defaults, dt__adam_keys),                    \
        .shape = dt__adam_shape,                                                                   \
        .forward = forward,                                                                        \
    };                                                                                             \
    dt_tensor *dt_##op_name(dt_tape *t, dt_tensor *p, dt_tensor *g, dt_tensor *m, dt_tensor *v,    \
                            const dt_adam_step_options *options)                                   \
    {                                                                                              \
        return dt_apply(t, &dt__op_##op_name, DT__CALL_WITH(options, p, g, m, v));                 \
    }

/* For cases: the options, and both moments; and the cases of both ops. */
#define DT__ADAM(...) DT__WITH(dt_adam_step_options, __VA_ARGS__)
#define DT__MOMENTS(...)                                                                           \
    { __VA_ARGS__ }, { __VA_ARGS__, .low = 0.1, .high = 1 }

#define DT__ADAM_CASES                                                                             \
    { "first",                                                                                     \
      .in = { { { 2 }, .given = true, .values = { 1, -2 } },                                       \
              { { 2 }, .given = true, .values = { 0.5, -3 } },                                     \
              { { 2 }, .given = true, .values = { 0, 0 } },                                        \
              { { 2 }, .given = true, .values = { 0, 0 } } },                                      \
      .options = DT__ADAM(.lr = 0.125, .beta1 = 0.5, .beta2 = 0.5, .step = 1), .n_y = 2,           \
      .y = { 0.875, -1.875 } },                                                                    \
        { "later", .in = { { { 3, 5 } }, { { 3, 5 } }, DT__MOMENTS({ 3, 5 }) },                    \
          .options = DT__ADAM(.lr = 0.01, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-3,                \
                              .weight_decay = 0.1, .step = 7) },                                   \
        { "empty", .in = { { { 0, 3 } }, { { 0, 3 } }, DT__MOMENTS({ 0, 3 }) } },                  \
        { "shape", .in = { { { 3 } }, { { 4 } }, DT__MOMENTS({ 3 }) }, .fails = DT_ERR_SHAPE,      \
          .says = "g must be [3]" },                                                               \
        { "step", .in = { { { 3 } }, { { 3 } }, DT__MOMENTS({ 3 }) },                              \
          .options = DT__ADAM(.step = 0), .fails = DT_ERR_ARG, .says = "step is 0" },              \
        { "beta", .in = { { { 3 } }, { { 3 } }, DT__MOMENTS({ 3 }) },                              \
          .options = DT__ADAM(.beta1 = 1, .step = 1), .fails = DT_ERR_ARG, .says = "beta1" },      \
        { "no moments", .in = { { { 3 } }, { { 3 } } }, .fails = DT_ERR_ARG,                       \
          .says = "2 operands" },                                                                  \
    {                                                                                              \
        "integers", .in = { { { 3 } }, { { 3 }, .dtype = DT_I32 }, DT__MOMENTS({ 3 }) },           \
                    .fails = DT_ERR_DTYPE                                                          \
    }

#endif

/* x += weight (to - x), in place: the step of a running average. For a FakeQuantTensor on either
 * side, its master is used. */
#include "ops/ops_list.h"
#include "ops/update/step.h"

typedef struct options {
    double weight;
} options;

static const options defaults = { 0.5 };

static const dt_key keys[] = {
    { "weight", DT_KEY_REAL, .offset = offsetof(options, weight), .fallback = "0.5" },
    { 0 },
};

static dt_status shape(dt_call *c) { return dt__step_shape(c, 2, 2); }

static void forward(const dt_call *c)
{
    const options *o = c->options;
    c->kernels->lerp(dt__count(c->arg[0]), o->weight, dt__data(c->arg[1]), dt__data_mut(c->arg[0]));
}

const dt_op dt__op_lerp_ = {
    .name = "lerp_",
    .text = "x = x + weight (to - x)",
    .in_name = { "x", "to" },
    .role = { DT_WRITE, DT_RAW },
    DT__OP_OPTIONS(options, defaults, keys),
    .shape = shape,
    .forward = forward,
};

dt_tensor *dt_lerp_(dt_tape *t, dt_tensor *x, dt_tensor *to, double weight)
{
    return dt_apply(t, &dt__op_lerp_, DT__CALL_WITH(&(options){ weight }, x, to));
}

static const dt__case cases[] = {
    { "values",
      .in = { { { 2 }, .given = true, .values = { 1, -2 } },
              { { 2 }, .given = true, .values = { 3, 2 } } },
      .options = &(const options){ 0.25 }, .n_y = 2, .y = { 1.5, -1 } },
    { "random", .in = { { { 3, 5 } }, { { 3, 5 } } } },
    { "empty", .in = { { { 0, 3 } }, { { 0, 3 } } } },
    { "shape", .in = { { { 3 } }, { { 1 } } }, .fails = DT_ERR_SHAPE, .says = "to must be [3]" },
    { "integers", .in = { { { 3 } }, { { 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(lerp_, cases)

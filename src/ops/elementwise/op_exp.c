/* the exponential, element by element.      y = e^x      dx = dy * y */
#include "autograd/op.h"
#include "ops/elementwise/binary.h"
#include "ops/ops_list.h"

static dt_status shape(dt_call *c) { return dt__shape_like(c, 0); }

static void forward(const dt_call *c)
{
    c->kernels->exp(dt__count(c->y), dt__data(c->arg[0]), dt__data_mut(c->y));
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    dt__zip_run(c->kernels->mul, dy, c->out[0], dy, dt__data_mut(dx[0]));
}

const dt_op dt__op_exp = {
    .name = "exp",
    .text = "y = e^x",
    .in_name = { "x" },
    .out_name = { "y" },
    .saves = { .y = DT_VALUE },
    .shape = shape,
    .forward = forward,
    .backward = backward,
};

dt_tensor *dt_exp(dt_tape *t, dt_tensor *x) { return dt_apply(t, &dt__op_exp, DT__CALL(x)); }

static const dt__case cases[] = {
    { "values", .in = { { { 3 }, .given = true, .values = { -1, 0, 2 } } }, .n_y = 3,
      .y = { 0.36787944117144233, 1.0, 7.38905609893065 } },
    { "random", .in = { { { 2, 3, 4 } } } },
    { "empty", .in = { { { 0, 3 } } } },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE, .says = "f32" },
};
DT__CASES(exp, cases)

/* the logistic function, element by element.      y = 1 / (1 + e^-x)      dx = dy * y (1 - y) */
#include "autograd/op.h"
#include "ops/ops_list.h"

static dt_status shape(dt_call *c) { return dt__shape_like(c, 0); }

static void forward(const dt_call *c)
{
    c->kernels->sigmoid(dt__count(c->y), dt__data(c->arg[0]), dt__data_mut(c->y));
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    c->kernels->sigmoid_backward(dt__count(dy), dt__data(c->out[0]), dt__data(dy),
                                 dt__data_mut(dx[0]));
}

static void lower(dt_tape *t, dt_tensor *const *in, const void *options, dt_tensor **out)
{
    (void)options;
    dt_tensor *e = dt_exp(t, dt_neg(t, dt_abs(t, in[0]))), *one = dt_number(t, in[0], 1);
    out[0] = dt_div(t, dt_where(t, dt_neg(t, in[0]), e, one), dt_add(t, one, e));
}

const dt_op dt__op_sigmoid = {
    .name = "sigmoid",
    .text = "y = 1 / (1 + e^-x)",
    .in_name = { "x" },
    .out_name = { "y" },
    .saves = { .y = DT_VALUE },
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .over_dy = { true },
    .lower = lower,
};

dt_tensor *dt_sigmoid(dt_tape *t, dt_tensor *x)
{
    return dt_apply(t, &dt__op_sigmoid, DT__CALL(x));
}

static const dt__case cases[] = {
    { "values", .in = { { { 3 }, .given = true, .values = { -40, 0, 2 } } }, .n_y = 3,
      .y = { 4.248354255291589e-18, 0.5, 0.8807970779778823 } },
    { "random", .in = { { { 2, 3, 4 } } } },
    { "empty", .in = { { { 0, 3 } } } },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE, .says = "f32" },
};
DT__CASES(sigmoid, cases)

/* Negation, element by element.      y = -x      dx = -dy */
#include "autograd/op.h"
#include "ops/ops_list.h"

static dt_status shape(dt_call *c) { return dt__shape_like(c, 0); }

static void forward(const dt_call *c)
{
    c->kernels->neg(dt__count(c->y), dt__data(c->arg[0]), dt__data_mut(c->y));
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    c->kernels->neg(dt__count(dy), dt__data(dy), dt__data_mut(dx[0]));
}

const dt_op dt__op_neg = {
    .name = "neg",
    .text = "y = -x",
    .in_name = { "x" },
    .out_name = { "y" },
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .over_dy = { true },
};

dt_tensor *dt_neg(dt_tape *t, dt_tensor *x) { return dt_apply(t, &dt__op_neg, DT__CALL(x)); }

static const dt__case cases[] = {
    { "values", .in = { { { 3 }, .given = true, .values = { -1, 0.5, 2 } } }, .n_y = 3,
      .y = { 1, -0.5, -2 } },
    { "random", .in = { { { 2, 3, 4 } } } },
    { "empty", .in = { { { 0, 3 } } } },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE, .says = "f32" },
};
DT__CASES(neg, cases)

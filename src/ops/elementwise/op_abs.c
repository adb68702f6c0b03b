/* The absolute value, element by element.      y = |x|      dx = x > 0 ? dy : x < 0 ? -dy : 0 */
#include "autograd/op.h"
#include "ops/ops_list.h"

static dt_status shape(dt_call *c) { return dt__shape_like(c, 0); }

static void forward(const dt_call *c)
{
    c->kernels->abs(dt__count(c->y), dt__data(c->arg[0]), dt__data_mut(c->y));
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    c->kernels->abs_backward(dt__count(dy), dt__data(c->arg[0]), dt__data(dy), dt__data_mut(dx[0]));
}

const dt_op dt__op_abs = {
    .name = "abs",
    .text = "y = |x|",
    .in_name = { "x" },
    .out_name = { "y" },
    .saves = { .arg = { DT_VALUE } },
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .over_dy = { true },
};

dt_tensor *dt_abs(dt_tape *t, dt_tensor *x) { return dt_apply(t, &dt__op_abs, DT__CALL(x)); }

static const dt__case cases[] = {
    { "values", .in = { { { 4 }, .given = true, .values = { -1.5, -0.0, 0, 2 } } }, .n_y = 4,
      .y = { 1.5, 0, 0, 2 }, .rough = true },
    { "both sides", .in = { { { 4 }, .given = true, .values = { -3, -0.25, 0.5, 7 } } } },
    { "long", .in = { { { 40003 } } }, .rough = true },
    { "empty", .in = { { { 0, 3 } } } },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(abs, cases)

/* the natural logarithm, element by element.      y = ln x      dx = dy / x */
#include "autograd/op.h"
#include "ops/elementwise/binary.h"
#include "ops/ops_list.h"

static dt_status shape(dt_call *c) { return dt__shape_like(c, 0); }

static void forward(const dt_call *c)
{
    c->kernels->log(dt__count(c->y), dt__data(c->arg[0]), dt__data_mut(c->y));
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    dt__zip_run(c->kernels->div, dy, c->arg[0], dy, dt__data_mut(dx[0]));
}

const dt_op dt__op_log = {
    .name = "log",
    .text = "y = ln x",
    .in_name = { "x" },
    .out_name = { "y" },
    .saves = { .arg = { DT_VALUE } },
    .shape = shape,
    .forward = forward,
    .backward = backward,
};

dt_tensor *dt_log(dt_tape *t, dt_tensor *x) { return dt_apply(t, &dt__op_log, DT__CALL(x)); }

static const dt__case cases[] = {
    { "values", .in = { { { 3 }, .given = true, .values = { 0.5, 1, 3 } } }, .n_y = 3,
      .y = { -0.6931471805599453, 0.0, 1.0986122886681098 } },
    { "random", .in = { { { 2, 3, 4 }, .low = 0.5, .high = 2 } } },
    { "empty", .in = { { { 0, 3 } } } },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE, .says = "f32" },
};
DT__CASES(log, cases)

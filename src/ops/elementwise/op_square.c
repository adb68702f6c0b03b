/* the square, element by element.      y = x^2      dx = 2 x dy */
#include "autograd/op.h"
#include "ops/ops_list.h"

static dt_status shape(dt_call *c) { return dt__shape_like(c, 0); }

static void forward(const dt_call *c)
{
    c->kernels->square(dt__count(c->y), dt__data(c->arg[0]), dt__data_mut(c->y));
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    c->kernels->square_backward(dt__count(dy), dt__data(c->arg[0]), dt__data(dy),
                                dt__data_mut(dx[0]));
}

static void lower(dt_tape *t, dt_tensor *const *in, const void *options, dt_tensor **out)
{
    (void)options;
    out[0] = dt_mul(t, in[0], in[0]);
}

const dt_op dt__op_square = {
    .name = "square",
    .text = "y = x^2",
    .in_name = { "x" },
    .out_name = { "y" },
    .saves = { .arg = { DT_VALUE } },
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .over_dy = { true },
    .lower = lower,
};

dt_tensor *dt_square(dt_tape *t, dt_tensor *x) { return dt_apply(t, &dt__op_square, DT__CALL(x)); }

static const dt__case cases[] = {
    { "values", .in = { { { 3 }, .given = true, .values = { -1.5, 0, 2 } } }, .n_y = 3,
      .y = { 2.25, 0, 4 } },
    { "random", .in = { { { 2, 3, 4 } } } },
    { "empty", .in = { { { 0, 3 } } } },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE, .says = "f32" },
};
DT__CASES(square, cases)

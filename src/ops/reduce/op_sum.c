/* The sum over some dimensions.      y = sum of x      dx = dy, repeated */
#include "ops/ops_list.h"
#include "ops/reduce/reduce.h"

static void forward(const dt_call *c) { dt__reduce_forward(c, 1); }

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    dt__reduce_backward(c, dt__data(dy), dx[0]);
}

const dt_op dt__op_sum = {
    .name = "sum",
    .text = "the sum over `dims`",
    .in_name = { "x" },
    .out_name = { "y" },
    DT__OP_OPTIONS(dt_reduce_options, dt__reduce_defaults, dt__reduce_keys),
    .shape = dt__reduce_shape,
    .forward = forward,
    .backward = backward,
};

dt_tensor *dt_sum(dt_tape *t, dt_tensor *x, const dt_reduce_options *options)
{
    return dt_apply(t, &dt__op_sum, DT__CALL_WITH(options, x));
}

static const dt__case cases[] = {
    { "all", .in = { { { 2, 2 }, .given = true, .values = { 1, 2, 3, 4 } } }, .n_y = 1,
      .y = { 10 } },
    { "rows", .in = { { { 2, 2 }, .given = true, .values = { 1, 2, 3, 4 } } },
      .options = DT__OVER(1, { 1 }), .n_y = 2, .y = { 3, 7 } },
    { "columns", .in = { { { 2, 2 }, .given = true, .values = { 1, 2, 3, 4 } } },
      .options = DT__KEEP(1, { -2 }), .n_y = 2, .y = { 4, 6 } },
    { "every other", .in = { { { 2, 3, 4, 5 } } }, .options = DT__OVER(2, { 3, 1 }) },
    { "between", .in = { { { 2, 3, 4, 5 } } }, .options = DT__KEEP(2, { 0, 2 }) },
    { "a scalar", .in = { { .r = DT__SCALAR } } },
    { "long", .in = { { { 40000 } } }, .options = DT__KEEP(1, { 0 }), .rough = true },
    { "tall", .in = { { { 400, 70 } } }, .options = DT__OVER(1, { 0 }), .rough = true },
    { "empty", .in = { { { 3, 0, 2 } } }, .options = DT__OVER(1, { 1 }), .n_y = 6, .y = { 0 } },
    { "empty result", .in = { { { 0, 2 } } }, .options = DT__OVER(1, { 1 }) },
    { "no such dimension", .in = { { { 2 } } }, .options = DT__OVER(1, { 1 }), .fails = DT_ERR_ARG,
      .says = "dimension 1" },
    { "twice", .in = { { { 2, 2 } } }, .options = DT__OVER(2, { 0, -2 }), .fails = DT_ERR_ARG },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(sum, cases)

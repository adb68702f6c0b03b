/* The mean over some dimensions.      y = (sum of x) / n      dx = dy / n, repeated */
#include "ops/ops_list.h"
#include "ops/reduce/reduce.h"

static void forward(const dt_call *c) { dt__reduce_forward(c, (double)c->state[1]); }

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    if (dy->count == 0 || dx[0]->count == 0) return;
    c->kernels->scale(dy->count, 1 / (double)c->state[1], dt__data(dy), c->scratch);
    dt__reduce_backward(c, c->scratch, dx[0]);
}

static size_t scratch(const dt_call *c) { return dt__bytes_of(c->out[0]); }

static void lower(dt_tape *t, dt_tensor *const *in, const void *given, dt_tensor **out)
{
    dt_tensor *sum = dt_sum(t, in[0], given);
    if (sum == NULL) return;
    const double n = (double)in[0]->count / (double)dt__max_i64(1, sum->count);
    out[0] = dt_div(t, sum, dt_number(t, in[0], n));
}

const dt_op dt__op_mean = {
    .name = "mean",
    .text = "the mean over `dims`",
    .in_name = { "x" },
    .out_name = { "y" },
    DT__OP_OPTIONS(dt_reduce_options, dt__reduce_defaults, dt__reduce_keys),
    .shape = dt__reduce_shape,
    .forward = forward,
    .backward = backward,
    .scratch = scratch,
    .lower = lower,
};

dt_tensor *dt_mean(dt_tape *t, dt_tensor *x, const dt_reduce_options *options)
{
    return dt_apply(t, &dt__op_mean, DT__CALL_WITH(options, x));
}

static const dt__case cases[] = {
    { "all", .in = { { { 2, 2 }, .given = true, .values = { 1, 2, 3, 4 } } }, .n_y = 1,
      .y = { 2.5 } },
    { "columns", .in = { { { 2, 2 }, .given = true, .values = { 1, 2, 3, 4 } } },
      .options = DT__KEEP(1, { -2 }), .n_y = 2, .y = { 2, 3 } },
    { "every other", .in = { { { 2, 3, 4, 5 } } }, .options = DT__OVER(2, { 3, 1 }) },
    { "a scalar", .in = { { .r = DT__SCALAR } } },
    { "empty", .in = { { { 0, 2 } } }, .options = DT__OVER(1, { 1 }) },
    { "of nothing", .in = { { { 3, 0 }, 2 } }, .options = DT__OVER(1, { 1 }), .n_y = 3,
      .y = { DT__NAN, DT__NAN, DT__NAN } },
    { "no such dimension", .in = { { { 2 } } }, .options = DT__OVER(1, { -2 }), .fails = DT_ERR_ARG,
      .says = "dimension -2" },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(mean, cases)

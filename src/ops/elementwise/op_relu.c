/* max(x, 0), element by element.      y = max(x, 0)      dx = x > 0 ? dy : 0
 * One bit per element is kept for backward, as result 1. */
#include "autograd/op.h"
#include "ops/ops_list.h"

#include <math.h>

static dt_status shape(dt_call *c)
{
    DT__TRY(dt__shape_like(c, 0));
    if (!c->recording) return DT_OK;
    const int64_t bytes = dt__ceil_div(c->y->count, 8);
    return dt_result(c, 1, DT_U8, 1, &bytes);
}

static void forward(const dt_call *c)
{
    c->kernels->relu(dt__count(c->y), dt__data(c->arg[0]), dt__data_mut(c->y),
                     c->recording ? dt__data_mut(c->out[1]) : NULL);
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    c->kernels->mask(dt__count(dy), dt__data(c->out[1]), dt__data(dy), dt__data_mut(dx[0]));
}

static void lower(dt_tape *t, dt_tensor *const *in, const void *options, dt_tensor **out)
{
    (void)options;
    out[0] = dt_clamp(t, in[0], 0, INFINITY);
}

const dt_op dt__op_relu = {
    .name = "relu",
    .text = "y = max(x, 0)",
    .in_name = { "x" },
    .out_name = { "y", "positive" },
    .saves = { .out = { DT_NOTHING, DT_VALUE } },
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .over_dy = { true },
    .lower = lower,
};

dt_tensor *dt_relu(dt_tape *t, dt_tensor *x) { return dt_apply(t, &dt__op_relu, DT__CALL(x)); }

static const dt__case cases[] = {
    { "values", .in = { { { 5 }, .given = true, .values = { -2, -0.0, 0, 0.5, 3 } } }, .n_y = 5,
      .y = { 0, 0, 0, 0.5, 3 }, .rough = true },
    { "past a byte", .in = { { { 3, 11 } } } },
    { "long", .in = { { { 40003 } } }, .rough = true },
    { "empty", .in = { { { 0, 3 } } } },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(relu, cases)

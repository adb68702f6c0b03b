/* min(max(x, 0), 6), element by element (Krizhevsky 2010).
 *     y = min(max(x, 0), 6)      dx = 0 < x < 6 ? dy : 0
 * One bit per element is kept for backward, as result 1. */
#include "autograd/op.h"
#include "ops/ops_list.h"

static dt_status shape(dt_call *c)
{
    DT__TRY(dt__shape_like(c, 0));
    if (!c->recording) return DT_OK;
    const int64_t bytes = dt__ceil_div(c->y->count, 8);
    return dt_result(c, 1, DT_U8, 1, &bytes);
}

static void forward(const dt_call *c)
{
    c->kernels->relu6_bits(dt__count(c->y), dt__data(c->arg[0]), dt__data_mut(c->y),
                           c->recording ? dt__data_mut(c->out[1]) : NULL);
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    c->kernels->mask(dt__count(dy), dt__data(c->out[1]), dt__data(dy), dt__data_mut(dx[0]));
}

static void lower(dt_tape *t, dt_tensor *const *in, const void *options, dt_tensor **out)
{
    (void)options;
    out[0] = dt_clamp(t, in[0], 0, 6);
}

const dt_op dt__op_relu6 = {
    .name = "relu6",
    .text = "y = min(max(x, 0), 6)",
    .in_name = { "x" },
    .out_name = { "y", "passed" },
    .saves = { .out = { DT_NOTHING, DT_VALUE } },
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .over_dy = { true },
    .lower = lower,
};

dt_tensor *dt_relu6(dt_tape *t, dt_tensor *x) { return dt_apply(t, &dt__op_relu6, DT__CALL(x)); }

static const dt__case cases[] = {
    { "values", .in = { { { 6 }, .given = true, .values = { -2, -0.0, 0, 2.5, 6, 7 } } }, .n_y = 6,
      .y = { 0, 0, 0, 2.5, 6, 6 }, .rough = true },
    { "all three pieces", .in = { { { 4 }, .given = true, .values = { -3, 0.5, 5.5, 9 } } } },
    { "random", .in = { { { 2, 3, 4 }, .low = 0.1, .high = 5.9 } } },
    { "long", .in = { { { 40003 }, .low = -8, .high = 8 } }, .rough = true },
    { "empty", .in = { { { 0, 3 } } } },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(relu6, cases)

/* The mean absolute error.      l = sum of |x - target|, over n for the mean
 *     dx = sign(x - target) dl / n, dtarget = -dx */
#include "ops/ops_list.h"
#include "ops/elementwise/pointwise.h"

static dt__pointwise problem(const dt_call *c)
{
    return dt__pointwise_of(c, dt__loss_reduction(c->options));
}

static void forward(const dt_call *c)
{
    const dt__pointwise p = problem(c);
    c->kernels->l1_loss(&p, dt__data_mut(c->y));
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const dt__pointwise p = problem(c);
    dt__pointwise_backward(&p, dy, dx, c->kernels->l1_loss_backward);
}

static void lower(dt_tape *t, dt_tensor *const *in, const void *given, dt_tensor **out)
{
    dt_tensor *e = dt_abs(t, dt_sub(t, in[0], in[1]));
    out[0] = dt__reduced(t, e, dt__loss_reduction(given));
}

DT__LOSS_OF_TWO(l1_loss, "|x - target|")

static const dt__case cases[] = {
    { "values",
      .in = { { { 3 }, .given = true, .values = { 1, 2, 4 } },
              { { 3 }, .given = true, .values = { 0, 5, 4 } } },
      .n_y = 1, .y = { 4.0 / 3 }, .rough = true },
    { "mean", .in = { { { 5 }, .low = 1, .high = 2 }, { { 5 } } } },
    { "summed", .in = { { { 3, 7 } }, { { 3, 7 }, .low = 1, .high = 2 } },
      .options = DT__BY(DT_REDUCE_SUM) },
    { "long", .in = { { { 50000 } }, { { 50000 } } }, .rough = true },
    { "empty", .in = { { { 0, 3 } }, { { 0, 3 } } }, .options = DT__BY(DT_REDUCE_SUM), .n_y = 1,
      .y = { 0 } },
    { "shape", .in = { { { 3 } }, { { 3, 1 } } }, .fails = DT_ERR_SHAPE,
      .says = "target must be [3]" },
    { "reduction", .in = { { { 3 } }, { { 3 } } }, .options = DT__BY(2), .fails = DT_ERR_ARG },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 }, { { 3 } } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(l1_loss, cases)

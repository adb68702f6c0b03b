/* The mean squared error.      l = sum of (x - target)^2, over n for the mean
 *     dx = 2 (x - target) dl / n, dtarget = -dx */
#include "ops/ops_list.h"
#include "ops/elementwise/pointwise.h"

static double divisor(const dt_call *c)
{
    return dt__loss_reduction(c->options) == DT_REDUCE_SUM ? 1 : (double)c->arg[0]->count;
}

static void forward(const dt_call *c)
{
    c->kernels->mse(dt__count(c->arg[0]), dt__data(c->arg[0]), dt__data(c->arg[1]), divisor(c),
                    dt__data_mut(c->y));
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const double scale = 2 * dt__scalar(dy) / divisor(c);
    for (int i = 0; i < 2; i++) {
        if (dx[i] == NULL) continue;
        c->kernels->mse_backward(dt__count(dx[i]), dt__data(c->arg[0]), dt__data(c->arg[1]),
                                 i == 0 ? scale : -scale, dt__data_mut(dx[i]));
    }
}

static void lower(dt_tape *t, dt_tensor *const *in, const void *given, dt_tensor **out)
{
    dt_tensor *e = dt_square(t, dt_sub(t, in[0], in[1]));
    out[0] = dt__reduced(t, e, dt__loss_reduction(given));
}

DT__LOSS_OF_TWO(mse, "(x - target)^2")

static const dt__case cases[] = {
    { "values",
      .in = { { { 2 }, .given = true, .values = { 1, 2 } },
              { { 2 }, .given = true, .values = { 0, 5 } } },
      .n_y = 1, .y = { 5 } },
    { "summed", .in = { { { 3, 7 } }, { { 3, 7 } } }, .options = DT__BY(DT_REDUCE_SUM) },
    { "long", .in = { { { 50000 } }, { { 50000 } } }, .rough = true },
    { "empty", .in = { { { 0, 3 } }, { { 0, 3 } } }, .options = DT__BY(DT_REDUCE_SUM), .n_y = 1,
      .y = { 0 } },
    { "shape", .in = { { { 3 } }, { { 3, 1 } } }, .fails = DT_ERR_SHAPE,
      .says = "target must be [3]" },
    { "reduction", .in = { { { 3 } }, { { 3 } } }, .options = DT__BY(2), .fails = DT_ERR_ARG },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 }, { { 3 } } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(mse, cases)

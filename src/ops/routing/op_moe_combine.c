/* The sum of the outputs of a row's experts, weighted by the router.
 *     z[r] = sum over i of weights[r][i] y[r][i]
 *     dy[r][i] = weights[r][i] dz[r]      dweights[r][i] = y[r][i] . dz[r] */
#include "autograd/op.h"
#include "ops/ops_list.h"

static dt_status shape(dt_call *c)
{
    DT__TRY(dt__want_operands(c, 2, 2));
    for (int i = 0; i < 2; i++) DT__TRY(dt__want_float(c, i));
    DT__TRY(dt__want_rank(c, 0, 2, 3));
    DT__TRY(dt__want_rank(c, 1, 2, 2));
    const dt_tensor *y = c->in[0], *weights = c->in[1];
    const bool fits = y->rank == 3
                          ? y->dims[0] == weights->dims[0] && y->dims[1] == weights->dims[1]
                          : y->dims[0] == weights->count;
    if (!fits || weights->dims[1] < 1) {
        return dt_refuse(
            c, DT_ERR_SHAPE,
            "y must be [rows, k, C] or [rows * k, C] of weights [rows, k], k at least 1");
    }
    const int64_t dims[2] = { weights->dims[0], dt__columns(y) };
    return dt_result(c, 0, y->dtype, 2, dims);
}

static dt__combine problem(const dt_call *c)
{
    return (dt__combine){ .rows = c->arg[1]->dims[0],
                          .top_k = c->arg[1]->dims[1],
                          .n = dt__columns(c->arg[0]),
                          .parts = dt__data(c->arg[0]),
                          .weights = dt__data(c->arg[1]) };
}

static void forward(const dt_call *c)
{
    dt__combine p = problem(c);
    p.y = dt__data_mut(c->y);
    c->kernels->moe_combine(&p);
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const dt__combine p = problem(c);
    void *to[2];
    for (int i = 0; i < 2; i++) to[i] = dx[i] == NULL ? NULL : dt__data_mut(dx[i]);
    c->kernels->moe_combine_backward(&p, dt__data(dy), to[0], to[1]);
}

const dt_op dt__op_moe_combine = {
    .name = "moe_combine",
    .text = "z[r] = sum over i of weights[r, i] y[r, i]",
    .in_name = { "y", "weights" },
    .out_name = { "z" },
    .saves = { .arg = { DT_VALUE, DT_VALUE } },
    .shape = shape,
    .forward = forward,
    .backward = backward,
};

dt_tensor *dt_moe_combine(dt_tape *t, dt_tensor *y, dt_tensor *weights)
{
    return dt_apply(t, &dt__op_moe_combine, DT__CALL(y, weights));
}

static const dt__case cases[] = {
    { "values",
      .in = { { { 2, 2, 2 }, .given = true, .values = { 1, 2, 3, 4, 5, 6, 7, 8 } },
              { { 2, 2 }, .given = true, .values = { 0.5, 0.25, 1, 0 } } },
      .n_y = 4, .y = { 1.25, 2, 5, 6 } },
    { "rows", .in = { { { 12, 5 } }, { { 4, 3 } } } },
    { "parts", .in = { { { 4, 3, 9 } }, { { 4, 3 } } } },
    { "one", .in = { { { 5, 1, 17 } }, { { 5, 1 } } } },
    { "large", .in = { { { 60, 2, 350 } }, { { 60, 2 } } }, .rough = true },
    { "no rows", .in = { { { 0, 2, 3 } }, { { 0, 2 } } } },
    { "no columns", .in = { { { 3, 2, 0 }, 3 }, { { 3, 2 } } } },
    { "no parts", .in = { { { 3, 0, 2 }, 3 }, { { 3, 0 }, 2 } }, .fails = DT_ERR_SHAPE,
      .says = "k at least 1" },
    { "other rows", .in = { { { 4, 2, 3 } }, { { 3, 2 } } }, .fails = DT_ERR_SHAPE,
      .says = "y must be [rows, k, C] or [rows * k, C] of weights [rows, k]" },
    { "other parts", .in = { { { 6, 3 } }, { { 4, 2 } } }, .fails = DT_ERR_SHAPE },
    { "rank", .in = { { { 6 } }, { { 3, 2 } } }, .fails = DT_ERR_SHAPE, .says = "rank 1" },
    { "two dtypes", .in = { { { 6, 3 } }, { { 3, 2 }, .other = true } }, .fails = DT_ERR_DTYPE },
    { "integers", .in = { { { 6, 3 }, .dtype = DT_I32 }, { { 3, 2 } } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(moe_combine, cases)

/* The router z-loss, which keeps logits small (Zoph et al. 2022).
 *     l = mean over rows of s^2,  s = log of the sum of exp(logits)
 *         dlogits = 2 s p dl / rows */
#include "autograd/op.h"
#include "ops/ops_list.h"

static dt_status shape(dt_call *c)
{
    DT__TRY(dt__want_operands(c, 1, 1));
    DT__TRY(dt__want_float(c, 0));
    DT__TRY(dt__want_rank(c, 0, 2, DT_MAX_RANK));
    if (dt__columns(c->in[0]) < 1)
        return dt_refuse(c, DT_ERR_SHAPE,
                         "the logits have no column; expected one for each expert");
    c->scratch_bytes = (size_t)dt__rows(c->in[0]) * sizeof(double);
    return dt_result(c, 0, c->in[0]->dtype, 0, NULL);
}

static dt__router_z problem(const dt_call *c)
{
    return (dt__router_z){ .rows = dt__rows(c->arg[0]),
                           .n = dt__columns(c->arg[0]),
                           .x = dt__data(c->arg[0]) };
}

static void forward(const dt_call *c)
{
    dt__router_z z = problem(c);
    double mean = 0;
    z.log_sum = c->scratch;
    c->kernels->router_z(&z);
    if (z.rows > 0) {
        const dt__kernels *wide = dt__kernels_of(c->ctx, DT_F64);
        wide->square(z.rows, z.log_sum, z.log_sum);
        wide->sum(&(dt__reduce){ .rank = 1,
                                 .dims = { z.rows },
                                 .over = { true },
                                 .divisor = (double)z.rows,
                                 .x = z.log_sum,
                                 .y = &mean });
    }
    c->kernels->fill(1, mean, dt__data_mut(c->y));
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const dt__router_z z = problem(c);
    c->kernels->router_z_backward(&z, 2 * dt__scalar(dy) / (double)z.rows, dt__data_mut(dx[0]));
}

const dt_op dt__op_router_z_loss = {
    .name = "router_z_loss",
    .text = "the mean over rows of (log of the sum of exp(logits))^2",
    .in_name = { "logits" },
    .out_name = { "loss" },
    .saves = { .arg = { DT_VALUE } },
    .shape = shape,
    .forward = forward,
    .backward = backward,
};

dt_tensor *dt_router_z_loss(dt_tape *t, dt_tensor *logits)
{
    return dt_apply(t, &dt__op_router_z_loss, DT__CALL(logits));
}

static const dt__case cases[] = {
    { "values", .in = { { { 2, 2 }, .given = true, .values = { 0, 0, 1, 1 } } }, .n_y = 1,
      .y = { 1.673600194478147 } },
    { "layers", .in = { { { 2, 5, 4 }, .low = -2, .high = 2 } } },
    { "large", .in = { { { 4, 3 }, .low = 80, .high = 100 } }, .rough = true },
    { "many experts", .in = { { { 5, 1100 } } }, .rough = true },
    { "many rows", .in = { { { 9000, 8 } } }, .rough = true },
    { "no rows", .in = { { { 0, 3 } } }, .n_y = 1, .y = { 0 } },
    { "no experts", .in = { { { 3, 0 }, 2 } }, .fails = DT_ERR_SHAPE, .says = "no column" },
    { "rank", .in = { { { 3 } } }, .fails = DT_ERR_SHAPE, .says = "rank 1" },
    { "integers", .in = { { { 2, 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(router_z_loss, cases)

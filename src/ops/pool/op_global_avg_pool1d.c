/* The mean of each line of x [N, C, L]: pool_ops.c. */
#include "ops/ops_list.h"
#include "ops/pool/pool_ops.h"

static void lower(dt_tape *t, dt_tensor *const *in, const void *options, dt_tensor **out)
{
    (void)options;
    out[0] = dt_mean(t, in[0], &(dt_reduce_options){ { 1, { 2 } }, false });
}

const dt_op dt__op_global_avg_pool1d = {
    .name = "global_avg_pool1d",
    .text = "the mean of each line",
    .in_name = { "x" },
    .out_name = { "y" },
    .shape = dt__global_avg_pool1d_shape,
    .forward = dt__global_avg_pool_forward,
    .backward = dt__global_avg_pool_backward,
    .scratch = dt__global_avg_pool_scratch,
    .lower = lower,
};

dt_tensor *dt_global_avg_pool1d(dt_tape *t, dt_tensor *x)
{
    return dt_apply(t, &dt__op_global_avg_pool1d, DT__CALL(x));
}

static const dt__case cases[] = {
    { "values", .in = { { { 1, 2, 4 }, .given = true, .values = { 1, 2, 3, 4, 5, 5, 5, 7 } } },
      .n_y = 2, .y = { 2.5, 5.5 } },
    { "random", .in = { { { 2, 3, 20 } } } },
    { "long", .in = { { { 4, 8, 1033 } } }, .rough = true },
    { "no signals", .in = { { { 0, 2, 4 } } } },
    { "no pixels", .in = { { { 2, 3, 0 }, 3 } }, .fails = DT_ERR_SHAPE,
      .says = "no pixel to average" },
    { "rank", .in = { { { 3, 4, 4, 2 } } }, .fails = DT_ERR_SHAPE, .says = "rank 4" },
    { "integers", .in = { { { 1, 1, 2 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(global_avg_pool1d, cases)

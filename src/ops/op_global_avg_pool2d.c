/* The mean of each plane of x [N, C, H, W].
 *     y[n, c, 0, 0] = (sum of x[n, c]) / (H W)      dx = dy / (H W), repeated */
#include "autograd/op.h"
#include "ops/ops_list.h"

static int64_t pixels(const dt_tensor *x) { return x->dims[2] * x->dims[3]; }

static dt_status shape(dt_call *c)
{
    DT__TRY(dt__want_operands(c, 1, 1));
    DT__TRY(dt__want_float(c, 0));
    DT__TRY(dt__want_rank(c, 0, 4, 4));
    const dt_tensor *x = c->in[0];
    if (pixels(x) == 0) return dt_refuse(c, DT_ERR_SHAPE, "a plane without a pixel has no mean");
    return dt_result(c, 0, x->dtype, 4, (const int64_t[]){ x->dims[0], x->dims[1], 1, 1 });
}

static void forward(const dt_call *c)
{
    const dt_tensor *x = c->arg[0];
    c->kernels->sum(&(dt__reduce){ .rank = 2,
                                   .dims = { c->y->count, pixels(x) },
                                   .over = { false, true },
                                   .divisor = (double)pixels(x),
                                   .x = dt__data(x),
                                   .y = dt__data_mut(c->y) });
}

static size_t scratch(const dt_call *c) { return (size_t)c->y->count * dt_dtype_size(c->y->dtype); }

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const int64_t n = pixels(dx[0]);
    if (dy->count == 0) return;
    c->kernels->scale(dy->count, 1 / (double)n, dt__data(dy), c->scratch);
    c->kernels->copy(&(dt__copy){ .rank = 2,
                                  .dims = { dy->count, n },
                                  .x = c->scratch,
                                  .x_strides = { 1, 0 },
                                  .y = dt__data_mut(dx[0]),
                                  .y_strides = { n, 1 } });
}

const dt_op dt__op_global_avg_pool2d = {
    .name = "global_avg_pool2d",
    .text = "the mean of each plane",
    .in_name = { "x" },
    .out_name = { "y" },
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .scratch = scratch,
};

dt_tensor *dt_global_avg_pool2d(dt_tape *t, dt_tensor *x)
{
    return dt_apply(t, &dt__op_global_avg_pool2d, DT__CALL(x));
}

static const dt__case cases[] = {
    { "values", .in = { { { 1, 2, 2, 2 }, .given = true, .values = { 1, 2, 3, 4, 5, 5, 5, 7 } } },
      .n_y = 2, .y = { 2.5, 5.5 } },
    { "random", .in = { { { 2, 3, 4, 5 } } } },
    { "threads", .in = { { { 4, 8, 33, 31 } } }, .rough = true },
    { "no images", .in = { { { 0, 2, 4, 4 } } } },
    { "no pixels", .in = { { { 2, 3, 0, 4 } } }, .fails = DT_ERR_SHAPE, .says = "without a pixel" },
    { "rank", .in = { { { 3, 4, 4 } } }, .fails = DT_ERR_SHAPE, .says = "rank 3" },
    { "integers", .in = { { { 1, 1, 2, 2 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(global_avg_pool2d, cases)

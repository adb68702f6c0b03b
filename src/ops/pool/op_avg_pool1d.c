/* The mean of each window of the lines of x [N, C, L]: pool_ops.c. */
#include "ops/ops_list.h"
#include "ops/shape/view.h"
#include "ops/pool/pool_ops.h"

static const dt_key keys[] = {
    DT__POOL_KEYS(DT_KEY_INT, "2", "0", "1"),
    DT__AVG_POOL_KEY,
    { 0 },
};

static void lower(dt_tape *t, dt_tensor *const *in, const void *given, dt_tensor **out)
{
    dt_pool_options o = *(const dt_pool_options *)given;
    o.kernel[1] = o.dilation[1] = 1;
    o.stride[1] = o.padding[1] = 0;
    dt_tensor *x = dt__line_to_plane(t, in[0]);
    out[0] = dt__plane_to_line(t, dt_avg_pool2d(t, x, &o));
}

const dt_op dt__op_avg_pool1d = {
    .name = "avg_pool1d",
    .text = "the mean of each window's pixels",
    .in_name = { "x" },
    .out_name = { "y" },
    DT__OP_OPTIONS(dt_pool_options, dt__pool_defaults, keys),
    .shape = dt__avg_pool1d_shape,
    .forward = dt__avg_pool_forward,
    .backward = dt__avg_pool_backward,
    .lower = lower,
};

dt_tensor *dt_avg_pool1d(dt_tape *t, dt_tensor *x, const dt_pool_options *options)
{
    return dt_apply(t, &dt__op_avg_pool1d, DT__CALL_WITH(options, x));
}

#define WITH(...) DT__WITH(dt_pool_options, __VA_ARGS__)

static const dt__case cases[] = {
    { "values",
      .in = { { { 1, 2, 5 }, .given = true, .values = { 1, 3, -1, -2, 7, 2, 0, -4, -3, 0 } } },
      .n_y = 4, .y = { 2, -1.5, 1, -3.5 } },
    { "padding counts", .in = { { { 1, 1, 2 }, .given = true, .values = { 4, 8 } } },
      .options =
          WITH(.kernel = { 2 }, .stride = { 1 }, .padding = { 1 }, .count_include_pad = true),
      .n_y = 3, .y = { 2, 6, 4 } },
    { "padding does not count", .in = { { { 1, 1, 2 }, .given = true, .values = { 4, 8 } } },
      .options = WITH(.kernel = { 2 }, .stride = { 1 }, .padding = { 1 }), .n_y = 3,
      .y = { 4, 6, 8 } },
    { "other axes are not read", .in = { { { 2, 3, 9 } } },
      .options = WITH(.kernel = { 3, -1 }, .stride = { 2, -1 }, .dilation = { 1, 3 }) },
    { "ceil", .in = { { { 2, 3, 8 } } },
      .options =
          WITH(.kernel = { 3 }, .stride = { 2 }, .ceil_mode = true, .count_include_pad = true) },
    { "long", .in = { { { 4, 8, 1033 } } },
      .options = WITH(.kernel = { 3 }, .stride = { 2 }, .padding = { 1 }), .rough = true },
    { "no channels", .in = { { { 2, 0, 4 } } } },
    { "dilation", .in = { { { 1, 1, 3 } } }, .options = WITH(.kernel = { 2 }, .dilation = { 2 }),
      .fails = DT_ERR_ARG, .says = "dilation is above 1" },
    { "does not fit", .in = { { { 1, 1, 3 } } }, .options = WITH(.kernel = { 4 }),
      .fails = DT_ERR_SHAPE, .says = "a window of 4 does not fit length 3 with padding 0" },
    { "rank", .in = { { { 3, 4 } } }, .fails = DT_ERR_SHAPE, .says = "rank 2" },
    { "integers", .in = { { { 1, 1, 2 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(avg_pool1d, cases)

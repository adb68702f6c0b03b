/* The mean of each window of the planes of x [N, C, H, W]: pool_ops.c. */
#include "ops/ops_list.h"
#include "ops/pool/pool_ops.h"

static const dt_key keys[] = {
    DT__POOL_KEYS(DT_KEY_PAIR, "2, 2", "0, 0", "1, 1"),
    DT__AVG_POOL_KEY,
    { 0 },
};

const dt_op dt__op_avg_pool2d = {
    .name = "avg_pool2d",
    .text = "the mean of each window's pixels",
    .in_name = { "x" },
    .out_name = { "y" },
    DT__OP_OPTIONS(dt_pool_options, dt__pool_defaults, keys),
    .shape = dt__avg_pool2d_shape,
    .forward = dt__avg_pool_forward,
    .backward = dt__avg_pool_backward,
};

dt_tensor *dt_avg_pool2d(dt_tape *t, dt_tensor *x, const dt_pool_options *options)
{
    return dt_apply(t, &dt__op_avg_pool2d, DT__CALL_WITH(options, x));
}

#define WITH(...) DT__WITH(dt_pool_options, __VA_ARGS__)

static const dt__case cases[] = {
    { "values", .in = { { { 1, 1, 2, 4 }, .given = true, .values = { 1, 3, -1, -2, 2, 0, 4, 3 } } },
      .n_y = 2, .y = { 1.5, 1 } },
    { "padding counts", .in = { { { 1, 1, 1, 2 }, .given = true, .values = { 4, 8 } } },
      .options = WITH(.kernel = { 1, 2 }, .stride = { 1, 1 }, .padding = { 0, 1 },
                      .count_include_pad = true),
      .n_y = 3, .y = { 2, 6, 4 } },
    { "padding does not count", .in = { { { 1, 1, 1, 2 }, .given = true, .values = { 4, 8 } } },
      .options = WITH(.kernel = { 1, 2 }, .stride = { 1, 1 }, .padding = { 0, 1 }), .n_y = 3,
      .y = { 4, 6, 8 } },
    { "quarters with a rest", .in = { { { 2, 3, 5, 7 } } } },
    { "threes that overlap", .in = { { { 2, 2, 7, 6 } } },
      .options = WITH(.kernel = { 3, 3 }, .stride = { 2, 2 }, .padding = { 1, 1 }) },
    { "clipped at both ends", .in = { { { 1, 2, 3, 3 } } },
      .options = WITH(.kernel = { 3, 3 }, .stride = { 1, 1 }, .padding = { 1, 1 }) },
    { "ceil", .in = { { { 1, 2, 6, 8 } } },
      .options = WITH(.kernel = { 3, 2 }, .stride = { 2, 3 }, .ceil_mode = true,
                      .count_include_pad = true) },
    { "a wide row", .in = { { { 1, 2, 3, 200 } } },
      .options = WITH(.kernel = { 2, 3 }, .stride = { 1, 3 }, .padding = { 1, 1 }), .rough = true },
    { "threads", .in = { { { 4, 8, 33, 31 } } },
      .options = WITH(.kernel = { 3, 3 }, .stride = { 2, 1 }, .padding = { 1, 1 }), .rough = true },
    { "quarters of threads", .in = { { { 4, 8, 33, 31 } } }, .rough = true },
    { "no channels", .in = { { { 2, 0, 4, 4 } } } },
    { "dilation", .in = { { { 1, 1, 3, 3 } } },
      .options = WITH(.kernel = { 2, 2 }, .dilation = { 1, 2 }), .fails = DT_ERR_ARG,
      .says = "dilation is above 1" },
    { "does not fit", .in = { { { 1, 1, 3, 3 } } }, .options = WITH(.kernel = { 4, 2 }),
      .fails = DT_ERR_SHAPE, .says = "a window of 4 does not fit height 3 with padding 0" },
    { "too much padding", .in = { { { 1, 1, 3, 3 } } },
      .options = WITH(.kernel = { 3, 3 }, .padding = { 0, 2 }), .fails = DT_ERR_ARG,
      .says = "padding 2 of the width is more than half of a window of 3" },
    { "rank", .in = { { { 3, 4 } } }, .fails = DT_ERR_SHAPE, .says = "rank 2" },
    { "integers", .in = { { { 1, 1, 2, 2 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(avg_pool2d, cases)

/* The largest pixel of each window of the planes of x [N, C, H, W]: pool_ops.c. */
#include "ops/ops_list.h"
#include "ops/pool/pool_ops.h"

static const dt_key keys[] = {
    DT__POOL_KEYS(DT_KEY_PAIR, "2, 2", "0, 0", "1, 1"),
    DT__MAX_POOL_KEY,
    { 0 },
};

const dt_op dt__op_max_pool2d = {
    .name = "max_pool2d",
    .text = "the largest pixel of each window",
    .in_name = { "x" },
    .out_name = { "y", "at", "index" },
    .saves = { .out = { DT_NOTHING, DT_VALUE } },
    DT__OP_OPTIONS(dt__max_pool_options, dt__max_pool_defaults, keys),
    .shape = dt__max_pool2d_shape,
    .forward = dt__max_pool_forward,
    .backward = dt__max_pool_backward,
};

dt_tensor *dt_max_pool2d(dt_tape *t, dt_tensor *x, const dt_pool_options *o, dt_tensor **index)
{
    return dt__max_pool_apply(t, &dt__op_max_pool2d, x, o, index);
}

#define WITH(...) DT__WITH(dt__max_pool_options, .pool = { __VA_ARGS__ })

static const dt__case cases[] = {
    { "values",
      .in = { { { 1, 1, 2, 4 }, .given = true, .values = { 1, 3, -1, -2, 2, 0, -4, -3 } } },
      .n_y = 2, .y = { 3, -1 } },
    { "ties, and padding that is never chosen",
      .in = { { { 1, 1, 2, 2 }, .given = true, .values = { -1, -1, -1, -2 } } },
      .options = WITH(.kernel = { 2, 2 }, .padding = { 1, 1 }, .stride = { 1, 1 }), .n_y = 9,
      .y = { -1, -1, -1, -1, -1, -1, -1, -1, -2 }, .rough = true },
    { "quarters with a rest", .in = { { { 2, 3, 5, 7 } } } },
    { "quarters, wide", .in = { { { 2, 2, 4, 140 } } }, .rough = true },
    { "threes that overlap", .in = { { { 2, 2, 7, 6 } } },
      .options = WITH(.kernel = { 3, 3 }, .stride = { 2, 2 }, .padding = { 1, 1 }) },
    { "ceil", .in = { { { 1, 2, 6, 8 } } },
      .options = WITH(.kernel = { 3, 2 }, .stride = { 2, 3 }, .ceil_mode = true) },
    { "dilation", .in = { { { 1, 2, 8, 9 } } },
      .options =
          WITH(.kernel = { 2, 3 }, .stride = { 3, 1 }, .padding = { 0, 1 }, .dilation = { 4, 2 }) },
    { "a wide row", .in = { { { 1, 2, 3, 200 } } },
      .options = WITH(.kernel = { 2, 3 }, .stride = { 1, 1 }, .padding = { 1, 1 }), .rough = true },
    { "a window of 300", .in = { { { 2, 1, 15, 21 } } },
      .options = WITH(.kernel = { 15, 20 }, .stride = { 1, 1 }) },
    { "threads", .in = { { { 4, 8, 33, 31 } } },
      .options = WITH(.kernel = { 3, 3 }, .stride = { 2, 2 }, .padding = { 1, 1 }), .rough = true },
    { "quarters of threads", .in = { { { 4, 8, 33, 31 } } }, .rough = true },
    { "no images", .in = { { { 0, 2, 4, 4 } } } },
    { "does not fit", .in = { { { 1, 1, 3, 3 } } }, .options = WITH(.kernel = { 2, 4 }),
      .fails = DT_ERR_SHAPE, .says = "a window of 4 does not fit width 3 with padding 0" },
    { "no rows", .in = { { { 1, 1, 0, 3 } } }, .fails = DT_ERR_SHAPE,
      .says = "does not fit height 0" },
    { "too much padding", .in = { { { 1, 1, 3, 3 } } },
      .options = WITH(.kernel = { 2, 2 }, .padding = { 2, 0 }), .fails = DT_ERR_ARG,
      .says = "padding 2 of the height is more than half of a window of 2" },
    { "without a pixel", .in = { { { 1, 1, 4, 1 } } },
      .options = WITH(.kernel = { 2, 2 }, .padding = { 0, 2 }, .dilation = { 1, 3 }),
      .fails = DT_ERR_SHAPE, .says = "in the padding of the width, without a pixel" },
    { "kernel", .in = { { { 1, 1, 3, 3 } } }, .options = WITH(.kernel = { 0, 2 }),
      .fails = DT_ERR_ARG, .says = "kernel of the height is 0, below 1" },
    { "stride", .in = { { { 1, 1, 3, 3 } } },
      .options = WITH(.kernel = { 2, 2 }, .stride = { 1, -1 }), .fails = DT_ERR_ARG,
      .says = "stride of the width is -1" },
    { "padding", .in = { { { 1, 1, 3, 3 } } },
      .options = WITH(.kernel = { 2, 2 }, .padding = { -1, 0 }), .fails = DT_ERR_ARG,
      .says = "padding of the height is -1" },
    { "dilation below 1", .in = { { { 1, 1, 3, 3 } } },
      .options = WITH(.kernel = { 2, 2 }, .dilation = { -1, 0 }), .fails = DT_ERR_ARG,
      .says = "dilation of the height is -1" },
    { "overflow", .in = { { { 1, 1, 3, 3 } } },
      .options = WITH(.kernel = { INT64_MAX, 2 }, .dilation = { 3, 1 }), .fails = DT_ERR_SHAPE,
      .says = "the height of a window is too large" },
    { "padding without end", .in = { { { 1, 1, 3, 3 } } },
      .options = WITH(.kernel = { INT64_MAX, 2 }, .padding = { INT64_MAX / 2, 0 }),
      .fails = DT_ERR_SHAPE, .says = "does not fit height 3" },
    { "rank", .in = { { { 3, 4, 4 } } }, .fails = DT_ERR_SHAPE, .says = "rank 3" },
    { "integers", .in = { { { 1, 1, 2, 2 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(max_pool2d, cases)

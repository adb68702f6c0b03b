/* The largest pixel of each window of the lines of x [N, C, L]: pool_ops.c. */
#include "ops/ops_list.h"
#include "ops/shape/view.h"
#include "ops/pool/pool_ops.h"

static const dt_key keys[] = {
    DT__POOL_KEYS(DT_KEY_INT, "2", "0", "1"),
    DT__MAX_POOL_KEY,
    { 0 },
};

static void lower(dt_tape *t, dt_tensor *const *in, const void *given, dt_tensor **out)
{
    dt_pool_options o = ((const dt__max_pool_options *)given)->pool;
    o.kernel[1] = o.dilation[1] = 1;
    o.stride[1] = o.padding[1] = 0;
    dt_tensor *x = dt__line_to_plane(t, in[0]);
    out[0] = dt__plane_to_line(t, dt_max_pool2d(t, x, &o, NULL));
}

const dt_op dt__op_max_pool1d = {
    .name = "max_pool1d",
    .text = "the largest pixel of each window",
    .in_name = { "x" },
    .out_name = { "y", "at", "index" },
    .saves = { .out = { DT_NOTHING, DT_VALUE } },
    DT__OP_OPTIONS(dt__max_pool_options, dt__max_pool_defaults, keys),
    .shape = dt__max_pool1d_shape,
    .forward = dt__max_pool_forward,
    .backward = dt__max_pool_backward,
    .lower = lower,
};

dt_tensor *dt_max_pool1d(dt_tape *t, dt_tensor *x, const dt_pool_options *o, dt_tensor **index)
{
    return dt__max_pool_apply(t, &dt__op_max_pool1d, x, o, index);
}

#define WITH(...) DT__WITH(dt__max_pool_options, .pool = { __VA_ARGS__ })

static const dt__case cases[] = {
    { "values",
      .in = { { { 1, 2, 5 }, .given = true, .values = { 1, 3, -1, -2, 7, 2, 0, -4, -3, 0 } } },
      .n_y = 4, .y = { 3, -1, 2, -3 } },
    { "ties, and padding that is never chosen",
      .in = { { { 1, 1, 3 }, .given = true, .values = { -1, -1, -2 } } },
      .options = WITH(.kernel = { 3 }, .padding = { 1 }, .stride = { 1 }), .n_y = 3,
      .y = { -1, -1, -1 }, .rough = true },
    { "other axes are not read", .in = { { { 2, 3, 9 } } },
      .options = WITH(.kernel = { 3, -1 }, .stride = { 2, -1 }, .padding = { 1, 9 }) },
    { "overlapping", .in = { { { 2, 3, 13 } } },
      .options = WITH(.kernel = { 4 }, .stride = { 3 }, .padding = { 2 }) },
    { "ceil", .in = { { { 2, 3, 8 } } },
      .options = WITH(.kernel = { 3 }, .stride = { 2 }, .ceil_mode = true) },
    { "dilation", .in = { { { 2, 3, 11 } } },
      .options = WITH(.kernel = { 3 }, .stride = { 1 }, .dilation = { 2 }) },
    { "a window of 300", .in = { { { 2, 1, 321 } } },
      .options = WITH(.kernel = { 300 }, .stride = { 1 }), .rough = true },
    { "long", .in = { { { 4, 8, 1033 } } },
      .options = WITH(.kernel = { 3 }, .stride = { 2 }, .padding = { 1 }), .rough = true },
    { "no signals", .in = { { { 0, 2, 4 } } } },
    { "does not fit", .in = { { { 1, 1, 3 } } }, .options = WITH(.kernel = { 4 }),
      .fails = DT_ERR_SHAPE, .says = "a window of 4 does not fit length 3 with padding 0" },
    { "too much padding", .in = { { { 1, 1, 3 } } },
      .options = WITH(.kernel = { 2 }, .padding = { 2 }), .fails = DT_ERR_ARG,
      .says = "padding 2 of the length is more than half of a window of 2" },
    { "without a pixel", .in = { { { 1, 1, 1 } } },
      .options = WITH(.kernel = { 2 }, .padding = { 2 }, .dilation = { 3 }), .fails = DT_ERR_SHAPE,
      .says = "in the padding of the length, without a pixel" },
    { "kernel", .in = { { { 1, 1, 3 } } }, .options = WITH(.kernel = { 0 }), .fails = DT_ERR_ARG,
      .says = "kernel of the length is 0, below 1" },
    { "rank", .in = { { { 3, 4, 4, 4 } } }, .fails = DT_ERR_SHAPE, .says = "rank 4" },
    { "integers", .in = { { { 1, 1, 2 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(max_pool1d, cases)

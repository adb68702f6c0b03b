/* 1d convolution.      y[n,o,i] = b[o] + sum of x[n, c, i s - p + k d] w[o,c,k] */
#include "ops/convolution/conv_codes.h"
#include "ops/ops_list.h"

static const dt_key keys[] = {
    DT__CONV_KEYS(DT_KEY_INT, "1", "0"),
    { 0 },
};

static void lower(dt_tape *t, dt_tensor *const *in, const void *given, dt_tensor **out)
{
    dt__conv_lower_line(t, in, given, out, dt_conv2d);
}

DT__CONV_OP(conv1d,
            "y[n,o,i] = bias[o] + sum of x[n, c, i stride - padding + k dilation] weight[o,c,k]",
            keys, lower)

#define WITH(s, p, d, g)                                                                           \
    DT__WITH(dt_conv_options, .stride = { s }, .padding = { p }, .dilation = { d }, .groups = g)

static const dt__case cases[] = {
    { "values",
      .in = { { { 1, 1, 3 }, .given = true, .values = { 1, 2, 3 } },
              { { 1, 1, 2 }, .given = true, .values = { 10, 1 } },
              { { 1 }, .given = true, .values = { 0.5 } } },
      .n_y = 2, .y = { 12.5, 23.5 } },
    { "random", .in = { { { 2, 3, 9 } }, { { 4, 3, 3 } }, { { 4 } } } },
    { "stride", .in = { { { 2, 3, 10 } }, { { 4, 3, 4 } } }, .options = WITH(3, 2, 1, 1) },
    { "dilation", .in = { { { 2, 3, 9 } }, { { 4, 3, 3 } }, { { 4 } } },
      .options = WITH(1, 1, 2, 1) },
    { "groups", .in = { { { 2, 4, 9 } }, { { 6, 2, 3 } }, { { 6 } } },
      .options = WITH(1, 0, 1, 2) },
    { "depthwise", .in = { { { 2, 9, 7 } }, { { 9, 1, 3 } }, { { 9 } } },
      .options = WITH(2, 1, 1, 9) },
    { "many", .in = { { { 5, 16, 100 } }, { { 24, 16, 5 } }, { { 24 } } },
      .options = WITH(1, 2, 1, 1), .rough = true },
    { "no signals", .in = { { { 0, 3, 9 } }, { { 4, 3, 3 } }, { { 4 } } } },
    { "channels", .in = { { { 2, 3, 9 } }, { { 4, 2, 3 } } }, .fails = DT_ERR_SHAPE,
      .says = "x has 3 channels, weight takes 2" },
    { "kernel", .in = { { { 2, 3, 2 } }, { { 4, 3, 3 } } }, .fails = DT_ERR_SHAPE,
      .says = "the kernel reaches over 3 columns, x has 2 with padding" },
    { "rank", .in = { { { 2, 3, 5, 6 } }, { { 4, 3, 3 } } }, .fails = DT_ERR_SHAPE,
      .says = "x has rank 4" },
    { "integers", .in = { { { 2, 3, 9 }, .dtype = DT_I32 }, { { 4, 3, 3 } } },
      .fails = DT_ERR_DTYPE },
};
DT__CASES(conv1d, cases)
